//! Domain values as the HTTP contract shows them.

use serde::Serialize;

use crate::domain::{
    cart::OrderLine,
    coupon::Coupon,
    ids::ActivityId,
    money::{Currency, Money},
    order::{Order, Placement, Status},
    order_no::OrderNo,
    time::{BusinessDate, UnixMillis},
};

/// An order.
#[derive(Serialize)]
pub struct OrderDocument<'a> {
    pub order_no: &'a OrderNo,
    pub activity: &'a ActivityId,
    pub status: Status,
    pub lines: &'a [OrderLine],
    /// What a coupon takes off the lines, and its code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coupon: Option<&'a Coupon>,
    pub total: Money,
    pub currency: &'a Currency,
    pub biz_date: BusinessDate,
    pub created_at: UnixMillis,
    pub pay_before: UnixMillis,
    /// Whether an earlier call of the same submission made it.
    pub replayed: bool,
}

impl<'a> OrderDocument<'a> {
    #[must_use]
    pub fn of(order: &'a Order, replayed: bool) -> Self {
        Self::of_placement(&order.placement, order.status, replayed)
    }

    #[must_use]
    pub fn of_placement(placement: &'a Placement, status: Status, replayed: bool) -> Self {
        Self {
            order_no: &placement.order_no,
            activity: &placement.activity,
            status,
            lines: &placement.lines,
            coupon: placement.coupon.as_ref(),
            total: placement.total(),
            currency: &placement.currency,
            biz_date: placement.biz_date,
            created_at: placement.created_at,
            pay_before: placement.pay_before,
            replayed,
        }
    }
}

/// An order of which only the number and where it stands can be told.
#[derive(Serialize)]
pub struct BareOrder<'a> {
    pub order_no: &'a OrderNo,
    pub status: &'static str,
}

/// The status of an admitted order whose outcome is not stored yet.
pub const CONFIRMING: &str = "CONFIRMING";
