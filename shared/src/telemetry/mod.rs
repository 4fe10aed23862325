//! What a function tells beside its answers: numbers, and the trace that its work belongs to.
//!
//! Nothing of it is global: each invocation has a scope, so that a process can serve many at a time. Outside of
//! a scope counting does nothing. How the numbers leave the process is for [`crate::lambda::emf`].

mod meter;
mod metric;
mod trace;

use std::{future::Future, sync::Arc};

use tokio::time::Instant;

pub use self::{
    meter::{ACTIVITIES_MAX, HOLD_MS, Held, Label, Meter, OTHER, VALUES_MAX, Value},
    metric::{Metric, Unit},
    trace::Trace,
};
use crate::{
    domain::ids::ActivityId,
    ports::{Clock as _, SystemClock},
};

/// What one invocation carries with it.
#[derive(Clone, Default)]
struct Scope {
    trace: Option<Arc<Trace>>,
    meter: Option<Arc<Meter>>,
}

tokio::task_local! {
    static SCOPE: Scope;
}

fn scope() -> Scope {
    SCOPE.try_with(Clone::clone).unwrap_or_default()
}

/// One invocation's work: what it counts goes to this meter, what it logs and sends carries this trace.
pub async fn scoped<T>(meter: Option<Arc<Meter>>, trace: Option<Trace>, work: impl Future<Output = T>) -> T {
    SCOPE.scope(Scope { meter, trace: trace.map(Arc::new) }, work).await
}

/// Work that belongs to another trace than the invocation: a message or a stream record of an earlier one. Without
/// a trace of its own it stays with the invocation's.
pub async fn traced<T>(trace: Option<Trace>, work: impl Future<Output = T>) -> T {
    let mut inner = scope();
    inner.trace = trace.map(Arc::new).or(inner.trace);
    SCOPE.scope(inner, work).await
}

/// Takes the scope along into a task of its own.
pub fn carried<T>(work: impl Future<Output = T>) -> impl Future<Output = T> {
    SCOPE.scope(scope(), work)
}

/// The trace that the running work belongs to.
#[must_use]
pub fn trace() -> Option<Arc<Trace>> {
    scope().trace
}

/// Adds to a count.
pub fn count(metric: Metric, n: u64) {
    count_in(None, metric, n);
}

/// Adds to a count of one activity that exists: others would have no bound.
pub fn count_in<'a>(activity: impl Into<Option<&'a ActivityId>>, metric: Metric, n: u64) {
    with_meter(|meter| meter.count(activity.into(), metric, n, SystemClock.now()));
}

/// Notes one value.
pub fn record(metric: Metric, value: f64) {
    record_in(None, metric, value);
}

/// Notes one value of one activity that exists.
pub fn record_in<'a>(activity: impl Into<Option<&'a ActivityId>>, metric: Metric, value: f64) {
    with_meter(|meter| meter.record(activity.into(), metric, value, SystemClock.now()));
}

/// Notes how long something took since then, in milliseconds.
pub fn record_since(metric: Metric, since: Instant) {
    record(metric, ms_since(since));
}

/// Milliseconds since then, in thousandths.
#[must_use]
pub fn ms_since(since: Instant) -> f64 {
    (since.elapsed().as_secs_f64() * 1_000_000.0).round() / 1_000.0
}

fn with_meter(note: impl FnOnce(&Meter)) {
    let _ = SCOPE.try_with(|scope| scope.meter.as_deref().map(note));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace_of(digit: char) -> Trace {
        Trace::parse(&format!("Root=1-6789abcd-{}", digit.to_string().repeat(24))).unwrap()
    }

    fn id() -> Option<String> {
        trace().map(|trace| trace.id().to_owned())
    }

    #[tokio::test]
    async fn each_invocation_has_its_own_trace_and_tasks_take_it_along() {
        assert_eq!(id(), None);
        count(Metric::Orders, 1);
        let (one, other) = (trace_of('1'), trace_of('2'));
        let work = |trace: Trace| async {
            let before = trace.id().to_owned();
            scoped(None, Some(trace), async move {
                tokio::task::yield_now().await;
                assert_eq!(id(), Some(before.clone()));
                let inner = traced(Some(trace_of('3')), async { id() }).await;
                assert_eq!(inner.unwrap(), trace_of('3').id());
                assert_eq!(traced(None, async { id() }).await, Some(before.clone()));
                let lost = tokio::spawn(async { id() }).await.unwrap();
                let kept = tokio::spawn(carried(async { id() })).await.unwrap();
                assert_eq!((lost, kept), (None, Some(before.clone())));
                assert_eq!(id(), Some(before));
            })
            .await;
        };
        tokio::join!(work(one), work(other));
    }
}
