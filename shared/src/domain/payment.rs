//! Payments as the provider tells of them, and what one comes to for the order that it is for.

use serde::{Deserialize, Serialize};

use super::{
    Invalid,
    ids::ActivityId,
    json,
    money::{Currency, Money},
    order::{Event, Order, Status, StockEffect, Stored, Take, Transition, next},
    order_no::OrderNo,
    time::UnixMillis,
};

/// Longest id of a payment event, in bytes.
pub const PAYMENT_ID_MAX_BYTES: usize = 128;
/// How the names begin that are for operators' refunds.
const OPERATORS: &str = "operator-";
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

    /// The name of the money that an operator gives back, of one of the order's takes.
    #[must_use]
    pub fn of_operator(take: Take) -> Self {
        Self(format!("{OPERATORS}{}", take.get()))
    }

    /// Whether no provider may use it.
    #[must_use]
    pub fn is_reserved(&self) -> bool {
        self.0.starts_with(OPERATORS)
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
    #[serde(deserialize_with = "json::word")]
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
        PaymentStatus::Refunded => match next(Some(order.status), Event::Refund) {
            Transition::To(..) if other_amount => S::PartialRefund,
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::domain::{
        activity::{Activity, ActivityDraft},
        cart::Cart,
        ids::{BuyerId, Sku},
        money::Quantity,
        order::Placement,
        token::TokenId,
    };

    /// Per stored state, what follows from *paid*, *failed* and *refunded*. In each, one letter for: amount
    /// right, then wrong; in each of these the event new, then known; in each of these the order's own
    /// activity, then another.
    ///
    /// `-` nothing, `P` pay, `L` pay late, `G` give up, `R` refund, `N` not paid yet, `p` partial refund; money
    /// goes back as `M` another amount, `=` already paid, `E` ended, `A` aborted, `U` unknown order.
    const TABLE: [(Option<Status>, [&str; 3]); 8] = [
        (None, ["GGGGGGGG", "--------", "--------"]),
        (Some(Status::Aborted), ["AAAAAAAA", "--------", "--------"]),
        (Some(Status::PendingPayment), ["PU--MU--", "--------", "N-N-N-N-"]),
        (Some(Status::Paid), ["=U--MU--", "--------", "R-R-p-p-"]),
        (Some(Status::Shipped), ["=U--MU--", "--------", "--------"]),
        (Some(Status::Cancelled), ["EU--MU--", "--------", "--------"]),
        (Some(Status::Closed), ["LU--MU--", "--------", "--------"]),
        (Some(Status::Refunded), ["EU--MU--", "--------", "--------"]),
    ];

    const STATUSES: [PaymentStatus; 3] = [PaymentStatus::Paid, PaymentStatus::Failed, PaymentStatus::Refunded];

    fn placement() -> Placement {
        let draft: ActivityDraft = serde_json::from_value(json!({
            "name": "Phones", "starts_at": "2026-11-29T20:00:00Z", "ends_at": "2026-11-29T21:00:00Z",
            "time_zone": "Europe/Berlin", "strategy": "cas", "buckets": 1,
            "limit": {"scope": "activity", "max": 2}, "on_cancel": "release", "payment_minutes": 15,
            "currency": "EUR", "skus": [{"sku": "a", "stock": 10, "price": 250}]
        }))
        .unwrap();
        let activity = Activity::create(ActivityId::parse("sale").unwrap(), draft).unwrap();
        let cart = Cart::new([(Sku::parse("a").unwrap(), Quantity::new(2).unwrap())]).unwrap();
        let lines = cart.priced(&activity).unwrap();
        let buyer = BuyerId::parse("alice").unwrap();
        let number = OrderNo::derive(&activity.id, &buyer, &TokenId::from_bytes([7; 16]));
        Placement::admit(&activity, number, buyer, &cart, lines, UnixMillis::new(1_000))
    }

    fn id(text: &str) -> PaymentId {
        PaymentId::parse(text).unwrap()
    }

    fn order(status: Status, payments: &[PaymentId]) -> Order {
        let order = placement().into_order(Vec::new());
        Order { status, payments: payments.to_vec(), ..order }
    }

    fn stored(status: Option<Status>, known: bool) -> Option<Stored> {
        let payments = if known { vec![id("first"), id("this")] } else { vec![id("first")] };
        match status? {
            Status::Aborted => Some(Stored::Aborted(placement().into_tombstone(UnixMillis::new(2_000)))),
            status => Some(Stored::Order(order(status, &payments))),
        }
    }

    fn payment(status: PaymentStatus) -> Payment {
        let placement = placement();
        Payment {
            event_id: id("this"),
            activity: placement.activity.clone(),
            order_no: placement.order_no.clone(),
            status,
            amount: placement.total(),
            currency: placement.currency,
        }
    }

    fn letter(settlement: Settlement) -> char {
        match settlement {
            Settlement::Nothing => '-',
            Settlement::Pay => 'P',
            Settlement::PayLate => 'L',
            Settlement::GiveUp => 'G',
            Settlement::Refund => 'R',
            Settlement::NotPaidYet => 'N',
            Settlement::PartialRefund => 'p',
            Settlement::RefundDue(reason) => match reason {
                RefundReason::AmountMismatch => 'M',
                RefundReason::AlreadyPaid => '=',
                RefundReason::OrderEnded => 'E',
                RefundReason::PaidTooLate => 'T',
                RefundReason::OrderAborted => 'A',
                RefundReason::UnknownOrder => 'U',
                RefundReason::Operator => 'O',
            },
        }
    }

    #[test]
    fn every_state_and_payment() {
        let wrong_amount = order(Status::Paid, &[]).placement.lines[0].price;
        let wrong_currency = Currency::parse("USD").unwrap();
        for (status, rows) in TABLE {
            for (told, row) in STATUSES.into_iter().zip(rows) {
                assert_eq!(row.len(), 8, "{status:?} × {told:?}");
                for (at, expected) in row.chars().enumerate() {
                    let (wrong, known, other) = (at & 4 != 0, at & 2 != 0, at & 1 != 0);
                    let mut payment = payment(told);
                    if other {
                        payment.activity = ActivityId::parse("other").unwrap();
                    }
                    let stored = stored(status, known);
                    let kinds = if wrong {
                        vec![
                            Payment { amount: wrong_amount, ..payment.clone() },
                            Payment { currency: wrong_currency.clone(), ..payment },
                        ]
                    } else {
                        vec![payment]
                    };
                    for payment in kinds {
                        let found = letter(settle(stored.as_ref(), &payment));
                        assert_eq!(
                            found, expected,
                            "{status:?} × {told:?}, wrong {wrong}, known {known}, other {other}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn an_expired_order_that_cannot_come_alive_again_gets_its_money_back() {
        let judge = |order: Order| letter(settle(Some(&Stored::Order(order)), &payment(PaymentStatus::Paid)));
        let payments: Vec<_> = (0..PAYMENTS_MAX).map(|index| id(&format!("p{index}"))).collect();
        assert_eq!(judge(order(Status::Closed, &payments[1..])), 'L');
        assert_eq!(judge(order(Status::Closed, &payments)), 'T');
        assert_eq!(judge(Order { take: Take::SECOND, ..order(Status::Closed, &[]) }), 'T');
    }
}
