//! An order and its life, as one transition function. Conditions in the database are derived from it.

use serde::{Deserialize, Serialize};

use super::{
    activity::{Activity, Strategy},
    cart::{Cart, LinesHash, OrderLine},
    ids::{ActivityId, Bucket, BuyerId, Sku},
    limit::Charge,
    money::{Currency, Money},
    order_no::OrderNo,
    time::{BusinessDate, UnixMillis},
};

/// Where a stored order stands. An order that is not stored has no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    PendingPayment,
    Paid,
    Shipped,
    /// Given up by the buyer or an operator before it was paid.
    Cancelled,
    /// Not paid in time.
    Closed,
    Refunded,
    /// A tombstone: this submission was given up before it became an order, and never will be one.
    Aborted,
}

impl Status {
    pub const ALL: [Self; 7] =
        [Self::PendingPayment, Self::Paid, Self::Shipped, Self::Cancelled, Self::Closed, Self::Refunded, Self::Aborted];

    /// Whether the order holds stock and quota.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::PendingPayment | Self::Paid | Self::Shipped)
    }

    /// The status as it is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PendingPayment => "PENDING_PAYMENT",
            Self::Paid => "PAID",
            Self::Shipped => "SHIPPED",
            Self::Cancelled => "CANCELLED",
            Self::Closed => "CLOSED",
            Self::Refunded => "REFUNDED",
            Self::Aborted => "ABORTED",
        }
    }
}

/// What can happen to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The order transaction.
    Place,
    /// The claim: whoever gives a submission up puts the tombstone first.
    Abort,
    Pay,
    Cancel,
    /// The payment deadline passed.
    Expire,
    Ship,
    Refund,
}

impl Event {
    pub const ALL: [Self; 7] =
        [Self::Place, Self::Abort, Self::Pay, Self::Cancel, Self::Expire, Self::Ship, Self::Refund];
}

/// What an event does to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It moves there, taking or giving back stock as [`StockEffect`] says.
    To(Status, StockEffect),
    /// It happened already: no effect, same answer.
    Already,
    /// It may not happen; the order stays as it is.
    Refused,
}

/// What a transition does to the stock that the order holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StockEffect {
    None,
    /// Takes it; the order's take count goes up.
    Take,
    GiveBack,
}

/// The life of an order: the only place that says what may follow what. `None` is an order that is
/// not stored.
#[must_use]
pub const fn next(from: Option<Status>, event: Event) -> Transition {
    use {Event as E, Status as S, StockEffect as X, Transition as T};
    match (from, event) {
        (None, E::Place) => T::To(S::PendingPayment, X::Take),
        (None, E::Abort) => T::To(S::Aborted, X::None),
        (Some(S::PendingPayment), E::Pay) => T::To(S::Paid, X::None),
        (Some(S::PendingPayment), E::Cancel) => T::To(S::Cancelled, X::GiveBack),
        (Some(S::PendingPayment), E::Expire) => T::To(S::Closed, X::GiveBack),
        (Some(S::Paid), E::Ship) => T::To(S::Shipped, X::None),
        (Some(S::Paid), E::Refund) => T::To(S::Refunded, X::GiveBack),
        // A late payment: stock and quota permitting, in the same write.
        (Some(S::Closed), E::Pay) => T::To(S::Paid, X::Take),
        (Some(S::PendingPayment | S::Paid | S::Shipped), E::Place)
        | (Some(S::Paid | S::Shipped), E::Pay)
        | (Some(S::Shipped), E::Ship)
        | (Some(S::Cancelled), E::Cancel)
        | (Some(S::Closed), E::Expire)
        | (Some(S::Refunded), E::Refund)
        | (Some(S::Aborted), E::Abort) => T::Already,
        _ => T::Refused,
    }
}

/// The statuses from which an event moves an order: what a write's condition must allow, and nothing
/// else. `None` stands for "not stored".
#[must_use]
pub fn sources(event: Event) -> Vec<Option<Status>> {
    std::iter::once(None)
        .chain(Status::ALL.map(Some))
        .filter(|from| matches!(next(*from, event), Transition::To(..)))
        .collect()
}

/// How often an order has taken its stock: 1, or 2 after a late payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Take(u8);

impl Take {
    pub const FIRST: Self = Self(1);
    pub const SECOND: Self = Self(2);

    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    #[must_use]
    pub const fn from_u8(take: u8) -> Option<Self> {
        match take {
            1 | 2 => Some(Self(take)),
            _ => None,
        }
    }
}

/// Units of one SKU that an order holds in one bucket.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    pub sku: Sku,
    pub bucket: Bucket,
    pub units: u32,
}

/// An admitted submission, as fixed at admission: it travels in the Redis record, so that any replay
/// continues with the same lines, prices and day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    pub order_no: OrderNo,
    pub activity: ActivityId,
    pub buyer: BuyerId,
    pub home: Bucket,
    pub strategy: Strategy,
    /// One line per SKU, in SKU order.
    pub lines: Vec<OrderLine>,
    pub lines_hash: LinesHash,
    pub currency: Currency,
    /// What the order counts against: one charge per scope of the buyer's limit.
    pub charges: Vec<Charge>,
    pub biz_date: BusinessDate,
    pub created_at: UnixMillis,
    pub pay_before: UnixMillis,
}

impl Placement {
    /// What is fixed when a submission is admitted at `now`: prices, business date, deadline, home.
    #[must_use]
    pub fn admit(
        activity: &Activity,
        order_no: OrderNo,
        buyer: BuyerId,
        cart: &Cart,
        lines: Vec<OrderLine>,
        now: UnixMillis,
    ) -> Self {
        let biz_date = activity.zone.business_date(now);
        Self {
            order_no,
            activity: activity.id.clone(),
            home: buyer.home(activity.buckets),
            buyer,
            strategy: activity.strategy,
            charges: activity.limit.charges(&lines, biz_date),
            lines_hash: cart.hash(),
            lines,
            currency: activity.currency.clone(),
            biz_date,
            created_at: now,
            pay_before: now.plus_ms(i64::from(activity.payment_minutes) * 60_000),
        }
    }

    #[must_use]
    pub fn total(&self) -> Money {
        super::cart::total(&self.lines)
    }

    /// The order that this submission becomes with these parts.
    #[must_use]
    pub fn into_order(self, parts: Vec<Part>) -> Order {
        Order { status: Status::PendingPayment, take: Take::FIRST, parts, updated_at: self.created_at, placement: self }
    }

    /// The tombstone of this submission.
    #[must_use]
    pub fn into_tombstone(self, at: UnixMillis) -> Tombstone {
        Tombstone {
            order_no: self.order_no.clone(),
            activity: self.activity.clone(),
            buyer: Some(self.buyer.clone()),
            at,
            placement: Some(self),
        }
    }
}

/// A committed order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    #[serde(flatten)]
    pub placement: Placement,
    pub status: Status,
    pub take: Take,
    pub parts: Vec<Part>,
    pub updated_at: UnixMillis,
}

impl Order {
    /// Whether the parts add up to the lines, exactly: an order with too few would commit without
    /// taking its stock.
    #[must_use]
    pub fn is_filled(&self) -> bool {
        let taken = |sku: &Sku| self.parts.iter().filter(|part| part.sku == *sku).map(|part| part.units).sum::<u32>();
        let lines = &self.placement.lines;
        lines.iter().all(|line| taken(&line.sku) == line.quantity.get())
            && self.parts.iter().all(|part| lines.iter().any(|line| line.sku == part.sku))
    }

    /// Units per SKU that this order holds in one bucket.
    #[must_use]
    pub fn held_in(&self, bucket: Bucket) -> Vec<(Sku, u32)> {
        self.parts.iter().filter(|part| part.bucket == bucket).map(|part| (part.sku.clone(), part.units)).collect()
    }

    /// The home bucket and every other one that holds a part, each once, home first.
    #[must_use]
    pub fn buckets(&self) -> Vec<Bucket> {
        let mut buckets = vec![self.placement.home];
        for part in &self.parts {
            if !buckets.contains(&part.bucket) {
                buckets.push(part.bucket);
            }
        }
        buckets
    }
}

/// A submission that was given up before it became an order: its number can never become one.
/// Whoever claims may know little of it, so that only the number and the activity are certain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    pub order_no: OrderNo,
    pub activity: ActivityId,
    pub buyer: Option<BuyerId>,
    pub at: UnixMillis,
    /// What the submission asked for, when the claimer knew it.
    pub placement: Option<Placement>,
}

/// What the database holds under an order number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stored {
    /// Committed at some time, live or dead.
    Order(Order),
    Aborted(Tombstone),
}

impl Stored {
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Order(order) => order.status,
            Self::Aborted(_) => Status::Aborted,
        }
    }

    #[must_use]
    pub const fn activity(&self) -> &ActivityId {
        match self {
            Self::Order(order) => &order.placement.activity,
            Self::Aborted(tombstone) => &tombstone.activity,
        }
    }

    #[must_use]
    pub const fn buyer(&self) -> Option<&BuyerId> {
        match self {
            Self::Order(order) => Some(&order.placement.buyer),
            Self::Aborted(tombstone) => tombstone.buyer.as_ref(),
        }
    }

    /// The hash of the lines that the submission asked for, when it is known.
    #[must_use]
    pub fn lines_hash(&self) -> Option<&LinesHash> {
        match self {
            Self::Order(order) => Some(&order.placement.lines_hash),
            Self::Aborted(tombstone) => tombstone.placement.as_ref().map(|placement| &placement.lines_hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Event as E, Status as S, *};

    /// Every status × event, literally, in the order of [`Event::ALL`]: place, abort, pay, cancel,
    /// expire, ship, refund. `=` happened already, `-` is refused.
    const TABLE: [(Option<S>, [&str; 7]); 8] = [
        (None, ["PENDING_PAYMENT+", "ABORTED", "-", "-", "-", "-", "-"]),
        (Some(S::PendingPayment), ["=", "-", "PAID", "CANCELLED<", "CLOSED<", "-", "-"]),
        (Some(S::Paid), ["=", "-", "=", "-", "-", "SHIPPED", "REFUNDED<"]),
        (Some(S::Shipped), ["=", "-", "=", "-", "-", "=", "-"]),
        (Some(S::Cancelled), ["-", "-", "-", "=", "-", "-", "-"]),
        (Some(S::Closed), ["-", "-", "PAID+", "-", "=", "-", "-"]),
        (Some(S::Refunded), ["-", "-", "-", "-", "-", "-", "="]),
        (Some(S::Aborted), ["-", "=", "-", "-", "-", "-", "-"]),
    ];

    fn cell(transition: Transition) -> String {
        match transition {
            Transition::Already => "=".to_owned(),
            Transition::Refused => "-".to_owned(),
            Transition::To(status, StockEffect::None) => status.as_str().to_owned(),
            Transition::To(status, StockEffect::Take) => format!("{}+", status.as_str()),
            Transition::To(status, StockEffect::GiveBack) => format!("{}<", status.as_str()),
        }
    }

    #[test]
    fn every_status_and_event() {
        for (from, cells) in TABLE {
            for (event, expected) in E::ALL.into_iter().zip(cells) {
                assert_eq!(cell(next(from, event)), expected, "{from:?} × {event:?}");
            }
        }
    }

    #[test]
    fn stock_is_taken_when_an_order_comes_alive_and_given_back_when_it_dies() {
        for from in std::iter::once(None).chain(S::ALL.map(Some)) {
            for event in E::ALL {
                if let Transition::To(to, effect) = next(from, event) {
                    let expected = match (from.is_some_and(S::is_live), to.is_live()) {
                        (false, true) => StockEffect::Take,
                        (true, false) => StockEffect::GiveBack,
                        _ => StockEffect::None,
                    };
                    assert_eq!(effect, expected, "{from:?} × {event:?}");
                }
            }
        }
    }

    #[test]
    fn an_order_and_its_tombstone_exclude_each_other() {
        assert_eq!(sources(E::Place), [None]);
        assert_eq!(sources(E::Abort), [None]);
        assert_eq!(sources(E::Pay), [Some(S::PendingPayment), Some(S::Closed)]);
    }
}
