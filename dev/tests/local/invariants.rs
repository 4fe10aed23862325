//! Each violation that can be planted is found by the invariant that it breaks.

use std::collections::BTreeSet;

use dev::checks::{Answer, Figures, figures};
use dev::stores::snapshot::{AuditRow, GateBucket, Stock, StoredOrder};
use dev::stores::state;
use holdfast::domain::order::Status;

use crate::snapshots::{ALICE, BOB, DEAD, World, mark, record, told, units, world};

type Plant = fn(&mut World);

/// What is planted, the invariants that must find it, and how it is done.
const PLANTED: [(&str, &[&str], Plant); 33] = [
    ("oversold: a unit more in an order than was put on sale", &["1", "3"], |w| {
        let taken = w.snapshot.orders.get_mut(ALICE).unwrap();
        *taken.parts.get_mut(&("a".to_owned(), 0)).unwrap() += 30;
    }),
    ("more allotted than offered", &["1", "3"], |w| w.stock("a", 0).allotted += 1),
    ("negative at some instant", &["1", "7"], |w| {
        let rows = w.snapshot.audit.get_mut(&("a".to_owned(), 0)).unwrap();
        rows[1].after.as_mut().unwrap().available = -1;
    }),
    ("a buyer with two units where one is allowed", &["2"], |w| {
        let bob = w.snapshot.orders.get_mut(BOB).unwrap();
        bob.charges.insert("S#a".to_owned(), 2);
    }),
    ("two orders of one buyer", &["2"], |w| {
        for order_no in [ALICE, BOB] {
            w.snapshot.orders.get_mut(order_no).unwrap().buyer = Some("eve".to_owned());
        }
    }),
    ("a guard that counts less than its orders", &["2"], |w| w.snapshot.guards[0].units = 0),
    ("a guard without an order", &["2"], |w| {
        let guard = w.snapshot.guards[0].clone();
        w.snapshot.guards.push(dev::stores::snapshot::Guard { buyer: "nobody".to_owned(), ..guard });
    }),
    ("a coupon that two orders use", &["2"], |w| {
        for order_no in [ALICE, BOB] {
            w.snapshot.orders.get_mut(order_no).unwrap().coupon = Some("TEN".to_owned());
        }
        w.snapshot.coupons.insert("TEN".to_owned(), Some(ALICE.to_owned()));
    }),
    ("a coupon held by an order that was given up", &["2"], |w| {
        w.snapshot.coupons.insert("TEN".to_owned(), Some(DEAD.to_owned()));
    }),
    ("a coupon held by an order that does not use it", &["2"], |w| {
        w.snapshot.coupons.insert("TEN".to_owned(), Some(ALICE.to_owned()));
    }),
    ("a unit lost in the database", &["3", "7"], |w| w.stock("a", 1).available -= 1),
    ("negative stock", &["3", "7"], |w| w.stock("a", 1).available = -1),
    ("a unit lost in Redis", &["3"], |w| w.bucket(1).skus.get_mut("a").unwrap().free -= 1),
    ("a unit too many in Redis", &["3"], |w| w.bucket(1).skus.get_mut("a").unwrap().free += 1),
    ("sold counted wrong in Redis", &["3"], |w| w.bucket(0).skus.get_mut("a").unwrap().sold += 1),
    ("allotments that differ", &["3"], |w| {
        let counters = w.bucket(1).skus.get_mut("a").unwrap();
        counters.allotted += 1;
        counters.free += 1;
    }),
    ("a bucket without stock in Redis", &["3"], |w| w.bucket(1).skus.clear()),
    ("an order committed twice", &["4", "7"], |w| {
        let rows = w.snapshot.audit.get_mut(&("a".to_owned(), 0)).unwrap();
        let again = rows[1].clone();
        rows.push(again);
    }),
    ("units taken for an order that has no such part", &["4"], |w| {
        BOB.clone_into(&mut w.snapshot.audit.get_mut(&("a".to_owned(), 0)).unwrap()[1].reference);
    }),
    ("a record ahead of its order", &["4", "5"], |w| {
        w.bucket(0).records.get_mut(ALICE).unwrap().take = 2;
    }),
    ("given back while the order lives", &["3", "4", "5"], |w| {
        w.bucket(2).records.insert(BOB.to_owned(), record("bob", false, &[("a", 1)]));
    }),
    ("an order without its record", &["3", "5"], |w| {
        w.bucket(2).records.remove(BOB);
    }),
    ("an order without its mark", &["5"], |w| w.bucket(2).marks.clear()),
    ("a mark without an order", &["5"], |w| w.bucket(1).marks.push(mark("dave", "S#a", "NO-ORDER"))),
    ("a mark for an order that was given up", &["5"], |w| w.bucket(1).marks.push(mark("carol", "S#a", DEAD))),
    ("a deduction without an order", &["3", "5"], |w| {
        w.bucket(1).records.insert("NO-ORDER".to_owned(), record("dave", true, &[("a", 1)]));
    }),
    ("given up and not restocked", &["3", "5"], |w| w.bucket(1).records.get_mut(DEAD).unwrap().deducted = true),
    ("an accepted order that is gone", &["2", "3", "4", "5", "6"], |w| {
        w.snapshot.orders.remove(BOB);
    }),
    ("cancelled, and nothing came back", &["2", "3", "4", "5", "6"], |w| {
        w.snapshot.orders.get_mut(BOB).unwrap().status = Status::Cancelled;
    }),
    ("given back in the database while the order lives", &["3", "4"], |w| {
        let item = w.stock("a", 2);
        let before = *item;
        *item = Stock { available: before.available + 1, version: before.version + 1, ..before };
        let (version, after) = (item.version, Some(*item));
        w.snapshot.audit.get_mut(&("a".to_owned(), 2)).unwrap().push(AuditRow {
            version,
            before: Some(before),
            after,
            operation: Some("cancel".to_owned()),
            reference: BOB.to_owned(),
        });
    }),
    ("an order that ended and lives", &["6"], |w| w.told[1].ended = true),
    ("an accepted order with other lines", &["6"], |w| w.told[1].lines = units(&[("b", 1)])),
    ("a refused order that lives", &["6"], |w| {
        w.told[1] = told(BOB, "bob", &[("a", 1)], Answer::Refused("sold_out".to_owned()));
    }),
];

#[test]
fn a_world_in_order_breaks_nothing() {
    let world = world();
    for check in world.checks() {
        assert!(check.holds(), "{check:?}");
    }
    let ids: Vec<_> = world.checks().iter().map(|check| check.id).collect();
    assert_eq!(ids, ["1", "2", "3", "4", "5", "6", "7"]);
    let figures = figures(&world.snapshot, &world.told, &BTreeSet::new());
    assert_eq!(figures, Figures { sold: 3, ..Figures::default() });
    assert_eq!(state::document(&world.snapshot)["agree"], true);
}

#[test]
fn each_planted_violation_is_found() {
    for (what, expected, plant) in PLANTED {
        let mut world = world();
        plant(&mut world);
        let broken = world.broken();
        assert!(expected.iter().all(|id| broken.contains(id)), "{what}: {broken:?}: {:#?}", world.checks());
    }
}

#[test]
fn each_hole_in_the_audit_trail_is_found() {
    let key = || ("a".to_owned(), 0);
    let plants: [(&str, Plant); 5] = [
        ("a missing row", |w| {
            w.snapshot.audit.get_mut(&("a".to_owned(), 0)).unwrap().remove(0);
        }),
        ("a missing last row", |w| {
            w.snapshot.audit.get_mut(&("a".to_owned(), 0)).unwrap().pop();
        }),
        ("no row at all", |w| {
            w.snapshot.audit.remove(&("b".to_owned(), 2));
        }),
        ("a change behind the system's back", |w| {
            w.snapshot.audit.get_mut(&("a".to_owned(), 0)).unwrap()[0].operation = None;
        }),
        ("a row of a stock item that is not there", |w| {
            let rows = w.snapshot.audit[&("a".to_owned(), 0)].clone();
            w.snapshot.audit.insert(("z".to_owned(), 0), rows[..1].to_vec());
        }),
    ];
    assert_eq!(world().snapshot.audit[&key()].len(), 2);
    for (what, plant) in plants {
        let mut world = world();
        plant(&mut world);
        assert!(world.broken().contains(&"7"), "{what}: {:#?}", world.checks());
    }
}

#[test]
fn figures_count_what_was_oversold_doubled_lost_and_left() {
    let mut world = world();
    world.told.push(told("GONE", "dave", &[("a", 1)], Answer::Accepted));
    world.stock("b", 2).available -= 1;
    let bob = world.snapshot.orders.get_mut(BOB).unwrap();
    bob.parts.insert(("a".to_owned(), 2), 30);
    bob.charges.insert("S#a".to_owned(), 30);
    let wanted = BTreeSet::from(["b".to_owned()]);
    let figures = figures(&world.snapshot, &world.told, &wanted);
    assert_eq!(figures, Figures { sold: 32, oversold: 1, unsold_while_asked: 7, doubled: 29, lost: 2 });
}

#[test]
fn a_kept_quota_may_leave_its_mark_and_a_lost_reply_excuses_a_refusal_by_redis_alone() {
    let mut kept = world();
    kept.snapshot.activity.keeps_quota = true;
    kept.bucket(1).marks.push(mark("carol", "S#a", DEAD));
    assert!(kept.broken().is_empty(), "{:#?}", kept.checks());
    let mut lost = world();
    lost.told[1] = told(BOB, "bob", &[("a", 1)], Answer::Refused("sold_out".to_owned()));
    lost.told[1].unanswered = 1;
    assert!(lost.broken().is_empty(), "an earlier call may still land");
    lost.told[1].last = Answer::Refused("order_aborted".to_owned());
    assert_eq!(lost.broken(), ["6"], "but not after a claim");
}

#[test]
fn without_a_gate_only_the_database_is_judged() {
    let mut world = world();
    world.snapshot.gate = None;
    world.snapshot.activity.uses_gate = false;
    assert!(world.broken().is_empty());
    world.stock("a", 0).available += 1;
    assert_eq!(world.broken(), ["3", "7"]);
}

#[test]
fn the_state_shows_both_stores_bucket_by_bucket_and_where_they_differ() {
    let mut world = world();
    world.bucket(2).records.remove(BOB);
    let state = state::document(&world.snapshot);
    assert_eq!(state["agree"], false);
    assert_eq!(state["differences"][0]["order_no"], BOB);
    let bucket = &state["buckets"][0];
    assert_eq!((&bucket["redis"]["stock"]["a"], &bucket["dynamodb"]["available"]["a"]), (&9.into(), &9.into()));
    assert_eq!(bucket["redis"]["records"][ALICE]["state"], "D1");
    assert_eq!(bucket["redis"]["buyers"]["alice"][0], ALICE);
    assert_eq!(bucket["dynamodb"]["orders"][ALICE]["status"], "PENDING_PAYMENT");
    assert_eq!(bucket["dynamodb"]["orders"][ALICE]["lines"]["b"], 1);
}

#[test]
fn what_cannot_be_read_is_a_difference() {
    let mut world = world();
    *world.bucket(1) = GateBucket { unreadable: vec!["record X".to_owned()], ..world.bucket(1).clone() };
    assert_eq!(world.broken(), ["5"]);
}

#[test]
fn an_order_that_died_after_it_was_told_is_not_what_was_told() {
    let mut world = world();
    let bob = &world.snapshot.orders[BOB];
    let cancelled = StoredOrder { status: Status::Cancelled, ..bob.clone() };
    world.snapshot.orders.insert(BOB.to_owned(), cancelled);
    assert!(world.broken().contains(&"6"));
}
