//! Reconciliation by order: what one bucket's record and the database's order say of each other, and
//! the one repair that follows. Every repair is idempotent and safe while the sale runs.

use serde::{Deserialize, Serialize};

use super::{
    activity::QuotaPolicy,
    ids::{Bucket, Sku},
    order::{Order, Placement, Stored, Take},
    record::{Rank, Record, Side},
    time::UnixMillis,
};

/// How long a deduction without an order is left alone, in milliseconds: the order may be on its way.
pub const GRACE_MS: i64 = 60_000;

/// What is found to differ. The name under which it is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finding {
    /// The order lives and Redis does not know it, or knows another quantity or another day of it.
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
    /// Rows of the audit trail never came.
    AuditGap,
}

/// What to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Raise the record to `Dn` with these units and the order's placement; at home also the buyer's mark.
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
            decide_live(seen, order, held)
        }
        Some(Stored::Order(order)) => decide_dead(seen, order.take, order.keeps_quota(seen.on_cancel)),
        Some(Stored::Aborted(_)) => decide_dead(seen, Take::FIRST, false),
    }
}

fn decide_absent(seen: &Sighting<'_>) -> Option<(Finding, Repair)> {
    let record = seen.record.filter(|record| record.side == Side::Deducted)?;
    let too_early = seen.now.since_ms(record.at) <= GRACE_MS;
    (!too_early).then_some((Finding::OrderMissing, Repair::Claim))
}

fn decide_live(seen: &Sighting<'_>, order: &Order, held: Vec<(Sku, u32)>) -> Option<(Finding, Repair)> {
    let take = order.take;
    let target = Rank::of(take, Side::Deducted);
    let rank = seen.record.map_or(Rank::ABSENT, Record::rank);
    let agree = |record: &Record| {
        let mut units: Vec<_> = record.held.iter().filter(|(_, units)| *units > 0).cloned().collect();
        units.sort();
        // Two calls of one submission on either side of midnight: Redis knows one, the order is the other's.
        let charged = |placement: &Placement| placement.charges == order.placement.charges;
        let counted = seen.marked && record.placement.as_ref().is_none_or(charged);
        units == held && (counted || !seen.at_home)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        activity::{Activity, ActivityDraft},
        cart::Cart,
        ids::{ActivityId, BuyerId},
        limit::{Limit, LimitScope},
        money::Quantity,
        order::{Part, Status},
        order_no::OrderNo,
        time::BusinessDate,
        token::TokenId,
    };

    fn placement() -> Placement {
        let draft: ActivityDraft = serde_json::from_value(serde_json::json!({
            "name": "n", "starts_at": "2026-11-29T20:00:00Z", "ends_at": "2026-11-29T21:00:00Z", "time_zone": "UTC",
            "strategy": "prededuct", "buckets": 4, "limit": {"scope": "day", "max": 5}, "on_cancel": "release",
            "payment_minutes": 15, "currency": "EUR", "skus": [{"sku": "a", "stock": 9, "price": 1}]
        }))
        .unwrap();
        let activity = Activity::create(ActivityId::parse("sale").unwrap(), draft).unwrap();
        let buyer = BuyerId::parse("alice").unwrap();
        let cart = Cart::new([(Sku::parse("a").unwrap(), Quantity::new(2).unwrap())]).unwrap();
        let order_no = OrderNo::derive(&activity.id, &buyer, &TokenId::from_bytes([1; 16]));
        Placement::admit(&activity, order_no, buyer, &cart, cart.priced(&activity).unwrap(), activity.window.starts_at)
    }

    /// What a call of the submission admits that begins after midnight.
    fn next_day() -> Placement {
        let mut placement = placement();
        placement.biz_date = BusinessDate::parse("2026-11-30").unwrap();
        let limit = Limit { scope: LimitScope::Day, max: 5 };
        placement.charges = limit.charges(&placement.lines, placement.biz_date);
        placement
    }

    /// D1 and so on, with the units it holds.
    fn record(side: Side, take: Take, units: u32) -> Record {
        let held = vec![(Sku::parse("a").unwrap(), units)];
        Record { take, side, at: placement().created_at, lines_hash: None, held, placement: None }
    }

    fn order(status: Status, take: Take, bucket: Bucket) -> Stored {
        let part = Part { sku: Sku::parse("a").unwrap(), bucket, units: 2 };
        Stored::Order(Order { status, take, ..placement().into_order(vec![part]) })
    }

    struct Case {
        record: Option<Record>,
        order: Option<Stored>,
        marked: bool,
        keep: bool,
        at_home: bool,
        age_ms: i64,
    }

    fn found(case: &Case) -> Option<Finding> {
        decide(&Sighting {
            bucket: placement().home,
            at_home: case.at_home,
            record: case.record.as_ref(),
            marked: case.marked,
            order: case.order.as_ref(),
            on_cancel: if case.keep { QuotaPolicy::Keep } else { QuotaPolicy::Release },
            now: placement().created_at.plus_ms(case.age_ms),
        })
        .map(|(finding, _)| finding)
    }

    #[test]
    fn every_row_of_the_table() {
        use Finding as F;
        let home = placement().home;
        let away = Bucket::new((home.get() + 1) % 4).unwrap();
        let (one, two) = (Take::FIRST, Take::SECOND);
        let d = |units| Some(record(Side::Deducted, one, units));
        let of = |placement| Some(Record { placement: Some(placement), ..record(Side::Deducted, one, 2) });
        let r = |take| Some(record(Side::Returned, take, 2));
        let live = |take| Some(order(Status::PendingPayment, take, home));
        let dead = || Some(order(Status::Cancelled, one, home));
        let aborted = || Some(Stored::Aborted(placement().into_tombstone(placement().created_at)));
        let case = |record, order| Case { record, order, marked: true, keep: false, at_home: true, age_ms: 0 };
        let rows = [
            ("agree", None, case(d(2), live(one))),
            ("lost", Some(F::RecordLost), case(None, live(one))),
            ("other quantity", Some(F::RecordLost), case(d(1), live(one))),
            ("the same placement", None, case(of(placement()), live(one))),
            ("another day", Some(F::RecordLost), case(of(next_day()), live(one))),
            (
                "another day, away from home",
                None,
                Case { at_home: false, marked: false, ..case(of(next_day()), live(one)) },
            ),
            ("mark lost", Some(F::RecordLost), Case { marked: false, ..case(d(2), live(one)) }),
            (
                "no mark away from home",
                None,
                Case { marked: false, at_home: false, ..case(None, Some(order(Status::PendingPayment, one, away))) },
            ),
            (
                "part that the order does not name",
                Some(F::RecordLost),
                Case { at_home: false, ..case(d(2), Some(order(Status::PendingPayment, one, away))) },
            ),
            ("paid late, first take returned", Some(F::RecordLost), case(r(one), live(two))),
            ("later than this read", None, case(Some(record(Side::Deducted, two, 2)), live(one))),
            ("impossible", Some(F::ReturnedWhileLive), case(r(one), live(one))),
            ("in flight", None, Case { age_ms: GRACE_MS, ..case(d(2), None) }),
            ("orphan", Some(F::OrderMissing), Case { age_ms: GRACE_MS + 1, ..case(d(2), None) }),
            ("orphan with nothing", Some(F::OrderMissing), Case { age_ms: GRACE_MS + 1, ..case(d(0), None) }),
            ("returned, no order", None, Case { age_ms: GRACE_MS + 1, ..case(r(one), None) }),
            ("dead", Some(F::NotRestocked), case(d(2), dead())),
            ("aborted", Some(F::NotRestocked), case(d(0), aborted())),
            ("dead and settled", None, Case { marked: false, ..case(r(one), dead()) }),
            ("mark left", Some(F::MarkLeft), case(r(one), dead())),
            ("mark kept", None, Case { keep: true, ..case(r(one), dead()) }),
            (
                "an aborted order never keeps its quota",
                Some(F::MarkLeft),
                Case { keep: true, ..case(r(one), aborted()) },
            ),
            ("kept mark lost", Some(F::KeptMarkLost), Case { keep: true, marked: false, ..case(None, dead()) }),
            ("nothing anywhere", None, Case { marked: false, ..case(None, dead()) }),
        ];
        for (name, expected, case) in rows {
            assert_eq!(found(&case), expected, "{name}");
        }
    }
}
