//! A submission as it was admitted, the order that it becomes, and its tombstone.

use serde::{Deserialize, Serialize};

pub use super::status::{Event, Status, StockEffect, Take, Transition, next, sources};
use super::{
    activity::{Activity, QuotaPolicy, Strategy},
    cart::{Cart, LinesHash, OrderLine},
    coupon::Coupon,
    ids::{ActivityId, Bucket, BuyerId, Sku},
    limit::Charge,
    money::{Currency, Money},
    order_no::OrderNo,
    payment::PaymentId,
    time::{BusinessDate, UnixMillis},
};

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
    /// The coupon that the order uses up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coupon: Option<Coupon>,
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
            lines_hash: cart.hash(None),
            lines,
            currency: activity.currency.clone(),
            biz_date,
            created_at: now,
            pay_before: now.plus_ms(i64::from(activity.payment_minutes) * 60_000),
            coupon: None,
        }
    }

    /// The same with a coupon, which its hash tells as well.
    #[must_use]
    pub fn with_coupon(self, cart: &Cart, coupon: Option<Coupon>) -> Self {
        Self { lines_hash: cart.hash(coupon.as_ref().map(|coupon| &coupon.code)), coupon, ..self }
    }

    /// What is to be paid: the lines, less what a coupon takes off.
    #[must_use]
    pub fn total(&self) -> Money {
        let off = self.coupon.as_ref().map_or_else(Money::default, |coupon| coupon.discount);
        super::cart::total(&self.lines).less(off)
    }

    /// Actions of its transaction beside those on stock: the order, its guards, its coupon.
    #[must_use]
    pub fn actions(&self) -> usize {
        1 + self.charges.len() + usize::from(self.coupon.is_some())
    }

    /// The order that this submission becomes with these parts.
    #[must_use]
    pub fn into_order(self, parts: Vec<Part>) -> Order {
        Order {
            status: Status::PendingPayment,
            take: Take::FIRST,
            parts,
            updated_at: self.created_at,
            payments: Vec::new(),
            ended_by: None,
            placement: self,
        }
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
    /// Payments that took effect on this order, or that were judged while it could have been paid, each
    /// once, at most [`super::payment::PAYMENTS_MAX`]: the same event again has no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub payments: Vec<PaymentId>,
    /// Set where an operator ended the order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<EndedBy>,
}

/// Which operator ended an order, why, and what became of the buyer's quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedBy {
    pub operator: String,
    pub reason: String,
    /// May differ from the activity's policy.
    pub quota_kept: bool,
}

impl Order {
    /// Whether this dead order's quota stays used: as the operator who ended it said, else by the
    /// activity's policy. A refund gives it back.
    #[must_use]
    pub fn keeps_quota(&self, policy: QuotaPolicy) -> bool {
        let by_policy = policy == QuotaPolicy::Keep && self.status != Status::Refunded;
        self.ended_by.as_ref().map_or(by_policy, |ended| ended.quota_kept)
    }

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
