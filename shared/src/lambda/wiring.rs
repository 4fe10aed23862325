//! A function's clients.

use crate::{
    adapters::{dynamodb::Database, redis::Gate, sqs::Queues},
    app::activity_cache::ActivityCache,
    config,
    domain::rate::SharedRate,
};

/// A function's clients, shared by all requests that it serves.
#[derive(Clone)]
pub struct Wiring {
    pub gate: Gate,
    pub database: Database,
    pub queues: Queues,
    pub cache: ActivityCache<Database>,
    pub degraded_rate: SharedRate,
    pub backlog_max: u64,
}

impl Wiring {
    /// As the only process of its function.
    #[must_use]
    pub fn new(gate: Gate, database: Database, queues: Queues) -> Self {
        let cache = ActivityCache::new(database.clone());
        let degraded_rate = SharedRate { per_second: config::DEGRADED_RATE, processes: 1 };
        Self { gate, database, queues, cache, degraded_rate, backlog_max: u64::from(config::BACKLOG) }
    }
}
