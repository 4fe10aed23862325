//! Invariant 5: both stores agree order by order in every bucket.

use std::collections::BTreeSet;

use serde::Serialize;

use super::Check;
use crate::stores::snapshot::{GateBucket, Snapshot, StoredOrder};

/// One thing on which the stores do not agree.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Difference {
    pub bucket: u16,
    /// Empty for what is not about one order.
    pub order_no: String,
    pub what: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "bucket {} {}: {}", self.bucket, self.order_no, self.what)
    }
}

pub(super) fn check(snapshot: &Snapshot) -> Check {
    let violations = differences(snapshot).iter().map(ToString::to_string).collect();
    let Some(gate) = &snapshot.gate else {
        return Check::new("5", "both stores agree, order by order", "no Redis in this strategy", violations);
    };
    let records: usize = gate.values().map(|bucket| bucket.records.len()).sum();
    let marks: usize = gate.values().map(|bucket| bucket.marks.len()).sum();
    let numbers = format!(
        "{} stored under order numbers, {records} records and {marks} marks in {} buckets",
        snapshot.orders.len(),
        gate.len()
    );
    Check::new("5", "both stores agree, order by order", numbers, violations)
}

/// Everything on which they do not agree, in the order of the buckets.
#[must_use]
pub fn differences(snapshot: &Snapshot) -> Vec<Difference> {
    let mut found = Vec::new();
    for (bucket, content) in snapshot.gate.iter().flatten() {
        let mut note = |order_no: &str, what: String| {
            found.push(Difference { bucket: *bucket, order_no: order_no.to_owned(), what });
        };
        for unreadable in &content.unreadable {
            note("", format!("cannot be read: {unreadable}"));
        }
        // Every order is looked for in every bucket, whether it names it or not.
        let named = snapshot.orders.keys().chain(content.records.keys());
        let numbers: BTreeSet<&String> = named.chain(content.marks.iter().map(|mark| &mark.order_no)).collect();
        for order_no in numbers {
            for what in compare(snapshot, *bucket, content, order_no) {
                note(order_no, what);
            }
        }
    }
    found
}

fn compare(snapshot: &Snapshot, bucket: u16, content: &GateBucket, order_no: &str) -> Vec<String> {
    let order = snapshot.orders.get(order_no);
    let mut found: Vec<String> = match order {
        Some(order) if order.is_live() => live(order, bucket, content, order_no),
        _ => dead(order, content, order_no),
    }
    .into_iter()
    .collect();
    found.extend(marks(snapshot, order, bucket, content, order_no));
    found
}

/// A live order needs a record D of its take with exactly its units where it holds some and at home;
/// elsewhere nothing may be held.
fn live(order: &StoredOrder, bucket: u16, content: &GateBucket, order_no: &str) -> Option<String> {
    let expected = order.held_in(bucket);
    let concerned = order.home == Some(bucket) || !expected.is_empty();
    let Some(record) = content.records.get(order_no) else {
        return concerned.then(|| "the order lives and has no record".to_owned());
    };
    if concerned && (!record.deducted || record.take != order.take) {
        let side = if record.deducted { 'D' } else { 'R' };
        return Some(format!("the order lives with take {} and its record is {side}{}", order.take, record.take));
    }
    let held = record.units.iter().map(|(sku, units)| (sku.as_str(), *units));
    let same = if record.deducted { held.eq(expected) } else { expected.is_empty() };
    (!same).then(|| format!("the record holds {:?}, the order says otherwise", record.units))
}

/// A dead order, or none, holds nothing; and what was given back was given up first.
fn dead(order: Option<&StoredOrder>, content: &GateBucket, order_no: &str) -> Option<String> {
    let record = content.records.get(order_no)?;
    match (order, record.deducted) {
        (None, true) => Some(format!("a record D{} without an order", record.take)),
        (None, false) => Some(format!("a record R{} and nothing that was given up", record.take)),
        (Some(order), true) => Some(format!("the order is {} and not restocked", order.status.as_str())),
        (Some(_), false) => None,
    }
}

/// A live order is marked at home in each of its scopes with its units; nobody else is marked, unless
/// the quota is kept.
fn marks(
    snapshot: &Snapshot,
    order: Option<&StoredOrder>,
    bucket: u16,
    content: &GateBucket,
    order_no: &str,
) -> Vec<String> {
    let marks: Vec<_> = content.marks.iter().filter(|mark| mark.order_no == order_no).collect();
    match order.filter(|order| order.is_live() && order.home == Some(bucket)) {
        Some(order) => {
            let missing = order.charges.iter().filter(|(scope, units)| {
                !marks.iter().any(|mark| {
                    mark.scope == **scope && mark.units == **units && Some(&mark.buyer) == order.buyer.as_ref()
                })
            });
            let mut found: Vec<String> = missing.map(|(scope, _)| format!("no mark in scope {scope}")).collect();
            if marks.len() > order.charges.len() {
                found.push("more marks than the order has scopes".to_owned());
            }
            found
        }
        None if marks.is_empty() => Vec::new(),
        None if order
            .is_some_and(|order| !order.is_live() && order.quota_kept.unwrap_or(snapshot.activity.keeps_quota)) =>
        {
            Vec::new()
        }
        None => vec!["a mark without a live order at home here".to_owned()],
    }
}
