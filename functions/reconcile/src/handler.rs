//! The schedule: one reconciliation run, within the time that the function has.

use std::time::Duration;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate, sqs::Queues},
    app::{
        reconcile::{Reconcile, Report},
        watch_backlog::WatchBacklog,
    },
    lambda::Wiring,
    ports::{Fault, SystemClock},
};
use tokio::time::Instant;

/// Kept back of the function's time: for the bucket under way, the progress and the report.
pub const RESERVE: Duration = Duration::from_secs(20);

pub struct Handler {
    use_case: Reconcile<Database, Gate, SystemClock>,
    backlog: WatchBacklog<Database, Queues, SystemClock>,
}

#[must_use]
pub fn handler(wiring: Wiring) -> Handler {
    let Wiring { gate, database, queues, backlog_max, .. } = wiring;
    let backlog = WatchBacklog::new(database.clone(), queues, SystemClock, backlog_max, "reconcile");
    Handler { use_case: Reconcile { store: database, gate, clock: SystemClock }, backlog }
}

impl Handler {
    /// One run that ends within this time.
    pub async fn handle(&self, time_left: Duration) -> Result<Report, Fault> {
        // First: it is quick, and must not depend on how the run ends.
        if let Err(fault) = self.backlog.run().await {
            tracing::warn!(fault = fault.chain(), "backlog_not_judged");
        }
        let deadline = Instant::now() + time_left.saturating_sub(RESERVE).max(time_left / 2);
        let report = self.use_case.run(deadline).await.inspect_err(|fault| {
            tracing::error!(fault = fault.chain(), "fault");
        })?;
        tracing::info!(
            activities = report.activities,
            buckets = report.buckets,
            full_buckets = report.full_buckets,
            slowest_bucket_ms = report.slowest_bucket_ms,
            busy = report.busy,
            superseded = report.superseded,
            compared = report.compared,
            findings = report.findings.values().map(|found| found.count).sum::<u64>(),
            faults = report.faults,
            complete = report.complete,
            "reconcile"
        );
        Ok(report)
    }
}
