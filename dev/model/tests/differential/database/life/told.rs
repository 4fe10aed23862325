//! Orders, refunds and moves in the product's terms, and back.

use holdfast::{
    domain::{
        money::{Currency, Money},
        order::{EndedBy, Order as RealOrder},
        payment::{Payment, PaymentId as RealPaymentId, PaymentStatus, RefundDue, RefundReason},
        stock::MoveId as RealMoveId,
    },
    ports::{MovePart, StockMove},
};
use model::reference::{
    Bucket, Moment, OrderId,
    changes::{PaymentId, Refund},
    database::{MoveId, Order},
    stock::Move,
};

use super::{PAYMENTS, payment};
use crate::{
    cast::{Cast, real_bucket, real_parts, real_sku, reference_sku},
    database::answer::OPERATOR,
};

/// Why operators do what they do here.
const WHY: &str = "it was asked for";

pub fn payment_id(id: PaymentId) -> RealPaymentId {
    match id {
        PaymentId::Provider(index) => RealPaymentId::parse(&format!("pay-{index}")).unwrap(),
        PaymentId::Operator(take) => RealPaymentId::of_operator(take),
    }
}

pub fn reference_payment(id: &RealPaymentId) -> Result<PaymentId, String> {
    let known = (0..PAYMENTS).map(payment).find(|known| payment_id(*known) == *id);
    known.ok_or_else(|| format!("a payment {id:?}"))
}

pub fn ended_by(quota_kept: bool) -> EndedBy {
    EndedBy { operator: OPERATOR.to_owned(), reason: WHY.to_owned(), quota_kept }
}

/// An order as a caller read it.
pub fn real_order(cast: &Cast, order: &Order) -> RealOrder {
    let placement = cast.by_reference(&order.placement).unwrap().real.clone();
    RealOrder {
        status: order.status,
        take: order.take,
        updated_at: cast.at(order.updated),
        payments: order.payments.iter().map(|id| payment_id(*id)).collect(),
        ended_by: order.quota_kept.map(ended_by),
        ..placement.into_order(real_parts(&order.parts))
    }
}

/// No two payments are of the same amount.
fn amount(order: OrderId, id: PaymentId) -> Money {
    let index = (0..PAYMENTS).find(|index| payment(*index) == id).unwrap();
    Money::from_minor(100 + u64::from(order.0 * PAYMENTS + index))
}

pub fn real_payment(cast: &Cast, order: OrderId, id: PaymentId) -> Payment {
    Payment {
        event_id: payment_id(id),
        activity: cast.id().clone(),
        order_no: cast.number(order),
        status: PaymentStatus::Paid,
        amount: amount(order, id),
        currency: Currency::parse("EUR").unwrap(),
    }
}

pub fn refund_due(cast: &Cast, order: OrderId, id: PaymentId, (reason, at): (RefundReason, Moment)) -> RefundDue {
    let Payment { event_id, activity, order_no, amount, currency, .. } = real_payment(cast, order, id);
    RefundDue { order_no, activity, event_id, amount, currency, reason, at: cast.at(at) }
}

/// A refund, if it is exactly what was recorded of this payment.
pub fn refund(cast: &Cast, real: &RefundDue) -> Result<((OrderId, PaymentId), Refund), String> {
    let bad = || format!("a refund {real:?}");
    let order = cast.order(real.order_no.as_str()).ok_or_else(bad)?;
    let id = reference_payment(&real.event_id)?;
    let at = cast.moment(real.at).ok_or_else(bad)?;
    if *real == refund_due(cast, order, id, (real.reason, at)) {
        Ok(((order, id), Refund { reason: real.reason, at }))
    } else {
        Err(bad())
    }
}

pub fn move_id(id: MoveId) -> RealMoveId {
    RealMoveId::parse(&format!("move-{}", id.0)).unwrap()
}

pub fn real_move(cast: &Cast, id: MoveId, change: &Move) -> StockMove {
    let part = |(bucket, more): &(Bucket, i16)| MovePart { bucket: real_bucket(*bucket), units: (*more).into() };
    StockMove {
        id: move_id(id),
        activity: cast.id().clone(),
        sku: real_sku(change.sku),
        parts: change.parts.iter().map(part).collect(),
        operator: OPERATOR.to_owned(),
        reason: WHY.to_owned(),
        at: cast.at(change.at),
    }
}

/// A move, if all that was told with it is still there.
pub fn stock_move(cast: &Cast, id: MoveId, real: &StockMove) -> Result<Move, String> {
    let part = |part: &MovePart| Some((Bucket(part.bucket.get().try_into().ok()?), part.units.try_into().ok()?));
    let told = || {
        let parts: Option<Vec<_>> = real.parts.iter().map(part).collect();
        Some(Move { sku: reference_sku(real.sku.as_str())?, parts: parts?, at: cast.moment(real.at)? })
    };
    let told = told().filter(|told| real_move(cast, id, told) == *real);
    told.ok_or_else(|| format!("a move {real:?}"))
}
