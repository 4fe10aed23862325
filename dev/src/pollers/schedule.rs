//! The schedules.

use std::time::Duration;

use crate::background::Stop;
use crate::functions::ScheduledFunction;

/// Calls the function at every interval, the first time after one interval, until told to stop. A run
/// that takes longer than the interval delays the next: two never overlap.
pub async fn run(name: &'static str, function: ScheduledFunction, every: Duration, mut stop: Stop) {
    loop {
        stop.sleep(every).await;
        if stop.is_set() {
            return;
        }
        let call = function();
        // A task of its own, so that a panic does not end the schedule.
        match tokio::spawn(call).await {
            Ok(Ok(report)) => tracing::info!(name, %report, "scheduled"),
            Ok(Err(error)) => tracing::error!(name, error, "scheduled run failed"),
            Err(error) => tracing::error!(name, %error, "scheduled run panicked"),
        }
    }
}
