//! Invariants 2 and 4: limits, and each take of an order once.

use std::collections::{BTreeMap, BTreeSet};

use super::Check;
use crate::stores::snapshot::{Snapshot, StockKey, StoredOrder};

type Scope<'a> = (&'a str, &'a str);

fn live_in_scopes(snapshot: &Snapshot) -> BTreeMap<Scope<'_>, u64> {
    let mut units: BTreeMap<Scope<'_>, u64> = BTreeMap::new();
    for order in snapshot.orders.values().filter(|order| order.is_live()) {
        let Some(buyer) = &order.buyer else { continue };
        for (scope, charged) in &order.charges {
            *units.entry((buyer, scope)).or_default() += u64::from(*charged);
        }
    }
    units
}

/// Units beyond the limit per buyer and scope; those within it are left out.
pub(super) fn beyond_limits(snapshot: &Snapshot) -> BTreeMap<Scope<'_>, u64> {
    let limit = snapshot.activity.limit_max;
    let beyond = live_in_scopes(snapshot).into_iter().map(|(scope, units)| (scope, units.saturating_sub(limit)));
    beyond.filter(|(_, units)| *units > 0).collect()
}

/// From the orders themselves, and the guards have to say the same.
pub(super) fn within_limits(snapshot: &Snapshot) -> Check {
    let limit = snapshot.activity.limit_max;
    let live = live_in_scopes(snapshot);
    let mut violations: Vec<String> = beyond_limits(snapshot)
        .into_iter()
        .map(|((buyer, scope), beyond)| format!("{buyer} has {beyond} units more than {limit} in {scope}"))
        .collect();
    for order in snapshot.orders.values().filter(|order| order.is_live()) {
        let charged: u32 = order.charges.values().sum();
        let asked: u32 = order.lines.values().sum();
        if charged != asked {
            violations.push(format!("an order of {asked} units counts as {charged} for its buyer"));
        }
    }
    let guards: BTreeMap<Scope<'_>, u64> =
        snapshot.guards.iter().map(|guard| ((guard.buyer.as_str(), guard.scope.as_str()), guard.units)).collect();
    for ((buyer, scope), units) in &live {
        let guarded = guards.get(&(*buyer, *scope)).copied().unwrap_or(0);
        let agrees = if snapshot.activity.keeps_quota { guarded >= *units } else { guarded == *units };
        if !agrees {
            violations.push(format!("the guard of {buyer} in {scope} says {guarded}, live orders {units}"));
        }
    }
    if !snapshot.activity.keeps_quota {
        for ((buyer, scope), units) in guards.iter().filter(|(scope, units)| **units > 0 && !live.contains_key(*scope))
        {
            violations.push(format!("the guard of {buyer} in {scope} says {units}, and no live order is there"));
        }
    }
    violations.extend(coupons(snapshot));
    let most = live.values().max().copied().unwrap_or(0);
    let numbers = format!(
        "{} buyers and scopes with live orders, at most {most} units in one; the limit is {limit}; {} coupons used",
        live.len(),
        snapshot.coupons.len()
    );
    Check::new("2", "no buyer has more than the limit, and no coupon is used twice", numbers, violations)
}

/// Each coupon is held by the order that uses it, and by a dead one only where its quota is kept.
fn coupons(snapshot: &Snapshot) -> Vec<String> {
    let mut violations = Vec::new();
    for (order_no, order) in snapshot.orders.iter().filter(|(_, order)| order.is_live()) {
        let Some(code) = &order.coupon else { continue };
        match snapshot.coupons.get(code) {
            Some(Some(holder)) if holder == order_no => {}
            other => violations.push(format!("the coupon of {order_no} is held by {other:?}")),
        }
    }
    for (code, holder) in snapshot.coupons.iter().filter_map(|(code, holder)| Some((code, holder.as_ref()?))) {
        let order = snapshot.orders.get(holder).filter(|order| order.coupon.as_ref() == Some(code));
        let keeps = |order: &StoredOrder| order.quota_kept.unwrap_or(snapshot.activity.keeps_quota);
        if !order.is_some_and(|order| order.is_live() || keeps(order)) {
            violations.push(format!("a coupon is held by {holder}, which does not use it"));
        }
    }
    violations
}

/// What the audit trail says of one order and stock item: units of each commit, and of each giving back.
type Moves<'a> = BTreeMap<(&'a str, &'a StockKey), Vec<i64>>;

fn moves<'a>(snapshot: &'a Snapshot, operations: &[&str]) -> Moves<'a> {
    let mut moves = Moves::new();
    for (key, rows) in &snapshot.audit {
        for row in rows.iter().filter(|row| row.operation.as_deref().is_some_and(|of| operations.contains(&of))) {
            let (Some(before), Some(after)) = (row.before, row.after) else { continue };
            moves.entry((&row.reference, key)).or_default().push((before.available - after.available).abs());
        }
    }
    moves
}

/// Each take is committed once: one audit row per order, take and stock item, of exactly the units that the
/// order took there; and each take that ended is given back once. And each record stands at the rank that its
/// order has reached, so that a take was given back only where it had ended.
pub(super) fn takes_once(snapshot: &Snapshot) -> Check {
    let mut taken = moves(snapshot, &["order"]);
    let mut returned = moves(snapshot, &["cancel", "expiry", "refund"]);
    let mut violations = Vec::new();
    let (mut count, mut back) = (0, 0);
    for (order_no, order) in snapshot.committed() {
        let keys: BTreeSet<&StockKey> = snapshot.stock.keys().collect();
        for key in keys {
            let commits = taken.remove(&(order_no.as_str(), key)).unwrap_or_default();
            let returns = returned.remove(&(order_no.as_str(), key)).unwrap_or_default();
            let part = order.parts.get(key).map_or(0, |units| i64::from(*units));
            let held = if order.is_live() { part } else { 0 };
            count += commits.len();
            back += returns.len();
            let ended = usize::from(order.take) - usize::from(order.is_live());
            let sums = commits.iter().sum::<i64>() - returns.iter().sum::<i64>() == held;
            // The last take is in the parts; the one before it only in the trail.
            let last = part == 0 || commits.last() == Some(&part);
            if !sums || !last || commits.len() > usize::from(order.take) || returns.len() > ended {
                violations.push(format!(
                    "{order_no} ({}, take {}) holds {held} {} in bucket {}: audited {commits:?}, given back {returns:?}",
                    order.status.as_str(),
                    order.take,
                    key.0,
                    key.1
                ));
            }
        }
        let whole: BTreeMap<&String, u32> = order.parts.iter().fold(BTreeMap::new(), |mut sum, ((sku, _), units)| {
            *sum.entry(sku).or_default() += *units;
            sum
        });
        if !whole.iter().map(|(sku, units)| (*sku, units)).eq(&order.lines) {
            violations.push(format!("{order_no}: its parts are not its lines"));
        }
    }
    for ((order_no, key), units) in taken.into_iter().chain(returned) {
        violations
            .push(format!("{} in bucket {}: {units:?} units moved for {order_no}, which is no order", key.0, key.1));
    }
    let records: Vec<bool> =
        snapshot.gate.iter().flatten().flat_map(|(_, content)| content.records.values().map(|r| r.deducted)).collect();
    let deducted = records.iter().filter(|deducted| **deducted).count();
    let returned = records.len() - deducted;
    violations.extend(ahead(snapshot));
    let numbers = format!(
        "{count} takes, each committed once, {back} of them given back once; {deducted} records deducted, {returned} given back"
    );
    Check::new("4", "each take of an order commits once and is given back once at most", numbers, violations)
}

/// Records of a higher rank than their order has reached.
fn ahead(snapshot: &Snapshot) -> Vec<String> {
    let mut violations = Vec::new();
    for (bucket, content) in snapshot.gate.iter().flatten() {
        for (order_no, record) in &content.records {
            let Some(order) = snapshot.orders.get(order_no) else { continue };
            let take = order.take.max(1);
            let may_be_returned = !order.is_live() || order.held_in(*bucket).is_empty();
            if record.take > take || (record.take == take && !record.deducted && !may_be_returned) {
                violations.push(format!("{order_no} in bucket {bucket}: its record is ahead of the order"));
            }
        }
    }
    violations
}
