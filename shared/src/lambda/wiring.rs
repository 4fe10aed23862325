//! Building a function's clients once, from its configuration.

use crate::{
    adapters::{aws, dynamodb::Database, redis::Gate, sqs::Queues},
    app::activity_cache::ActivityCache,
    config::{self, QueueConfig, Reader, RedisConfig, TableConfig},
    domain::rate::SharedRate,
};

/// What a function needs beside the tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    pub gate: bool,
    /// Sends to the roll-back queue.
    pub roll_back_queue: bool,
    /// Sends to the fulfilment queue and to the relay's dead letters.
    pub relay_queues: bool,
}

/// Settings that were read, before anything is connected.
pub struct Settings {
    tables: TableConfig,
    redis: Option<RedisConfig>,
    queues: QueueConfig,
    degraded_rate: SharedRate,
    backlog_max: u64,
}

impl Settings {
    /// Errors stay in the reader, so that all of them are told at once.
    pub fn read(reader: &mut Reader, needs: Needs) -> Self {
        let tables = reader.tables();
        let redis = if needs.gate { reader.redis() } else { None };
        let queues = match needs {
            Needs { relay_queues: true, .. } => reader.relay_queues(),
            Needs { roll_back_queue: true, .. } => reader.roll_back_queue(),
            Needs { .. } => QueueConfig::default(),
        };
        let (degraded_rate, backlog_max) = (reader.degraded_rate(), reader.backlog_max());
        Self { tables, redis, queues, degraded_rate, backlog_max }
    }

    /// Makes the clients. Redis is connected by its first call, so that a function starts without it.
    pub async fn connect(self) -> Wiring {
        let config = aws::sdk_config().await;
        let database = Database::new(aws_sdk_dynamodb::Client::new(&config), self.tables);
        let queues = Queues::new(aws_sdk_sqs::Client::new(&config), self.queues);
        let (degraded_rate, backlog_max) = (self.degraded_rate, self.backlog_max);
        Wiring { degraded_rate, backlog_max, ..Wiring::new(Gate::new(self.redis), database, queues) }
    }
}

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
