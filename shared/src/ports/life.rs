//! What happens to committed orders in the database.

use std::future::Future;

use super::{Commit, Cursor, Fault};
use crate::domain::{
    activity::Activity,
    ids::Bucket,
    order::{EndedBy, Event, Order, Part},
    order_no::OrderNo,
    payment::{Payment, RefundDue},
    stock::Operation,
    time::UnixMillis,
};

/// How a live order ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Cancel, expire or refund.
    pub event: Event,
    pub at: UnixMillis,
    /// Whether the buyer's quota stays used, and with it the order's coupon.
    pub keep_quota: bool,
    /// The operation in the audit trail, and who: an operator's id, or the name of a function.
    pub operation: Operation,
    pub actor: String,
    /// Set where an operator does it.
    pub ended_by: Option<EndedBy>,
    /// Money that goes back with it.
    pub refund: Option<RefundDue>,
}

/// What a change of an order answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Changed {
    Done,
    /// The order is not, or not any more, as the change needs it. Nothing was written: read it again.
    Otherwise,
    /// Conflicts or throttling outlasted the bounded retries. Nothing was written.
    Busy,
}

/// A late payment's order as it comes alive again.
#[derive(Clone, Debug)]
pub struct Revival<'a> {
    /// The expired order as it was read.
    pub closed: &'a Order,
    pub payment: &'a Payment,
    /// Where its units come from this time.
    pub parts: Vec<Part>,
    /// Whether its quota and its coupon were given back and have to be taken again.
    pub charge: bool,
    pub limit_max: u32,
    pub at: UnixMillis,
}

/// Transitions of committed orders, each one write that checks the order's status by itself. What was
/// read before is only where it begins.
pub trait OrderLife: Send + Sync {
    /// One transaction: the transition, units back, quota and coupon back unless they are kept, the refund recorded. An
    /// expiry MUST check in the write itself that the order's deadline has passed at `ending.at`.
    fn end(&self, order: &Order, ending: &Ending) -> impl Future<Output = Result<Changed, Fault>> + Send;

    /// The payment of an order that holds its stock. The same payment again MUST change nothing.
    fn pay(
        &self,
        order: &Order,
        payment: &Payment,
        at: UnixMillis,
    ) -> impl Future<Output = Result<Changed, Fault>> + Send;

    /// The payment of an expired order: one transaction that takes stock, quota and coupon again, as the next take.
    /// `Exists` when the order is not any more as it was read. MUST NOT count another placement.
    fn pay_late(&self, revival: &Revival<'_>) -> impl Future<Output = Result<Commit, Fault>> + Send;

    /// Records that money goes back. With the expired order that it was meant for, as it was read, the order
    /// remembers the payment in the same transaction, so that it cannot be paid by it as well.
    /// `Otherwise` when that order changed, or the refund is recorded already.
    fn record_refund(
        &self,
        refund: &RefundDue,
        expired: Option<&Order>,
    ) -> impl Future<Output = Result<Changed, Fault>> + Send;

    /// What goes back of the payments for this number.
    fn refunds(&self, order_no: &OrderNo) -> impl Future<Output = Result<Vec<RefundDue>, Fault>> + Send;

    /// A page of the numbers of orders whose home is this bucket and whose deadline is in the given time, the
    /// first included, the last not; in its order. Ended ones as well. May lag behind by an index's delay.
    fn due_orders(
        &self,
        activity: &Activity,
        bucket: Bucket,
        between: (UnixMillis, UnixMillis),
        after: Option<&Cursor>,
    ) -> impl Future<Output = Result<(Vec<OrderNo>, Option<Cursor>), Fault>> + Send;
}
