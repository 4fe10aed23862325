//! What one focused model explores: who orders what, and how often each thing may happen.

use holdfast::domain::activity::QuotaPolicy;

use crate::reference::{Bucket, Buyer, LimitScope, Sku, Units};

/// A mistake that is planted to see it found. Each is a rule of docs/protocol.md left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// A refusal of the transaction is told, and the units given back, without the claim.
    RefusalWithoutClaim,
    /// A transaction whose outcome is unknown is told as refused.
    UnknownIsRefused,
    /// A restock gives the units of a record back that is R already.
    RestockIgnoresRank,
    /// A restore overwrites a record of a higher rank.
    RestoreOverwritesHigher,
    /// Reconciliation takes an order for missing because an earlier listing did not have it.
    AbsenceFromListing,
    /// Reconciliation reads the order before the record.
    OrderReadBeforeRecord,
    /// Preheat sets the stock to allotted less live orders.
    PreheatSubtractsLive,
    /// The consumer restocks first and claims afterwards.
    RestockBeforeClaim,
    /// A restock adds the units that the message names, whatever the record says.
    UnitsFromMessage,
    /// A mark loses its oldest entry, not the order's own.
    MarkRemovedByCount,
    /// A late payment takes the stock under the take that was given back.
    LatePaymentSameTake,
    /// A late payment does not look at the guard.
    LatePaymentIgnoresGuard,
    /// A cancellation restocks first and changes the order afterwards.
    RestockBeforeCancel,
    /// A move is carried to Redis as a difference.
    SyncByDifference,
    /// A move is made again although its id is there.
    MoveWithoutId,
    /// A batch gives a refused order's units back without the claim.
    BatchDropsLoser,
    /// Two orders of one batch that share a stock item are judged one by one.
    BatchJudgesAlone,
    /// The transaction of degraded mode does not ask whether the number is free.
    DegradedWithoutExists,
    /// The home script takes a record R for none.
    ReplayDeductsAgain,
    /// A replay goes on with the day of the replay.
    ReplayOfToday,
    /// A cancelled order's quota goes back to the day of the cancellation.
    QuotaBackToday,
    /// A sum of the database is corrected whatever its version.
    SumWithoutVersion,
    /// A dead item is removed while a transaction is still on its way.
    TombstoneForgotten,
    /// Reconciliation asks whether a mark counts the order, not whether it is the order's day.
    MarkOfAnyDay,
    /// A restore sets the marks of the order, and leaves those of the record's placement.
    RestoreLeavesMarks,
    /// An undo takes the marks of its own call away, whoever wrote the record.
    UndoOfOwnDay,
}

impl Bug {
    pub const ALL: [Self; 26] = [
        Self::RefusalWithoutClaim,
        Self::UnknownIsRefused,
        Self::RestockIgnoresRank,
        Self::RestoreOverwritesHigher,
        Self::AbsenceFromListing,
        Self::OrderReadBeforeRecord,
        Self::PreheatSubtractsLive,
        Self::RestockBeforeClaim,
        Self::UnitsFromMessage,
        Self::MarkRemovedByCount,
        Self::LatePaymentSameTake,
        Self::LatePaymentIgnoresGuard,
        Self::RestockBeforeCancel,
        Self::SyncByDifference,
        Self::MoveWithoutId,
        Self::BatchDropsLoser,
        Self::BatchJudgesAlone,
        Self::DegradedWithoutExists,
        Self::ReplayDeductsAgain,
        Self::ReplayOfToday,
        Self::QuotaBackToday,
        Self::SumWithoutVersion,
        Self::TombstoneForgotten,
        Self::MarkOfAnyDay,
        Self::RestoreLeavesMarks,
        Self::UndoOfOwnDay,
    ];
}

/// One submission: every call of it has the same order number.
#[derive(Clone, Debug)]
pub struct Submission {
    pub buyer: Buyer,
    pub home: Bucket,
    pub lines: Vec<(Sku, Units)>,
}

impl Submission {
    #[must_use]
    pub fn new(buyer: u8, home: u8, lines: &[(u8, Units)]) -> Self {
        let lines = lines.iter().map(|(sku, units)| (Sku(*sku), *units)).collect();
        Self { buyer: Buyer(buyer), home: Bucket(home), lines }
    }
}

/// A change of allotments, made at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// Units of SKU 0 from one bucket to another.
    Units { from: Bucket, to: Bucket, units: Units },
    /// More units of SKU 0, or fewer.
    Adjust { bucket: Bucket, more: i16 },
}

/// Most submissions of one model.
pub const ORDERS_MAX: usize = 3;

/// How often each thing may happen, altogether.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Calls per submission. A call may stop for good at any step: that is a crash.
    pub calls: [u8; ORDERS_MAX],
    /// Steps at which a call goes on without Redis.
    pub degraded: u8,
    /// Steps that fail, or whose reply is lost.
    pub faults: u8,
    /// Requests that arrive some time after their sender gave them up.
    pub late: u8,
    /// Messages that come once more.
    pub redelivered: u8,
    /// Buckets that lose both keys, one of them, or fall back to an earlier state.
    pub flushes: u8,
    pub expiries_of_keys: u8,
    pub failovers: u8,
    /// Looks of reconciliation at one order in one bucket, and how many of them at a time.
    pub confirms: u8,
    pub reconcilers: u8,
    /// Reads of a bucket's stock, to load the bucket or to bring it up to date.
    pub syncs: u8,
    /// Sums of the database that are looked at.
    pub sums: u8,
    pub cancels: u8,
    pub expiries: u8,
    pub payments: u8,
    pub refunds: u8,
    /// Tries of a move.
    pub moves: u8,
    /// Turns of the sale switch of SKU 0 in bucket 0.
    pub switches: u8,
    pub midnights: u8,
    /// Orders of one batch; 0 unless the activity is `queued`.
    pub batch: u8,
}

/// Something that a model must have come across, or it shows less than it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reached {
    Committed,
    Replayed,
    PartialFill,
    OtherBucketAfterShort,
    UndoneAtHome,
    ClaimWon,
    ClaimLost,
    Unknown,
    LandedLate,
    Restocked,
    RecordOnly,
    Restored,
    Reloaded,
    FailedOver,
    RepairedByClaim,
    RepairedByRestock,
    LatePaid,
    LatePaymentRefused,
    RestoredSecondTake,
    Moved,
    Synced,
    DegradedCommit,
    BatchOfTwo,
    BatchRefused,
    LimitReached,
    GuardRefused,
    NextDay,
    /// A record of one day, and its order of another.
    OtherDay,
    Frozen,
}

/// One focused model.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// Units on sale per SKU and bucket.
    pub stock: Vec<Vec<Units>>,
    pub submissions: Vec<Submission>,
    pub scope: LimitScope,
    pub limit: Units,
    pub policy: QuotaPolicy,
    pub moves: Vec<Move>,
    pub bounds: Bounds,
    /// Whether the buckets are loaded at the start.
    pub loaded: bool,
    pub reaches: Vec<Reached>,
    pub bug: Option<Bug>,
}

impl Scenario {
    /// Two buyers in one bucket each of two, one unit each, limit 1, and nothing happens yet.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            stock: vec![vec![1, 1]],
            submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(1, 0, &[(0, 1)])],
            scope: LimitScope::Activity,
            limit: 1,
            policy: QuotaPolicy::Release,
            moves: Vec::new(),
            bounds: Bounds::default(),
            loaded: true,
            reaches: Vec::new(),
            bug: None,
        }
    }

    /// The same with a mistake in it.
    #[must_use]
    pub fn with_bug(self, bug: Bug) -> Self {
        Self { bug: Some(bug), ..self }
    }

    #[must_use]
    pub fn buckets(&self) -> u8 {
        self.stock.first().map_or(0, |row| u8::try_from(row.len()).unwrap_or(u8::MAX))
    }

    /// Whether orders are persisted in batches.
    #[must_use]
    pub const fn queued(&self) -> bool {
        self.bounds.batch > 0
    }

    #[must_use]
    pub fn has(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}
