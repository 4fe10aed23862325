//! Payments as the provider tells of them, and what one comes to for the order that it is for.

use serde::{Deserialize, Serialize};

use super::{
    Invalid,
    ids::ActivityId,
    money::{Currency, Money},
    order::{Event, Order, Status, StockEffect, Stored, Take, Transition, next},
    order_no::OrderNo,
    time::UnixMillis,
};

/// Longest id of a payment event, in bytes.
pub const PAYMENT_ID_MAX_BYTES: usize = 128;
/// Most payments that an order remembers. Whatever comes for it afterwards is to be paid back.
pub const PAYMENTS_MAX: usize = 20;

/// The provider's name of one payment: 1 to 128 visible ASCII characters. One payment has one id, however
/// often it is told.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PaymentId(String);

impl PaymentId {
    /// # Errors
    /// When it is empty, longer than 128 bytes or has anything but visible ASCII.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if (1..=PAYMENT_ID_MAX_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("event_id", "must be 1 to 128 visible ASCII characters"))
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for PaymentId {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<PaymentId> for String {
    fn from(id: PaymentId) -> Self {
        id.0
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaymentStatus {
    /// The money is there.
    Paid,
    /// It did not come. The buyer may try again on the same order.
    Failed,
    /// The provider gave it back.
    Refunded,
}

/// What the provider tells.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Payment {
    pub event_id: PaymentId,
    pub activity: ActivityId,
    pub order_no: OrderNo,
    pub status: PaymentStatus,
    pub amount: Money,
    pub currency: Currency,
}

/// Money that has to go back to the buyer, and why. Final: it is recorded once, and told once or more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefundDue {
    pub order_no: OrderNo,
    pub activity: ActivityId,
    /// The payment that goes back, or for an operator's refund the operator's own id of it.
    pub event_id: PaymentId,
    pub amount: Money,
    pub currency: Currency,
    pub reason: RefundReason,
    pub at: UnixMillis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefundReason {
    /// Another amount or currency than the order's.
    AmountMismatch,
    /// The order is paid by another payment.
    AlreadyPaid,
    /// The order was cancelled or refunded before.
    OrderEnded,
    /// The order had expired, and its units or the buyer's quota are gone, or its SKU is frozen.
    PaidTooLate,
    /// The submission never became an order.
    OrderAborted,
    /// No order of this activity has the number.
    UnknownOrder,
    /// An operator refunded the order.
    Operator,
}

/// What a payment comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settlement {
    /// No effect: it was told before, or nothing follows from it.
    Nothing,
    /// The order is paid.
    Pay,
    /// The order had expired: it takes stock and quota again, or the money goes back.
    PayLate,
    /// The money goes back.
    RefundDue(RefundReason),
    /// Nothing is stored: the number is given up for good, then the money goes back.
    GiveUp,
    /// The money went back: the order ends.
    Refund,
    /// A refund overtook its payment: it has to be told again.
    NotPaidYet,
    /// Part of the money went back. Orders are refunded as a whole.
    PartialRefund,
}

/// What follows from a payment, by what is stored under its order's number.
#[must_use]
pub fn settle(stored: Option<&Stored>, payment: &Payment) -> Settlement {
    use Settlement as S;
    let order = match stored {
        None if payment.status == PaymentStatus::Paid => return S::GiveUp,
        Some(Stored::Aborted(_)) if payment.status == PaymentStatus::Paid => {
            return S::RefundDue(RefundReason::OrderAborted);
        }
        None | Some(Stored::Aborted(_)) => return S::Nothing,
        Some(Stored::Order(order)) => order,
    };
    let other_activity = order.placement.activity != payment.activity;
    let other_amount = order.placement.total() != payment.amount || order.placement.currency != payment.currency;
    match payment.status {
        PaymentStatus::Failed => S::Nothing,
        PaymentStatus::Paid if order.payments.contains(&payment.event_id) => S::Nothing,
        PaymentStatus::Paid if other_activity => S::RefundDue(RefundReason::UnknownOrder),
        PaymentStatus::Paid if other_amount => S::RefundDue(RefundReason::AmountMismatch),
        PaymentStatus::Paid => paid(order),
        PaymentStatus::Refunded if other_activity => S::Nothing,
        PaymentStatus::Refunded if other_amount => S::PartialRefund,
        PaymentStatus::Refunded => match next(Some(order.status), Event::Refund) {
            Transition::To(..) => S::Refund,
            Transition::Refused if order.status == Status::PendingPayment => S::NotPaidYet,
            Transition::Refused | Transition::Already => S::Nothing,
        },
    }
}

fn paid(order: &Order) -> Settlement {
    match next(Some(order.status), Event::Pay) {
        Transition::To(_, StockEffect::Take) if order.take == Take::FIRST && order.payments.len() < PAYMENTS_MAX => {
            Settlement::PayLate
        }
        Transition::To(_, StockEffect::Take) => Settlement::RefundDue(RefundReason::PaidTooLate),
        Transition::To(..) => Settlement::Pay,
        Transition::Already => Settlement::RefundDue(RefundReason::AlreadyPaid),
        Transition::Refused => Settlement::RefundDue(RefundReason::OrderEnded),
    }
}
