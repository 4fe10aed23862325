//! Reconciliation by order: what one bucket's record and the database's order say of each other, and
//! the one repair that follows. Every repair is idempotent and safe while the sale runs.

use serde::{Deserialize, Serialize};

use super::{
    activity::QuotaPolicy,
    ids::{Bucket, Sku},
    order::{Status, Stored, Take},
    record::{Rank, Record, Side},
    time::UnixMillis,
};

/// How long a deduction without an order is left alone, in milliseconds: the order may be on its way.
pub const GRACE_MS: i64 = 60_000;

/// What is found to differ. The name under which it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The order lives and Redis does not know it, or knows another quantity.
    RecordLost,
    /// Redis deducted and no order came within the grace.
    OrderMissing,
    /// The order is dead and Redis still holds its units.
    NotRestocked,
    /// The order is dead and the buyer's mark still counts it.
    MarkLeft,
    /// The order is dead, its quota is kept, and Redis has neither record nor mark.
    KeptMarkLost,
    /// The order lives and Redis gave its units back: must be impossible.
    ReturnedWhileLive,
    /// Redis's stock is not allotted − deducted.
    GateSum,
    /// The database's available is not allotted − units of live orders.
    DatabaseSum,
    /// Redis has an older allotment, sale switch or configuration than the database.
    GateStale,
    /// The bucket's keys are gone from Redis.
    GateEmpty,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Raise the record to `Dn` with these units; at home also the buyer's mark.
    Restore { take: Take, held: Vec<(Sku, u32)> },
    /// Claim the order number, then restock every bucket that holds a part.
    Claim,
    /// Raise the record to `Rn`; the mark stays when the quota is kept.
    Restock { take: Take, keep_mark: bool },
    /// Freeze the bucket and call a person.
    Freeze,
}

/// What is known of one order in one bucket. The record must have been read before the order.
pub struct Sighting<'a> {
    pub bucket: Bucket,
    /// Whether this is the buyer's home bucket, where the mark is.
    pub at_home: bool,
    pub record: Option<&'a Record>,
    /// Whether the buyer's mark in this bucket counts the order.
    pub marked: bool,
    pub order: Option<&'a Stored>,
    pub on_cancel: QuotaPolicy,
    pub now: UnixMillis,
}

/// The table of docs/protocol.md, "Reconcile". `None` when both agree or it is too early to tell.
#[must_use]
pub fn decide(seen: &Sighting<'_>) -> Option<(Finding, Repair)> {
    match seen.order {
        None => decide_absent(seen),
        Some(Stored::Order(order)) if order.status.is_live() => {
            let mut held = order.held_in(seen.bucket);
            held.sort();
            decide_live(seen, order.take, held)
        }
        Some(Stored::Order(order)) => {
            let keep_mark = seen.on_cancel == QuotaPolicy::Keep && order.status != Status::Refunded;
            decide_dead(seen, order.take, keep_mark)
        }
        Some(Stored::Aborted(_)) => decide_dead(seen, Take::FIRST, false),
    }
}

fn decide_absent(seen: &Sighting<'_>) -> Option<(Finding, Repair)> {
    let record = seen.record.filter(|record| record.side == Side::Deducted)?;
    let too_early = seen.now.since_ms(record.at) <= GRACE_MS;
    (!too_early).then_some((Finding::OrderMissing, Repair::Claim))
}

fn decide_live(seen: &Sighting<'_>, take: Take, held: Vec<(Sku, u32)>) -> Option<(Finding, Repair)> {
    let target = Rank::of(take, Side::Deducted);
    let rank = seen.record.map_or(Rank::ABSENT, Record::rank);
    let agree = |record: &Record| {
        let mut units: Vec<_> = record.held.iter().filter(|(_, units)| *units > 0).cloned().collect();
        units.sort();
        units == held && (seen.marked || !seen.at_home)
    };
    if rank == Rank::of(take, Side::Returned) {
        return Some((Finding::ReturnedWhileLive, Repair::Freeze));
    }
    // Above: a later state of the order that this read of it did not see yet.
    let behind = rank < target || (rank == target && !seen.record.is_some_and(agree));
    // A bucket that the order never touched needs no record.
    let concerned = seen.at_home || !held.is_empty() || seen.record.is_some();
    (behind && concerned).then_some((Finding::RecordLost, Repair::Restore { take, held }))
}

fn decide_dead(seen: &Sighting<'_>, take: Take, keep_mark: bool) -> Option<(Finding, Repair)> {
    let restock = Repair::Restock { take, keep_mark };
    match seen.record {
        Some(record) if record.side == Side::Deducted => Some((Finding::NotRestocked, restock)),
        _ if seen.marked && !keep_mark => Some((Finding::MarkLeft, restock)),
        None if keep_mark && seen.at_home => Some((Finding::KeptMarkLost, restock)),
        _ => None,
    }
}
