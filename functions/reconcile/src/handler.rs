//! The schedule: one reconciliation run, within the time that the function has.

use std::time::Duration;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate},
    app::reconcile::{Reconcile, Report},
    lambda::Wiring,
    ports::{Fault, SystemClock},
};
use tokio::time::Instant;

/// Kept back of the function's time: for the bucket under way, the progress and the report.
pub const RESERVE: Duration = Duration::from_secs(20);

pub struct Handler {
    use_case: Reconcile<Database, Gate, SystemClock>,
}

#[must_use]
pub fn handler(wiring: Wiring) -> Handler {
    let Wiring { gate, database, .. } = wiring;
    Handler { use_case: Reconcile { store: database, gate, clock: SystemClock } }
}

impl Handler {
    /// One run that ends within this time.
    pub async fn handle(&self, time_left: Duration) -> Result<Report, Fault> {
        let deadline = Instant::now() + time_left.saturating_sub(RESERVE).max(time_left / 2);
        let report = self.use_case.run(deadline).await.inspect_err(|fault| {
            tracing::error!(fault = fault.chain(), "fault");
        })?;
        tracing::info!(
            activities = report.activities,
            buckets = report.buckets,
            compared = report.compared,
            findings = report.findings.values().map(|found| found.count).sum::<u64>(),
            faults = report.faults,
            complete = report.complete,
            "reconcile"
        );
        Ok(report)
    }
}
