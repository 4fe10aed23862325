//! What a test sees and steers of the calls that reach a server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One way for a call to go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Answered 500, not applied.
    Error500,
    /// Answered with the service's throttling error, not applied:
    /// `ProvisionedThroughputExceededException` by DynamoDB, `RequestThrottled` by SQS.
    Throttled,
    /// The connection is closed without a reply, and the call is not applied.
    DropBefore,
    /// The call is applied, then the connection is closed without a reply.
    DropAfter,
    /// The call is applied after this additional time. Delays of several faults add up.
    Delay(Duration),
    /// Not applied. `TransactWriteItems` and `TransactGetItems` are answered
    /// `TransactionCanceledException` with `TransactionConflict` on every action, and `PutItem`,
    /// `UpdateItem` and `DeleteItem` are answered `TransactionConflictException`. No other
    /// operation can conflict: the fault does not touch them, and they do not use it up.
    Conflict,
}

/// A fault, the calls it is for, and how often it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The operation, such as `Some("TransactWriteItems")`. `None` is any operation except those
    /// of DynamoDB Streams, which are struck only by name.
    pub operation: Option<&'static str>,
    /// What happens to the call.
    pub kind: FaultKind,
    /// How many calls are struck; `None` is all until [`Control::clear`].
    pub times: Option<u32>,
}

impl Fault {
    /// A fault that strikes the next call of `operation`, and no other.
    #[must_use]
    pub fn once(operation: &'static str, kind: FaultKind) -> Self {
        Self { operation: Some(operation), kind, times: Some(1) }
    }

    /// A fault that strikes every call of `operation` until [`Control::clear`].
    #[must_use]
    pub fn standing(operation: &'static str, kind: FaultKind) -> Self {
        Self { operation: Some(operation), kind, times: None }
    }
}

/// Counts and faults of one server. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Control {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    counts: BTreeMap<String, u64>,
    faults: Vec<Fault>,
    strikes: u64,
}

impl Control {
    /// How many calls of `operation` arrived since the start or [`Self::reset_counts`]. Calls
    /// that a fault struck count too: it is the client's attempts that are counted. A transaction
    /// that is counted has locked its items already.
    #[must_use]
    pub fn count(&self, operation: &str) -> u64 {
        self.state().counts.get(operation).copied().unwrap_or(0)
    }

    /// The counts of all operations that were called.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.state().counts.clone()
    }

    /// How many calls were struck since the start or [`Self::reset_counts`].
    #[must_use]
    pub fn strikes(&self) -> u64 {
        self.state().strikes
    }

    /// Sets all counts to zero.
    pub fn reset_counts(&self) {
        let mut state = self.state();
        state.counts.clear();
        state.strikes = 0;
    }

    /// Adds a fault. Of several that match a call, all [`FaultKind::Delay`] strike, and of the
    /// other kinds the one that was added first.
    pub fn inject(&self, fault: Fault) {
        if fault.times != Some(0) {
            self.state().faults.push(fault);
        }
    }

    /// Removes all faults. The calls that they struck already are not changed.
    pub fn clear(&self) {
        self.state().faults.clear();
    }

    /// Counts a call.
    pub(crate) fn arrived(&self, operation: &str) {
        let mut state = self.state();
        *state.counts.entry(operation.to_owned()).or_default() += 1;
    }

    /// Uses up the faults that strike a call.
    pub(crate) fn strike(&self, arrival: &Arrival<'_>) -> Strike {
        let mut state = self.state();
        let mut strike = Strike::default();
        for fault in &mut state.faults {
            if !arrival.matches(fault) {
                continue;
            }
            match fault.kind {
                FaultKind::Delay(delay) => strike.delay += delay,
                _ if strike.kind.is_some() => continue,
                kind => strike.kind = Some(kind),
            }
            fault.times = fault.times.map(|left| left - 1);
        }
        state.faults.retain(|fault| fault.times != Some(0));
        state.strikes += u64::from(strike != Strike::default());
        strike
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is complete before anything can panic, so a poisoned state is sound.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What decides which faults are for a call.
pub(crate) struct Arrival<'a> {
    pub operation: &'a str,
    /// Whether faults for any operation leave this one alone.
    pub only_by_name: bool,
    /// Whether the operation can be refused for a conflict with a transaction.
    pub may_conflict: bool,
}

impl Arrival<'_> {
    fn matches(&self, fault: &Fault) -> bool {
        let named = match fault.operation {
            Some(operation) => operation == self.operation,
            None => !self.only_by_name,
        };
        named && (self.may_conflict || fault.kind != FaultKind::Conflict)
    }
}

/// The faults that strike one call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Strike {
    pub delay: Duration,
    /// Never [`FaultKind::Delay`].
    pub kind: Option<FaultKind>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arrive(control: &Control, operation: &str) -> Strike {
        control.arrived(operation);
        control.strike(&Arrival {
            operation,
            only_by_name: operation == "GetRecords",
            may_conflict: operation == "PutItem",
        })
    }

    #[test]
    fn a_queued_fault_strikes_as_often_as_it_says() {
        let control = Control::default();
        control.inject(Fault { operation: None, kind: FaultKind::Error500, times: Some(2) });
        assert_eq!(arrive(&control, "GetRecords"), Strike::default());
        for _ in 0..2 {
            assert_eq!(arrive(&control, "Query").kind, Some(FaultKind::Error500));
        }
        assert_eq!(arrive(&control, "Query"), Strike::default());
        assert_eq!(control.strikes(), 2);
        assert_eq!(control.count("Query"), 3);
        assert_eq!(control.counts().len(), 2);
        control.reset_counts();
        assert_eq!(control.count("Query"), 0);
    }

    #[test]
    fn delays_add_up_and_the_first_other_fault_decides() {
        let control = Control::default();
        let delay = FaultKind::Delay(Duration::from_millis(5));
        control.inject(Fault::standing("PutItem", delay));
        control.inject(Fault::once("PutItem", FaultKind::DropAfter));
        control.inject(Fault::once("PutItem", FaultKind::Conflict));
        control.inject(Fault::once("PutItem", delay));
        let first = arrive(&control, "PutItem");
        assert_eq!(first.delay, Duration::from_millis(10));
        assert_eq!(first.kind, Some(FaultKind::DropAfter));
        let second = arrive(&control, "PutItem");
        assert_eq!(second.delay, Duration::from_millis(5));
        assert_eq!(second.kind, Some(FaultKind::Conflict));
        control.clear();
        assert_eq!(arrive(&control, "PutItem"), Strike::default());
    }

    #[test]
    fn a_conflict_leaves_operations_alone_that_cannot_conflict() {
        let control = Control::default();
        control.inject(Fault { operation: None, kind: FaultKind::Conflict, times: Some(1) });
        assert_eq!(arrive(&control, "Query"), Strike::default());
        assert_eq!(arrive(&control, "PutItem").kind, Some(FaultKind::Conflict));
    }
}
