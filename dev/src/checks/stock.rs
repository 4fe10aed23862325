//! Invariants 1, 3 and 7: units on sale, sums, audit rows.

use std::collections::BTreeMap;

use super::Check;
use crate::stores::snapshot::{AuditRow, Snapshot, Stock, StockKey};

/// Units in live orders beyond those put on sale, per SKU; SKUs without are left out.
pub(super) fn oversold(snapshot: &Snapshot) -> BTreeMap<String, u64> {
    let mut live: BTreeMap<String, u64> = BTreeMap::new();
    for ((sku, _), units) in snapshot.live_units() {
        *live.entry(sku).or_default() += units;
    }
    live.into_iter()
        .filter_map(|(sku, units)| {
            let beyond = units.saturating_sub(on_sale(snapshot, &sku));
            (beyond > 0).then_some((sku, beyond))
        })
        .collect()
}

/// Units put on sale: what the activity offered, or less where the items say less.
fn on_sale(snapshot: &Snapshot, sku: &str) -> u64 {
    let allotted: u64 = snapshot.stock.iter().filter(|((of, _), _)| of == sku).map(|(_, item)| item.allotted).sum();
    allotted.min(snapshot.activity.offered.get(sku).copied().unwrap_or(0))
}

/// At the end from the orders, and at every instant from the audit trail: each version of each item.
pub(super) fn not_oversold(snapshot: &Snapshot) -> Check {
    let mut violations: Vec<String> = oversold(snapshot)
        .into_iter()
        .map(|(sku, beyond)| format!("{sku}: {beyond} units more in live orders than were put on sale"))
        .collect();
    for (sku, offered) in &snapshot.activity.offered {
        let allotted: u64 = snapshot.stock.iter().filter(|((of, _), _)| of == sku).map(|(_, item)| item.allotted).sum();
        if allotted != *offered {
            violations.push(format!("{sku}: {offered} units offered, {allotted} allotted to buckets"));
        }
    }
    let mut instants = 0;
    for ((sku, bucket), rows) in &snapshot.audit {
        for stock in rows.iter().filter_map(|row| row.after) {
            instants += 1;
            if stock.available < 0 || stock.available > i64::try_from(stock.allotted).unwrap_or(i64::MAX) {
                violations.push(format!(
                    "{sku} in bucket {bucket}: {} available at version {}",
                    stock.available, stock.version
                ));
            }
        }
    }
    let live: u64 = snapshot.live_units().values().sum();
    let offered: u64 = snapshot.activity.offered.values().sum();
    let numbers = format!("{live} units in live orders, {offered} put on sale; {instants} instants in the audit trail");
    Check::new("1", "units in live orders never exceed the stock put on sale", numbers, violations)
}

/// `available ≥ 0`; available + live = allotted in the database; stock + ΣD = allotted and sold = ΣD in
/// Redis, for every SKU in every bucket.
pub(super) fn sums(snapshot: &Snapshot) -> Check {
    let mut violations = database_sums(snapshot);
    let mut compared = 0;
    for (bucket, content) in snapshot.gate.iter().flatten() {
        for (sku, counters) in &content.skus {
            compared += 1;
            let deducted: i64 = content.records.values().map(|record| i64::from(record.holds(sku))).sum();
            if counters.free + deducted != counters.allotted || counters.sold != deducted {
                violations.push(format!(
                    "Redis, {sku} in bucket {bucket}: {} free, {} sold, {deducted} deducted, {} allotted",
                    counters.free, counters.sold, counters.allotted
                ));
            }
        }
        for sku in snapshot.activity.offered.keys().filter(|sku| !content.skus.contains_key(*sku)) {
            violations.push(format!("Redis, bucket {bucket}: no stock of {sku}"));
        }
    }
    for ((sku, bucket), item) in &snapshot.stock {
        let in_gate = snapshot.gate.as_ref().and_then(|gate| gate.get(bucket)?.skus.get(sku));
        if in_gate.is_some_and(|counters| {
            u64::try_from(counters.allotted) != Ok(item.allotted * snapshot.activity.admission_ratio / 1_000)
        }) {
            violations.push(format!("{sku} in bucket {bucket}: the stores have different allotments"));
        }
    }
    let available: i64 = snapshot.stock.values().map(|item| item.available).sum();
    let numbers = format!(
        "{available} units available in {} stock items; {compared} counters in Redis compared with their records",
        snapshot.stock.len()
    );
    Check::new("3", "stock is never negative and every sum is right", numbers, violations)
}

fn database_sums(snapshot: &Snapshot) -> Vec<String> {
    let live = snapshot.live_units();
    let units = |key: &StockKey| live.get(key).copied().unwrap_or(0);
    let wrong = snapshot.stock.iter().filter(|(key, item)| {
        let available = u64::try_from(item.available);
        available.map(|available| available + units(key)) != Ok(item.allotted)
    });
    let mut violations: Vec<String> = wrong
        .map(|(key, item)| {
            let (sku, bucket) = key;
            let (available, allotted) = (item.available, item.allotted);
            format!(
                "{sku} in bucket {bucket}: {available} available, {} in live orders, {allotted} allotted",
                units(key)
            )
        })
        .collect();
    for (sku, bucket) in live.keys().filter(|key| !snapshot.stock.contains_key(*key)) {
        violations.push(format!("{sku} in bucket {bucket}: sold without a stock item"));
    }
    violations
}

/// Units by which the database's sums are off: taken and in no order.
pub(super) fn unexplained(snapshot: &Snapshot) -> u64 {
    let live = snapshot.live_units();
    let missing = snapshot.stock.iter().map(|(key, item)| {
        let explained = u64::try_from(item.available).unwrap_or(0) + live.get(key).copied().unwrap_or(0);
        item.allotted.saturating_sub(explained)
    });
    missing.sum()
}

/// One row per stock change: versions without gap or repeat from 1 to the item's own, each row
/// beginning where the last one ended, none untracked.
pub(super) fn audited(snapshot: &Snapshot) -> Check {
    let mut violations = Vec::new();
    let (mut rows, mut changes) = (0, 0);
    for (key, item) in &snapshot.stock {
        let found = snapshot.audit.get(key).map_or(&[][..], Vec::as_slice);
        rows += found.len();
        changes += item.version;
        violations.extend(trail(item, found).into_iter().map(|what| format!("{} in bucket {}: {what}", key.0, key.1)));
    }
    for (sku, bucket) in snapshot.audit.keys().filter(|key| !snapshot.stock.contains_key(*key)) {
        violations.push(format!("{sku} in bucket {bucket}: rows without a stock item"));
    }
    let numbers = format!("{rows} audit rows for {changes} changes of {} stock items", snapshot.stock.len());
    Check::new("7", "every stock change has exactly one audit row", numbers, violations)
}

fn trail(item: &Stock, rows: &[AuditRow]) -> Vec<String> {
    let mut violations = Vec::new();
    let mut last: Option<Stock> = None;
    for row in rows {
        let expected = last.map_or(1, |stock| stock.version + 1);
        if row.version != expected {
            violations.push(format!("a row of version {} where {expected} should be", row.version));
        }
        if row.operation.is_none() {
            violations.push(format!("version {} was made behind the system's back", row.version));
        }
        if row.before != last {
            violations.push(format!("version {} does not begin where the last one ended", row.version));
        }
        last = row.after;
    }
    if last != Some(*item) {
        let end = last.map_or(0, |stock| stock.version);
        violations.push(format!("the trail ends at version {end}, the item has version {}", item.version));
    }
    violations
}
