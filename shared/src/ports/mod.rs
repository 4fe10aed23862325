//! What the use cases need from the world, as narrow traits. An adapter MUST keep each clause that its
//! trait states; the tests in `tests/` hold every adapter to them.

mod admission;
mod clock;
mod feed;
mod findings;
mod gate;
mod life;
mod lock;
mod messages;
mod moves;
mod store;

pub use admission::{Admission, AdmissionStore, Backlog, Bypass, Limiting};
pub use clock::{Clock, SystemClock};
pub use feed::{BucketMark, ChangeFeed, LedgerEntry};
pub use findings::{Counted, FINDING_ROWS_MAX, FindingPage, FindingRow, FindingStore};
pub use gate::{
    BucketState, Deducted, GateRefusal, Look, OrderGate, PlaceAnswer, PlaceCall, Preheated, RecordPage, Restocked,
    Restored, SkuState, StockGate, SumCheck, TokenGate, Undone,
};
pub use life::{Changed, Ending, OrderLife, Revival};
pub use lock::{Acquired, LockGate, Still};
pub use messages::{Messages, OrderEvent, RefundEvent, RollBack, RollBackReason};
pub use moves::{MovePart, MoveStore, Moved, StockMove};
pub use store::{
    ActivityStore, ArchiveStore, AuditRow, AuditStore, Claim, Commit, Cursor, OrderStore, ProgressStore, Saved,
    StockStore,
};

/// Whether a call that failed may have had its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Certainly not applied: refused, or never sent.
    None,
    /// May have been applied: the reply was lost, or the time ran out.
    Unknown,
}

/// Broken infrastructure: never a business result. Its text names the operation; the cause is its
/// source and is told once, by whoever handles it.
#[derive(Debug, thiserror::Error)]
#[error("{operation} failed ({})", if matches!(.effect, Effect::None) { "not applied" } else { "may have been applied" })]
pub struct Fault {
    pub operation: &'static str,
    pub effect: Effect,
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl Fault {
    pub fn not_applied(operation: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { operation, effect: Effect::None, source: source.into() }
    }

    pub fn maybe_applied(operation: &'static str, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self { operation, effect: Effect::Unknown, source: source.into() }
    }

    /// The whole chain of causes in one line, for the log.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause: Option<&dyn std::error::Error> = Some(self.source.as_ref());
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
