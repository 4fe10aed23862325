//! What happens to committed orders: endings, payments, refunds.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    Database,
    calls::{Page, Written, bad_item},
    change::Change,
    codec::{BadItem, attribute_of, decode, encode, number, text},
    coupons::{release_coupon, use_coupon},
    keys::{self, Key},
    orders::{due_at, expires_at_s},
    retry::STEADY,
    stock::{NEXT_VERSION, set_mark},
    transaction::{Action, merged, take_parts},
};
use crate::{
    domain::{
        FORMAT,
        activity::Activity,
        ids::Bucket,
        limit::Charge,
        order::{Event, Order, Status, StockEffect, Take, Transition, next},
        order_no::OrderNo,
        payment::{Payment, PaymentId, RefundDue},
        stock::ChangeMark,
        time::UnixMillis,
    },
    ports::{Changed, Commit, Cursor, Ending, Fault, OrderLife, Revival},
};

/// Most refunds of one order that are read: more than it can have.
const REFUNDS_MAX: i32 = 100;
/// Who marks the stock that a late payment takes.
const PAYMENT: &str = "payment";

impl OrderLife for Database {
    async fn end(&self, order: &Order, ending: &Ending) -> Result<Changed, Fault> {
        const OPERATION: &str = "end an order";
        let changes = ending_changes(order, ending).map_err(bad_item(OPERATION))?;
        let Some(changes) = changes else { return Ok(Changed::Otherwise) };
        changed(OPERATION, &self.transact(OPERATION, changes, STEADY).await?)
    }

    async fn pay(&self, order: &Order, payment: &Payment, at: UnixMillis) -> Result<Changed, Fault> {
        const OPERATION: &str = "pay an order";
        let set =
            "SET #status = :to, #updated_at = :at, #payments = list_append(if_not_exists(#payments, :none), :new)";
        let change = Change::update(Key::order(&order.placement.order_no), set)
            .only_before_with(Event::Pay, StockEffect::None)
            .value("to", text(Status::Paid.as_str()))
            .value("at", text(at.to_string()))
            .traced();
        match self.write(OPERATION, &self.tables.table, remember(change, &payment.event_id)).await? {
            Written::Done(_) => Ok(Changed::Done),
            Written::Refused(_) => Ok(Changed::Otherwise),
        }
    }

    async fn pay_late(&self, revival: &Revival<'_>) -> Result<Commit, Fault> {
        const OPERATION: &str = "pay an expired order";
        let Revival { closed, payment, parts, .. } = revival;
        let Some(take) = Take::from_u8(closed.take.get() + 1) else { return Ok(Commit::Exists) };
        let set = "SET #status = :to, #updated_at = :at, #take = :next, #parts = :parts, \
                   #payments = list_append(if_not_exists(#payments, :none), :new) REMOVE #expires_at";
        let alive = Change::update(Key::order(&closed.placement.order_no), set)
            .only_before_with(Event::Pay, StockEffect::Take)
            .and_if("#take = :take")
            .value("to", text(Status::Paid.as_str()))
            .value("at", text(revival.at.to_string()))
            .value("take", number(closed.take.get()))
            .value("next", number(take.get()))
            .value("parts", attribute_of(parts).map_err(bad_item(OPERATION))?)
            .traced();
        let mut changes = vec![(Action::Order, remember(alive, &payment.event_id))];
        if revival.charge {
            for charge in &closed.placement.charges {
                changes.push((Action::Guard, charge_again(closed, charge, revival.limit_max)));
            }
            changes.extend(use_coupon(closed));
        }
        changes.extend(take_parts(closed, parts, PAYMENT));
        self.transact(OPERATION, changes, STEADY).await
    }

    async fn record_refund(&self, refund: &RefundDue, expired: Option<&Order>) -> Result<Changed, Fault> {
        const OPERATION: &str = "record a refund";
        let record = refund_record(refund).map_err(bad_item(OPERATION))?;
        let Some(expired) = expired else {
            return Ok(match self.write(OPERATION, &self.tables.table, record).await? {
                Written::Done(_) => Changed::Done,
                Written::Refused(_) => Changed::Otherwise,
            });
        };
        let set = "SET #payments = list_append(if_not_exists(#payments, :none), :new)";
        let judged = Change::update(Key::order(&expired.placement.order_no), set)
            .only_before_with(Event::Pay, StockEffect::Take)
            .and_if("#take = :take")
            .value("take", number(expired.take.get()));
        let changes = vec![(Action::Order, remember(judged, &refund.event_id)), (Action::Order, record)];
        changed(OPERATION, &self.transact(OPERATION, changes, STEADY).await?)
    }

    async fn refunds(&self, order_no: &OrderNo) -> Result<Vec<RefundDue>, Fault> {
        const OPERATION: &str = "list refunds";
        let page = Page::of((keys::PK, keys::refunds(order_no)), None, REFUNDS_MAX);
        let (items, _) = self.page(OPERATION, &self.tables.table, page).await?;
        items.into_iter().map(decode).collect::<Result<_, _>>().map_err(bad_item(OPERATION))
    }

    async fn due_orders(
        &self,
        activity: &Activity,
        bucket: Bucket,
        between: (UnixMillis, UnixMillis),
        after: Option<&Cursor>,
    ) -> Result<(Vec<OrderNo>, Option<Cursor>), Fault> {
        self.homed(&activity.id, bucket, Some(between), after).await
    }
}

/// What a transaction on an order that is there already means. What it gives back cannot be refused.
fn changed(operation: &'static str, commit: &Commit) -> Result<Changed, Fault> {
    match commit {
        Commit::Committed => Ok(Changed::Done),
        Commit::Exists => Ok(Changed::Otherwise),
        Commit::Busy => Ok(Changed::Busy),
        Commit::LimitReached | Commit::CouponUsed | Commit::Frozen | Commit::Short(_) => {
            Err(Fault::not_applied(operation, "refused where nothing is taken"))
        }
    }
}

/// `None` when the order's own status says that it may not end so.
fn ending_changes(order: &Order, ending: &Ending) -> Result<Option<Vec<(Action, Change)>>, BadItem> {
    let Transition::To(to, StockEffect::GiveBack) = next(Some(order.status), ending.event) else { return Ok(None) };
    let mut changes = vec![(Action::Order, end_order(order, ending, to)?)];
    if !ending.keep_quota {
        for charge in &order.placement.charges {
            changes.push((Action::Other, release_guard(order, charge)));
        }
        changes.extend(release_coupon(order));
    }
    for ((sku, bucket), units) in merged(&order.parts) {
        let mark = ChangeMark {
            operation: ending.operation,
            operator: ending.actor.clone(),
            reference: order.placement.order_no.as_str().to_owned(),
        };
        let key = Key::stock(&order.placement.activity, sku, bucket);
        let change = Change::update(key, &format!("SET #available = #available + :units, {NEXT_VERSION}"))
            .only_if("#format = :format")
            .value("format", number(FORMAT))
            .value("units", number(units));
        changes.push((Action::Other, set_mark(change, &mark)));
    }
    if let Some(refund) = &ending.refund {
        changes.push((Action::Order, refund_record(refund)?));
    }
    Ok(Some(changes))
}

/// The order's own part: its status and, of a dead one, when it may go. Its parts were read before: the
/// take tells whether they are still these.
fn end_order(order: &Order, ending: &Ending, to: Status) -> Result<Change, BadItem> {
    let ended_by = if ending.ended_by.is_some() { ", #ended_by = :ended_by" } else { "" };
    let set = format!("SET #status = :to, #updated_at = :at, #expires_at = :expires_at{ended_by}");
    let mut change = Change::update(Key::order(&order.placement.order_no), &set)
        .only_before_with(ending.event, StockEffect::GiveBack)
        .and_if("#format = :format AND #take = :take")
        .value("format", number(FORMAT))
        .value("to", text(to.as_str()))
        .value("at", text(ending.at.to_string()))
        .value("expires_at", number(expires_at_s(ending.at)))
        .value("take", number(order.take.get()))
        .traced();
    if let Some(ended_by) = &ending.ended_by {
        change = change.value("ended_by", attribute_of(ended_by)?);
    }
    if ending.event == Event::Expire {
        change = change.and_if("#due < :now").value("now", text(due_at(ending.at)));
    }
    Ok(change)
}

/// Adds the payment to those that the order remembers, unless it does already.
fn remember(change: Change, payment: &PaymentId) -> Change {
    let id = || text(payment.as_str());
    change
        .and_if("#format = :format AND NOT contains(#payments, :payment)")
        .value("format", number(FORMAT))
        .value("payment", id())
        .value("none", AttributeValue::L(Vec::new()))
        .value("new", AttributeValue::L(vec![id()]))
}

fn release_guard(order: &Order, charge: &Charge) -> Change {
    let placement = &order.placement;
    // Its entry stays: the buyer can still list the order, and the placements stay bounded.
    Change::update(Key::guard(&placement.activity, &placement.buyer, &charge.scope), "SET #units = #units - :units")
        .only_if("#format = :format AND #units >= :units")
        .value("format", number(FORMAT))
        .value("units", number(charge.units))
}

fn charge_again(order: &Order, charge: &Charge, limit_max: u32) -> Change {
    let placement = &order.placement;
    Change::update(Key::guard(&placement.activity, &placement.buyer, &charge.scope), "SET #units = #units + :units")
        .only_if("#format = :format AND #units <= :room")
        .value("format", number(FORMAT))
        .value("units", number(charge.units))
        .value("room", number(i64::from(limit_max) - i64::from(charge.units)))
}

/// Never removed: it is money.
fn refund_record(refund: &RefundDue) -> Result<Change, BadItem> {
    let mut item = encode(refund)?;
    item.extend(Key::refund(&refund.order_no, &refund.event_id).into_item());
    Ok(Change::put(item).only_if("attribute_not_exists(#pk)").traced())
}
