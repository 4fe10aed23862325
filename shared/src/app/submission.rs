//! A submission and what it comes to.

use crate::domain::{
    activity::Activity,
    buckets::ACTIONS_MAX,
    cart::Cart,
    coupon::{Coupon, CouponCode},
    ids::{ActivityId, Bucket, BuyerId, Sku},
    order::{Order, Part, Placement, Stored},
    order_no::OrderNo,
    time::UnixMillis,
    token::{Token, TokenKeys},
};

/// A parsed submission.
#[derive(Clone, Debug)]
pub struct Submission {
    pub activity: ActivityId,
    pub buyer: BuyerId,
    pub token: String,
    pub cart: Cart,
    /// A coupon's code, as it was sent.
    pub coupon: Option<String>,
}

/// What a submission comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Placed {
    /// Committed by this call.
    Created(Box<Order>),
    /// Committed by an earlier call of the same submission.
    Replayed(Box<Order>),
    /// May have been committed; it will be settled one way or the other.
    Confirming(OrderNo),
    Refused(Refusal),
}

/// Why a submission is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    UnknownActivity,
    TokenInvalid,
    UnknownSku(Sku),
    /// Not a coupon of this activity.
    CouponInvalid,
    /// The submission would need more actions than one transaction takes.
    TooLarge,
    /// Same token, other lines or another coupon.
    TokenMismatch,
    /// This submission was given up; it never becomes an order.
    OrderAborted,
    NotStarted,
    Ended,
    Frozen,
    Limited,
    LimitReached(Vec<OrderNo>),
    /// Another order used the coupon.
    CouponUsed,
    SoldOut,
    /// Infrastructure, not business: the same token may be sent again.
    Unavailable,
}

pub(super) const fn refused(refusal: Refusal) -> Placed {
    Placed::Refused(refusal)
}

/// What is stored under the submission's number, told to whoever sent these lines.
pub(super) fn tell(asked: &Placement, stored: Stored) -> Placed {
    if stored.lines_hash().is_some_and(|hash| *hash != asked.lines_hash) {
        return refused(Refusal::TokenMismatch);
    }
    match stored {
        Stored::Order(order) => Placed::Replayed(Box::new(order)),
        Stored::Aborted(_) => refused(Refusal::OrderAborted),
    }
}

/// The submission as this activity admits it.
pub(super) fn place(
    activity: &Activity,
    submission: &Submission,
    (token, keys): (&Token, &TokenKeys),
    now: UnixMillis,
) -> Result<Placement, Refusal> {
    let verified = |code: &String| Coupon::verify(keys, &activity.id, &CouponCode::parse(code).ok()?).ok();
    let coupon = match &submission.coupon {
        Some(code) => Some(verified(code).ok_or(Refusal::CouponInvalid)?),
        None => None,
    };
    let lines = submission.cart.priced(activity).map_err(Refusal::UnknownSku)?;
    let order_no = OrderNo::derive(&submission.activity, &submission.buyer, &token.id);
    let placement = Placement::admit(activity, order_no, submission.buyer.clone(), &submission.cart, lines, now)
        .with_coupon(&submission.cart, coupon);
    if placement.actions() + placement.lines.len() <= ACTIONS_MAX { Ok(placement) } else { Err(Refusal::TooLarge) }
}

/// Every line wholly in the home bucket.
pub(super) fn home_parts(placement: &Placement) -> Vec<Part> {
    placement
        .lines
        .iter()
        .map(|line| Part { sku: line.sku.clone(), bucket: placement.home, units: line.quantity.get() })
        .collect()
}

/// The home bucket and these, each once.
pub(super) fn with_home(home: Bucket, buckets: &[Bucket]) -> Vec<Bucket> {
    let mut all = vec![home];
    for bucket in buckets {
        if !all.contains(bucket) {
            all.push(*bucket);
        }
    }
    all
}
