//! The database: right about orders and stock.

use std::future::Future;

use serde::{Deserialize, Serialize};

use super::Fault;
use crate::domain::{
    activity::Activity,
    ids::{ActivityId, Bucket, BuyerId, Sku},
    lease::Fence,
    order::{Order, Placement, Stored, Tombstone},
    order_no::OrderNo,
    stock::{ChangeMark, Operation, StockItem},
    time::UnixMillis,
};

/// What the order transaction answers, in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Commit {
    Committed,
    /// Something is stored under this number: read it. Nothing was written.
    Exists,
    /// The buyer has too many units or placements in a scope. Nothing was written.
    LimitReached,
    /// Another order used the coupon. Nothing was written.
    CouponUsed,
    /// A stock item is not on sale. Nothing was written.
    Frozen,
    /// These stock items have too little, or none was ever put on sale there. Nothing was written.
    Short(Vec<(Sku, Bucket)>),
    /// Conflicts or throttling outlasted the bounded retries. Nothing was written.
    Busy,
}

/// What a claim answers: exactly one of the order and its tombstone is ever stored.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Claim {
    /// The tombstone is stored, by this call or an earlier one.
    Aborted,
    /// An order was committed before: live or dead.
    Order(Box<Order>),
}

/// Where a listing goes on. Opaque.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor(pub String);

/// Orders. Reads MUST be consistent, never from a replica.
pub trait OrderStore: Send + Sync {
    /// One transaction: the order if nothing is stored under its number, the buyer's guards within the
    /// limit (units and placements), its coupon if no order holds it, every stock item on sale with enough. MUST retry conflicts and
    /// throttling with a bound. A fault with [`super::Effect::Unknown`] may have committed.
    fn commit(&self, order: &Order, limit_max: u32) -> impl Future<Output = Result<Commit, Fault>> + Send;

    /// Stores the tombstone if nothing is stored under its number.
    fn claim(&self, tombstone: &Tombstone) -> impl Future<Output = Result<Claim, Fault>> + Send;

    fn order(&self, order_no: &OrderNo) -> impl Future<Output = Result<Option<Stored>, Fault>> + Send;

    /// What is stored under these numbers; numbers with nothing stored are left out.
    fn orders(&self, order_nos: &[OrderNo]) -> impl Future<Output = Result<Vec<Stored>, Fault>> + Send;

    /// The numbers of the buyer's orders in an activity, from the guards.
    fn buyer_orders(
        &self,
        activity: &ActivityId,
        buyer: &BuyerId,
    ) -> impl Future<Output = Result<Vec<OrderNo>, Fault>> + Send;

    /// The orders of the buyer in those scopes where this submission would be too much.
    fn limiting_orders(
        &self,
        placement: &Placement,
        limit_max: u32,
    ) -> impl Future<Output = Result<Vec<OrderNo>, Fault>> + Send;

    /// A page of numbers of orders whose home is this bucket. May lag behind by an index's delay.
    fn home_orders(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        after: Option<&Cursor>,
    ) -> impl Future<Output = Result<(Vec<OrderNo>, Option<Cursor>), Fault>> + Send;
}

/// Stock items.
pub trait StockStore: Send + Sync {
    /// Puts a stock item on sale if there is none; answers the one that is there.
    fn open_stock(&self, item: &StockItem, mark: &ChangeMark) -> impl Future<Output = Result<StockItem, Fault>> + Send;

    /// The stock items of one bucket. Consistent; those that do not exist are left out.
    fn bucket_stock(
        &self,
        activity: &Activity,
        bucket: Bucket,
    ) -> impl Future<Output = Result<Vec<StockItem>, Fault>> + Send;

    /// Stock of these SKUs in all buckets.
    fn stock(&self, activity: &Activity, skus: &[Sku]) -> impl Future<Output = Result<Vec<StockItem>, Fault>> + Send;

    /// Sets the sale switch and raises the version; answers the item as it is then. Setting it to
    /// what it is already changes nothing. `None` when there is no such item.
    fn set_on_sale(
        &self,
        activity: &ActivityId,
        sku: &Sku,
        bucket: Bucket,
        on_sale: bool,
        mark: &ChangeMark,
    ) -> impl Future<Output = Result<Option<StockItem>, Fault>> + Send;

    /// Sets `available` to this number only if the item still has this version: the repair of a sum.
    fn correct_available(
        &self,
        item: &StockItem,
        available: u64,
        mark: &ChangeMark,
    ) -> impl Future<Output = Result<bool, Fault>> + Send;
}

/// Outcome of a conditional save.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Saved {
    Done,
    /// The stored version is another than expected. Nothing was written.
    Conflict,
}

pub trait ActivityStore: Send + Sync {
    /// Also one that is archived.
    fn activity(&self, id: &ActivityId) -> impl Future<Output = Result<Option<Activity>, Fault>> + Send;

    /// Every activity that is not archived, page by page.
    fn activities(
        &self,
        after: Option<&Cursor>,
    ) -> impl Future<Output = Result<(Vec<Activity>, Option<Cursor>), Fault>> + Send;

    /// Stores the activity if the stored version is `expected` (`None`: if there is none).
    fn save_activity(
        &self,
        activity: &Activity,
        expected: Option<u64>,
    ) -> impl Future<Output = Result<Saved, Fault>> + Send;
}

/// Activities that are over for good.
pub trait ArchiveStore: Send + Sync {
    /// Takes the activity out of the listing, unless it was changed meanwhile; answers whether it did. It MUST
    /// still be found by its id.
    fn archive(&self, activity: &Activity) -> impl Future<Output = Result<bool, Fault>> + Send;
}

/// Where a long job stopped, so that its next run goes on there, and the fence against one that should
/// have stopped.
pub trait ProgressStore: Send + Sync {
    fn progress(&self, job: &str) -> impl Future<Output = Result<Option<Cursor>, Fault>> + Send;

    /// Begins a turn at the job: its fence is greater than that of every turn before, whatever else lost its
    /// memory. From now on no earlier turn saves progress.
    fn take_turn(&self, job: &str) -> impl Future<Output = Result<(Fence, Option<Cursor>), Fault>> + Send;

    /// Saves where the job stands, or with `None` that it begins anew. MUST answer a conflict and write
    /// nothing when a greater fence was seen. It may be dropped after `keep_until`.
    fn save_progress(
        &self,
        job: &str,
        fence: Fence,
        at: Option<&Cursor>,
        keep_until: Option<UnixMillis>,
    ) -> impl Future<Output = Result<Saved, Fault>> + Send;
}

/// One row of the audit trail: one change of one stock item.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditRow {
    pub activity: ActivityId,
    pub sku: Sku,
    pub bucket: Bucket,
    /// Version of the stock item after the change: the row's key, so that a duplicate overwrites
    /// itself and a gap shows.
    pub version: u64,
    /// `None` for the item's first row.
    pub before: Option<StockItem>,
    /// `None` when the item was deleted.
    pub after: Option<StockItem>,
    /// `None`: the change carried no fresh mark of the system. It is reported as untracked.
    pub operation: Option<Operation>,
    pub operator: String,
    pub reference: String,
    pub at: UnixMillis,
    /// Tells apart untracked changes that did not raise the version.
    pub event_id: String,
    /// The mark of the change before this one: what a row that never came can be filled from.
    #[serde(default)]
    pub before_mark: Option<ChangeMark>,
    /// Reconciliation put it where a row was missing: what is known of the change, not what was seen.
    #[serde(default)]
    pub filled: bool,
}

/// The audit table. Append only.
pub trait AuditStore: Send + Sync {
    /// Writing the same row again MUST have no effect, and no row of another change may be replaced by it;
    /// only one that fills a gap is.
    fn record(&self, row: &AuditRow) -> impl Future<Output = Result<(), Fault>> + Send;

    /// A page of the rows of one stock item, oldest first.
    fn rows(
        &self,
        activity: &ActivityId,
        sku: &Sku,
        bucket: Bucket,
        after: Option<&Cursor>,
    ) -> impl Future<Output = Result<(Vec<AuditRow>, Option<Cursor>), Fault>> + Send;

    /// The first page of the rows after this version.
    fn rows_after(
        &self,
        activity: &ActivityId,
        sku: &Sku,
        bucket: Bucket,
        version: u64,
    ) -> impl Future<Output = Result<(Vec<AuditRow>, Option<Cursor>), Fault>> + Send;

    /// Puts a row where there is none; answers whether there was none. MUST NOT replace one.
    fn fill(&self, row: &AuditRow) -> impl Future<Output = Result<bool, Fault>> + Send;
}
