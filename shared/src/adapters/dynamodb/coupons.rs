//! The use of coupons: one item each, with the order that holds it.

use super::{
    change::Change,
    codec::{number, text},
    keys::Key,
    transaction::Action,
};
use crate::domain::{
    FORMAT,
    order::{Order, Placement},
};

/// Uses the order's coupon up, unless another order holds it.
pub fn use_coupon(order: &Order) -> Option<(Action, Change)> {
    let Placement { activity, order_no, coupon, .. } = &order.placement;
    let set = "SET #format = :format, #order_no = :order_no";
    let change = Change::update(Key::coupon(activity, &coupon.as_ref()?.code), set)
        .only_if("attribute_not_exists(#pk) OR (#format = :format AND attribute_not_exists(#order_no))")
        .value("format", number(FORMAT))
        .value("order_no", text(order_no.as_str()));
    Some((Action::Coupon, change))
}

/// Makes the order's coupon good for another order.
pub fn release_coupon(order: &Order) -> Option<(Action, Change)> {
    let Placement { activity, order_no, coupon, .. } = &order.placement;
    let change = Change::update(Key::coupon(activity, &coupon.as_ref()?.code), "REMOVE #order_no")
        .only_if("#format = :format AND #order_no = :order_no")
        .value("format", number(FORMAT))
        .value("order_no", text(order_no.as_str()));
    Some((Action::Other, change))
}
