//! What a case wants to be set up.

use std::sync::Arc;
use std::time::Duration;

use holdfast::domain::token::TokenKeys;
use holdfast::lambda::Wiring;
use servers::RedisOptions;

use crate::functions::Functions;

/// Which Redis stands behind the functions.
#[derive(Clone, Debug)]
pub enum RedisKind {
    Single(RedisOptions),
    /// A primary and a replica whose link goes through a proxy of its own.
    Pair,
    Cluster,
}

/// How the second process of a deployment is made of its clients.
pub type SecondProcess = fn(&Wiring, &Arc<TokenKeys>) -> Functions;

/// What a fault wants to be set up.
#[derive(Clone, Debug)]
pub struct Setup {
    pub redis: RedisKind,
    /// How long one call of Redis may take, in milliseconds. More than on AWS: all shares a machine.
    pub redis_deadline_ms: u64,
    /// Units of each SKU.
    pub units: u64,
    pub skus: Vec<&'static str>,
    pub buckets: u16,
    pub bucket_rate: u32,
    /// Units per buyer.
    pub limit: u32,
    /// Tasks that are one buyer after another.
    pub buyers: usize,
    pub patience: Duration,
    /// Added to every call of the database.
    pub latency: Duration,
    /// Interval of the reconciliation; `None` is never.
    pub reconcile_every: Option<Duration>,
    /// Half of all calls go to a process of its own, with a proxy of its own.
    pub second: Option<SecondProcess>,
    /// Changes how functions are called.
    pub wrap: Option<fn(Functions) -> Functions>,
    /// Roll-back messages come without the delay that they are sent with.
    pub early_messages: bool,
    /// Answers that this fault allows beside the usual ones.
    pub allowed: &'static [&'static str],
    /// Whether Redis's counters are put out of step on purpose. Otherwise no sum may need correction.
    pub breaks_sums: bool,
    /// Whether orders have to be accepted again when the fault is over.
    pub recovers: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            redis: RedisKind::Single(RedisOptions::default()),
            redis_deadline_ms: 300,
            units: 400,
            skus: vec!["a", "b"],
            buckets: 4,
            bucket_rate: 500,
            limit: 2,
            buyers: 16,
            patience: Duration::from_secs(5),
            latency: Duration::from_millis(2),
            reconcile_every: Some(Duration::from_secs(1)),
            second: None,
            wrap: None,
            early_messages: false,
            allowed: &[],
            breaks_sums: false,
            recovers: true,
        }
    }
}
