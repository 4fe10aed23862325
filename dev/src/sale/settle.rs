//! After the sale: waits until queues and stream are empty, reconciles twice, and reads what was found.

use std::sync::atomic::Ordering;
use std::time::Duration;

use holdfast::domain::repair::GRACE_MS;
use serde::Serialize;
use serde_json::Value;
use tokio::time::Instant;

use crate::checks::agreement;
use crate::stack::{Stack, StartError};

/// How long queues and stream may take to run empty.
const DRAIN_LIMIT: Duration = Duration::from_mins(5);
const POLL: Duration = Duration::from_millis(200);
/// Idle reads of the stream that show that nothing is under way.
const IDLE_READS: u64 = 3;
/// Reconciliations after which both stores have to agree.
const RUNS: usize = 2;

/// What settling took and found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Settled {
    /// Until queues and stream were empty.
    pub drained_s: f64,
    pub stream_records: u64,
    pub stream_failures: u64,
    pub roll_backs: u64,
    /// Places where the stores differed before the first reconciliation.
    pub differences_before: usize,
    /// The report of each reconciliation.
    pub reconciliations: Vec<Value>,
    /// Whether the grace of a repair had to be waited for.
    pub waited_for_grace: bool,
}

/// Until both stores of these activities are at rest.
///
/// # Errors
/// When the stack does not answer, or the queues do not run empty in time.
pub async fn settle(stack: &Stack, activities: &[&str]) -> Result<Settled, StartError> {
    let began = Instant::now();
    drain(stack).await?;
    let mut settled = Settled { drained_s: began.elapsed().as_secs_f64(), ..Settled::default() };
    settled.differences_before = differences(stack, activities).await?;
    reconcile(stack, &mut settled).await?;
    if differences(stack, activities).await? > 0 {
        // What is younger than the grace is left alone by design: it could still be on its way.
        settled.waited_for_grace = true;
        tokio::time::sleep(Duration::from_millis(GRACE_MS.unsigned_abs()) + Duration::from_secs(5)).await;
        reconcile(stack, &mut settled).await?;
    }
    settled.stream_records = stack.stream.records.load(Ordering::Relaxed);
    settled.stream_failures = stack.stream.failures.load(Ordering::Relaxed);
    settled.roll_backs = stack.roll_back.received.load(Ordering::Relaxed);
    Ok(settled)
}

async fn reconcile(stack: &Stack, settled: &mut Settled) -> Result<(), StartError> {
    for _ in 0..RUNS {
        settled.reconciliations.push((stack.reconcile)().await?);
    }
    // Repairs are changes as well: their audit rows have to arrive.
    drain(stack).await
}

async fn differences(stack: &Stack, activities: &[&str]) -> Result<usize, StartError> {
    let mut count = 0;
    for activity in activities {
        let snapshot = stack.stores.snapshot(activity).await?;
        count += snapshot.map_or(0, |snapshot| agreement::differences(&snapshot).len());
    }
    Ok(count)
}

/// Until the queues are empty, the stream is read to its end and no event arrives any more.
///
/// # Errors
/// When that takes too long.
pub async fn drain(stack: &Stack) -> Result<(), StartError> {
    let limit = Instant::now() + DRAIN_LIMIT;
    let mut seen = (0, 0, 0);
    loop {
        let idle_before = stack.stream.idle_reads.load(Ordering::Relaxed);
        while stack.stream.idle_reads.load(Ordering::Relaxed) < idle_before + IDLE_READS {
            if Instant::now() > limit {
                return Err("the stream did not run empty".into());
            }
            tokio::time::sleep(POLL).await;
        }
        let waiting = stack.messages_waiting().await?;
        let now = (
            stack.stream.records.load(Ordering::Relaxed),
            stack.roll_back.received.load(Ordering::Relaxed),
            stack.fulfilment.count(),
        );
        if waiting == 0 && now == seen {
            return Ok(());
        }
        if Instant::now() > limit {
            return Err(format!("{waiting} messages are left in the queues").into());
        }
        seen = now;
    }
}
