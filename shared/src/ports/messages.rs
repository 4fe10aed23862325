//! Queues.

use std::future::Future;

use serde::{Deserialize, Serialize};

use super::Fault;
use crate::domain::{
    FORMAT,
    ids::{ActivityId, Bucket, BuyerId},
    order::Order,
    order_no::OrderNo,
    payment::RefundDue,
    time::UnixMillis,
};

/// Why a rollback was asked for. For people; the consumer decides from the stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RollBackReason {
    /// The order transaction may or may not have committed.
    CommitUnknown,
    /// The claim that should follow a refusal may or may not be stored.
    ClaimUnknown,
    /// The order is dead and its units could not be given back at once.
    RestockFailed,
    /// The buyer cancels what may be on its way.
    Cancelled,
}

/// Asks for one submission to be settled. Names buckets, never quantities: those come from records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollBack {
    pub format: u32,
    pub activity: ActivityId,
    pub order_no: OrderNo,
    pub buyer: BuyerId,
    pub home: Bucket,
    /// Buckets where a part may have been taken; the home bucket need not be named.
    pub buckets: Vec<Bucket>,
    pub reason: RollBackReason,
}

/// A change of an order's state, for fulfilment and others. At least once, in no certain order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderEvent {
    pub format: u32,
    /// `<order_no>#<status>#<take>`: the same for a repeat.
    pub event_id: String,
    pub at: UnixMillis,
    pub order: Order,
}

impl OrderEvent {
    #[must_use]
    pub fn of(order: Order) -> Self {
        let event_id = format!("{}#{}#{}", order.placement.order_no, order.status.as_str(), order.take.get());
        Self { format: FORMAT, event_id, at: order.updated_at, order }
    }
}

/// Money that has to go back, for whoever pays it. At least once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundEvent {
    pub format: u32,
    /// `<order_no>#REFUND_DUE#<payment>`: the same for a repeat.
    pub event_id: String,
    pub at: UnixMillis,
    pub refund: RefundDue,
}

impl RefundEvent {
    #[must_use]
    pub fn of(refund: RefundDue) -> Self {
        let event_id = format!("{}#REFUND_DUE#{}", refund.order_no, refund.event_id.as_str());
        Self { format: FORMAT, event_id, at: refund.at, refund }
    }
}

/// Sending. Every call MUST have a deadline.
pub trait Messages: Send + Sync {
    /// Seconds of delay: 0 to 900.
    fn send_roll_back(&self, message: &RollBack, delay_s: u16) -> impl Future<Output = Result<(), Fault>> + Send;

    fn send_event(&self, event: &OrderEvent) -> impl Future<Output = Result<(), Fault>> + Send;

    fn send_refund(&self, event: &RefundEvent) -> impl Future<Output = Result<(), Fault>> + Send;

    /// Hands a record that cannot be processed on to a person, whole.
    fn send_dead_letter(&self, body: &str) -> impl Future<Output = Result<(), Fault>> + Send;
}
