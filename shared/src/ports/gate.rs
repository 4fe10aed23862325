//! The gate in front of the database: Redis. It may be wrong, lost or stale, and then the sale gets
//! slower or sells out early for a moment, never wrong.

use std::future::Future;

use super::Fault;
use crate::domain::{
    activity::Activity,
    ids::{ActivityId, Bucket, BuyerId, Sku},
    order::{Part, Placement, Take},
    order_no::OrderNo,
    record::Record,
    stock::Allotment,
    time::UnixMillis,
};

/// One call of the home script.
#[derive(Clone, Copy, Debug)]
pub struct PlaceCall<'a> {
    pub activity: &'a Activity,
    pub placement: &'a Placement,
    /// Take what is there (nothing included) instead of refusing when a line is short.
    pub look: bool,
}

/// Why the gate refuses. Nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateRefusal {
    /// The window has not begun, by Redis's clock.
    NotStarted,
    /// The window is over, by Redis's clock.
    Ended,
    /// One of the SKUs is not on sale.
    Frozen,
    /// This bucket has admitted its orders for this second.
    Limited,
    /// The buyer has too many units or placements in a scope; these are the orders in it.
    LimitReached(Vec<OrderNo>),
}

/// What the home script answers, in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum PlaceAnswer {
    /// The bucket's control or stock is gone although the window has begun.
    MemoryLost,
    /// Redis knows another version of the configuration than the caller.
    ConfigurationChanged,
    /// A record, mark or counter that cannot be read. Nothing was written; a person is needed.
    BadData,
    /// This submission was admitted before, with the same lines: its record.
    Replayed(Box<Record>),
    /// This submission was admitted before with other lines.
    Mismatch,
    /// This submission's units were given back: its order tells its state.
    GivenBack,
    Refused(GateRefusal),
    /// The home bucket cannot fill every line; units free per line, in line order. Nothing was written.
    Short(Vec<u64>),
    /// Admitted: units taken here per line, in line order. Less than asked only when looking.
    Admitted(Vec<u32>),
}

/// What taking another bucket's part answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Deducted {
    /// The record here is now D with exactly these units.
    Done,
    /// Not enough; units that the order may hold here per SKU, in the order asked. Nothing was written.
    Short(Vec<u64>),
    /// The submission's units were given back here: its order tells its state.
    GivenBack,
    Frozen,
    Limited,
    /// No keys here, or keys of another configuration.
    Unusable,
    BadData,
}

/// What one bucket has for an order that looks around. Read only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    pub bucket: Bucket,
    /// Free units per SKU, in the order asked; empty when the bucket's keys are gone or it is frozen.
    pub free: Vec<u64>,
    /// The order's record there, if any.
    pub record: Option<Record>,
    /// Whether the bucket has admitted its orders for this second.
    pub limited: bool,
}

/// What undoing answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Undone {
    /// The deduction is gone, its units are back.
    Done,
    /// There was none.
    Absent,
    /// It was given back by others: its order tells its state.
    GivenBack,
    BadData,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Restocked {
    /// The record is now R of this take; so many units went back to the stock.
    Done {
        units: u64,
    },
    /// It was R of this take, or higher, already.
    Already,
    /// The bucket has no stock key: the record was written, the stock was not touched.
    RecordOnly,
    BadData,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Restored {
    /// The record is now D of this take with these units; the stock changed by so many units (below
    /// zero when the order holds more now).
    Done {
        delta: i64,
    },
    /// It said so already, or stands higher.
    Already,
    /// The bucket has no stock key.
    NoStock,
    BadData,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Preheated {
    Loaded,
    /// The bucket has stock keys: nothing was changed.
    Already,
}

/// One bucket's counters, read at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketState {
    /// False when the bucket's memory is lost: its stock, or the records that explain it.
    pub present: bool,
    /// Configuration version in the control key, if there is one.
    pub configuration: Option<u64>,
    pub skus: Vec<SkuState>,
}

/// One SKU in one bucket of the gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkuState {
    pub sku: Sku,
    /// Units free to sell. May be below zero, which reads as sold out.
    pub stock: i64,
    /// Units that D records hold, as counted by the scripts.
    pub sold: i64,
    pub allotted: u64,
    /// Version of the database's stock item that `allotted` and `on_sale` come from.
    pub version: u64,
    pub on_sale: bool,
}

/// Result of comparing a bucket's counters with its records, in one script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SumCheck {
    pub sku: Sku,
    /// Units held by the D records, counted now.
    pub deducted: i64,
    pub allotted: i64,
    /// Stock before any correction.
    pub stock: i64,
}

impl SumCheck {
    /// How far the stock counter is off: positive when Redis shows too much.
    #[must_use]
    pub const fn off_by(&self) -> i64 {
        self.stock + self.deducted - self.allotted
    }
}

/// A page of one bucket's records and marks.
#[derive(Clone, Debug, Default)]
pub struct RecordPage {
    pub records: Vec<(OrderNo, Result<Record, String>)>,
    /// Order numbers that a buyer's mark counts.
    pub marked: Vec<OrderNo>,
    /// Where to go on; `None` at the end.
    pub next: Option<u64>,
}

/// Placing orders. Every call MUST be safe to repeat: the order number makes it one.
pub trait OrderGate: Send + Sync {
    /// The home script: MUST check everything before its first write and MUST NOT write on refusal.
    fn place(&self, call: PlaceCall<'_>) -> impl Future<Output = Result<PlaceAnswer, Fault>> + Send;

    /// Changes the order's record in a bucket (home or other) to D with exactly these units, from
    /// absent or from D with others, which keeps its placement. MUST NOT touch a record R.
    fn deduct(
        &self,
        activity: &Activity,
        placement: &Placement,
        bucket: Bucket,
        units: &[(Sku, u32)],
    ) -> impl Future<Output = Result<Deducted, Fault>> + Send;

    /// What each of these buckets has for the SKUs of the order. Buckets that do not answer are left
    /// out; fails only when none answers.
    fn look(
        &self,
        activity: &Activity,
        placement: &Placement,
        buckets: &[Bucket],
    ) -> impl Future<Output = Result<Vec<Look>, Fault>> + Send;

    /// D of the first take → absent, units back; at home also the buyer's mark, by order number, of the
    /// placement that the record has, which another call of the submission may have written.
    fn undo(
        &self,
        activity: &Activity,
        placement: &Placement,
        bucket: Bucket,
    ) -> impl Future<Output = Result<Undone, Fault>> + Send;

    /// The record of one order in one bucket.
    fn record(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        order_no: &OrderNo,
    ) -> impl Future<Output = Result<Option<Result<Record, String>>, Fault>> + Send;
}

/// Moving stock of single orders and whole buckets: rollback, reconciliation, operators.
pub trait StockGate: OrderGate {
    /// Raises the order's record in a bucket to R of this take, units from the record itself; at home
    /// also removes it from the buyer's marks unless `keep_mark`: from those of the record's own submission
    /// and of `submission`, the order's as the database has it, which may be others. Of a kept order only
    /// the marks of its `submission` stay. MUST NOT touch the stock of a bucket without a stock key, and
    /// MUST write the record there all the same. A mark that was lost is not set again, even when it should
    /// be kept.
    fn restock(
        &self,
        activity: &Activity,
        order_no: &OrderNo,
        bucket: Bucket,
        take: Take,
        keep_mark: bool,
        submission: Option<&Placement>,
    ) -> impl Future<Output = Result<Restocked, Fault>> + Send;

    /// Raises the order's record in a bucket to D of this take with exactly these parts (those of other
    /// buckets are ignored) and this placement, and marks the buyer again at home; where the record had
    /// another placement, the marks of that one lose the order. MUST do nothing to a higher record or
    /// without a stock key.
    fn restore(
        &self,
        activity: &Activity,
        placement: &Placement,
        bucket: Bucket,
        take: Take,
        parts: &[Part],
    ) -> impl Future<Output = Result<Restored, Fault>> + Send;

    /// Loads a bucket. MUST NOT change one that has stock keys; else drops the bucket's records and
    /// marks and sets stock = allotted.
    fn preheat(
        &self,
        activity: &Activity,
        bucket: Bucket,
        allotments: &[Allotment],
        now: UnixMillis,
    ) -> impl Future<Output = Result<Preheated, Fault>> + Send;

    /// Takes over allotment and sale switch of every SKU whose version is newer than Redis's; answers
    /// how many were.
    fn sync_allotment(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        allotments: &[Allotment],
    ) -> impl Future<Output = Result<usize, Fault>> + Send;

    /// Takes over version, window and rate of the activity if its version is newer than Redis's, and
    /// lets the keys live as long as it needs; answers whether it was.
    fn sync_control(
        &self,
        activity: &Activity,
        bucket: Bucket,
        now: UnixMillis,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// The counters of one bucket.
    fn read_bucket(
        &self,
        activity: &Activity,
        bucket: Bucket,
    ) -> impl Future<Output = Result<BucketState, Fault>> + Send;

    /// One page of records and marks; start with cursor 0. A record that is there throughout MUST be
    /// listed at least once.
    fn list_records(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        cursor: u64,
    ) -> impl Future<Output = Result<RecordPage, Fault>> + Send;

    /// Which of these orders the bucket's buyer marks count, for the buyer of each.
    fn marked(&self, activity: &Activity, placement: &Placement) -> impl Future<Output = Result<bool, Fault>> + Send;

    /// Adds up the D records of the bucket and compares with the counters, of one and the same state; when
    /// `repair`, sets stock = allotted − ΣD and sold = ΣD where they differ, unless a record changed
    /// meanwhile. Answers those that differ; none of a large bucket that does not keep still. MUST NOT hold
    /// up others for longer than a large page takes.
    fn sum_bucket(
        &self,
        activity: &Activity,
        bucket: Bucket,
        repair: bool,
    ) -> impl Future<Output = Result<Vec<SumCheck>, Fault>> + Send;
}

/// How many tokens a buyer may take.
pub trait TokenGate: Send + Sync {
    /// Counts one token for the buyer; answers whether it is still within `max_per_minute`, and if not,
    /// in how many seconds the next one is.
    fn allow_token(
        &self,
        activity: &ActivityId,
        home: Bucket,
        buyer: &BuyerId,
        max_per_minute: u32,
    ) -> impl Future<Output = Result<Result<(), u32>, Fault>> + Send;
}
