//! Waiting for a condition with a deadline.

use std::io;
use std::time::{Duration, Instant};

/// Pause between two probes. Short, because server start-up is measured in milliseconds.
const PROBE_PAUSE: Duration = Duration::from_millis(2);

/// Calls `probe` until it answers `Ok(Some(value))`.
///
/// The deadline is kept with the system's clock: a test may have paused tokio's.
///
/// # Errors
/// The probe's own error, or [`io::ErrorKind::TimedOut`] naming `what` after `limit`.
pub async fn until<T, F>(what: &str, limit: Duration, mut probe: F) -> io::Result<T>
where
    F: AsyncFnMut() -> io::Result<Option<T>>,
{
    let deadline = Instant::now() + limit;
    loop {
        if let Some(value) = probe().await? {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            let text = format!("{what}: not within {} ms", limit.as_millis());
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        tokio::time::sleep(PROBE_PAUSE).await;
    }
}
