//! One run of the reconciliation in a process of its own.

use std::collections::BTreeMap;
use std::time::Instant;

use harness::Clients;
use holdfast::adapters::dynamodb::Database;
use holdfast::adapters::redis::Gate;
use holdfast::app::reconcile::{OnDemand, Reconcile};
use holdfast::config::RedisConfig;
use holdfast::domain::ids::ActivityId;
use holdfast::domain::repair::Finding;
use holdfast::domain::time::UnixMillis;
use holdfast::ports::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use crate::args::SizePass;
use crate::stack::StartError;

/// What one run did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Done {
    pub complete: bool,
    pub seconds: f64,
    pub compared: u64,
    pub full_buckets: u32,
    pub found: BTreeMap<Finding, (u64, u64)>,
    pub faults: u32,
    pub peak_kb: u64,
    pub slowest_bucket_ms: u64,
}

struct Ahead(i64);

impl Clock for Ahead {
    fn now(&self) -> UnixMillis {
        SystemClock.now().plus_ms(self.0)
    }
}

/// Runs and answers what it did.
///
/// # Errors
/// When a server does not answer, or another run is at it.
pub async fn run_pass(options: SizePass) -> Result<Done, StartError> {
    let sdk = Clients::new(&options.dynamodb, &options.dynamodb).await;
    let store = Database::new(sdk.dynamodb.clone(), sdk.tables.clone());
    let redis = RedisConfig::new(vec![options.redis], false, 1_000);
    let run = Reconcile { store, gate: Gate::new(Some(redis)), clock: Ahead(options.ahead_ms) };
    let began = Instant::now();
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_millis(options.time_ms);
    let report = match options.only {
        None => Box::pin(run.run(deadline)).await.map_err(|fault| fault.chain())?,
        Some(id) => {
            let id = ActivityId::parse(&id)?;
            match Box::pin(run.run_activity(&id, deadline)).await.map_err(|fault| fault.chain())? {
                OnDemand::Done(report) => *report,
                other => return Err(format!("{other:?}").into()),
            }
        }
    };
    Ok(Done {
        complete: report.complete,
        seconds: began.elapsed().as_secs_f64(),
        compared: report.compared,
        full_buckets: report.full_buckets,
        found: report.findings.into_iter().map(|(kind, found)| (kind, (found.count, found.repaired))).collect(),
        faults: report.faults + report.busy,
        peak_kb: peak_kb(),
        slowest_bucket_ms: report.slowest_bucket_ms,
    })
}

/// The most memory that this process ever had; 0 where the system does not tell.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse().ok()).unwrap_or(0)
}
