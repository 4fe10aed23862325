//! What changed in the gate, and many records at once: for reconciliation.

use std::future::Future;

use super::Fault;
use crate::domain::{
    activity::Activity,
    ids::{ActivityId, Bucket},
    order::Placement,
    order_no::OrderNo,
    record::Record,
    time::UnixMillis,
};

/// Where a bucket of the gate stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BucketMark {
    /// Which server answers: another one after a failover, a restart or a move. Empty where the server
    /// does not tell.
    pub node: String,
    /// The last change that is kept; empty when none is.
    pub entry: String,
}

/// One change of an order's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LedgerEntry {
    /// Names the change and where to go on after it.
    pub id: String,
    /// `None`: a change of the bucket, not of an order.
    pub order_no: Option<OrderNo>,
}

/// Reading what changed. Nothing here writes.
pub trait ChangeFeed: Send + Sync {
    /// The bucket's server, and the last change at or before this time, or of all; the oldest that is kept
    /// when all are younger.
    fn mark(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        upto: Option<UnixMillis>,
    ) -> impl Future<Output = Result<BucketMark, Fault>> + Send;

    /// A page of the changes after this one, oldest first; an empty page is the end. MUST answer `None`
    /// when this entry is not kept any more: what came after it may be lost as well.
    fn changes_after(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        entry: &str,
    ) -> impl Future<Output = Result<Option<Vec<LedgerEntry>>, Fault>> + Send;

    /// The records of these orders in one bucket, in their order.
    fn records(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        order_nos: &[OrderNo],
    ) -> impl Future<Output = Result<Vec<Option<Result<Record, String>>>, Fault>> + Send;

    /// Of each placement whose home is this bucket, whether all marks of its buyer count it.
    fn all_marked(
        &self,
        activity: &Activity,
        bucket: Bucket,
        placements: &[&Placement],
    ) -> impl Future<Output = Result<Vec<bool>, Fault>> + Send;
}
