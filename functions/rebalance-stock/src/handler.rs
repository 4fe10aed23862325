//! The schedule: moves stock between the buckets of running sales.

use std::time::Duration;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate},
    app::rebalance_stock::{RebalanceReport, RebalanceStock},
    lambda::Wiring,
    ports::{Fault, SystemClock},
};
use tokio::time::Instant;

/// Kept back of the function's time: for the moves under way and their allotments.
pub const RESERVE: Duration = Duration::from_secs(10);

pub struct Handler {
    use_case: RebalanceStock<Database, Gate, SystemClock>,
}

#[must_use]
pub fn handler(wiring: Wiring) -> Handler {
    let Wiring { gate, database, .. } = wiring;
    Handler { use_case: RebalanceStock { store: database, gate, clock: SystemClock } }
}

impl Handler {
    /// One run that ends within this time.
    ///
    /// # Errors
    /// When the activities cannot be listed.
    pub async fn handle(&self, time_left: Duration) -> Result<RebalanceReport, Fault> {
        let deadline = Instant::now() + time_left.saturating_sub(RESERVE).max(time_left / 2);
        let report = self.use_case.run(deadline).await.inspect_err(|fault| {
            tracing::error!(fault = fault.chain(), "fault");
        })?;
        tracing::info!(
            activities = report.activities,
            moves = report.moves,
            units = report.units,
            faults = report.faults,
            complete = report.complete,
            "rebalance_stock"
        );
        Ok(report)
    }
}
