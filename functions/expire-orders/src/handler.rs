//! The schedule: closes orders that were not paid in time.

use std::time::Duration;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate, sqs::Queues},
    app::expire_orders::{ExpireOrders, ExpiryReport},
    lambda::Wiring,
    ports::{Fault, SystemClock},
};
use tokio::time::Instant;

/// Kept back of the function's time: for the orders under way and where the next run begins.
pub const RESERVE: Duration = Duration::from_secs(10);

pub struct Handler {
    use_case: ExpireOrders<Database, Gate, Queues, SystemClock>,
}

#[must_use]
pub fn handler(wiring: Wiring) -> Handler {
    let Wiring { gate, database, queues, .. } = wiring;
    Handler { use_case: ExpireOrders { store: database, gate, messages: queues, clock: SystemClock } }
}

impl Handler {
    /// One run that ends within this time.
    ///
    /// # Errors
    /// When the activities cannot be listed.
    pub async fn handle(&self, time_left: Duration) -> Result<ExpiryReport, Fault> {
        let deadline = Instant::now() + time_left.saturating_sub(RESERVE).max(time_left / 2);
        let report = self.use_case.run(deadline).await.inspect_err(|fault| {
            tracing::error!(fault = fault.chain(), "fault");
        })?;
        tracing::info!(
            activities = report.activities,
            looked_at = report.looked_at,
            expired = report.expired,
            faults = report.faults,
            complete = report.complete,
            "expire_orders"
        );
        Ok(report)
    }
}
