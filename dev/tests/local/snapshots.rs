//! A small world in which everything is right: three buckets, two SKUs, three orders. Tests break it.

use std::collections::BTreeMap;

use dev::checks::{Answer, Check, Submission, invariants};
use dev::stores::snapshot::{
    ActivityFacts, AuditRow, GateBucket, GateRecord, GateSku, Guard, Mark, Snapshot, Stock, StoredOrder,
};
use holdfast::domain::order::Status;

pub const ALICE: &str = "ALICE-ORDER";
pub const BOB: &str = "BOB-ORDER";
pub const DEAD: &str = "DEAD-ORDER";

pub struct World {
    pub snapshot: Snapshot,
    pub told: Vec<Submission>,
}

pub fn units(pairs: &[(&str, u32)]) -> BTreeMap<String, u32> {
    pairs.iter().map(|(sku, units)| ((*sku).to_owned(), *units)).collect()
}

fn order(buyer: &str, home: u16, parts: &[(&str, u16, u32)]) -> StoredOrder {
    let mut lines = BTreeMap::new();
    for (sku, _, units) in parts {
        *lines.entry((*sku).to_owned()).or_default() += units;
    }
    StoredOrder {
        status: Status::PendingPayment,
        take: 1,
        buyer: Some(buyer.to_owned()),
        home: Some(home),
        charges: lines.iter().map(|(sku, units)| (format!("S#{sku}"), *units)).collect(),
        coupon: None,
        quota_kept: None,
        lines,
        parts: parts.iter().map(|(sku, bucket, units)| (((*sku).to_owned(), *bucket), *units)).collect(),
    }
}

pub fn record(buyer: &str, deducted: bool, held: &[(&str, u32)]) -> GateRecord {
    GateRecord { deducted, take: 1, buyer: Some(buyer.to_owned()), units: units(held) }
}

pub fn mark(buyer: &str, scope: &str, order_no: &str) -> Mark {
    Mark { buyer: buyer.to_owned(), scope: scope.to_owned(), order_no: order_no.to_owned(), units: 1 }
}

pub fn told(order_no: &str, buyer: &str, lines: &[(&str, u32)], last: Answer) -> Submission {
    Submission {
        order_no: order_no.to_owned(),
        buyer: buyer.to_owned(),
        lines: units(lines),
        accepted: last == Answer::Accepted,
        ended: false,
        last,
        unanswered: 0,
    }
}

/// Ten of `a` and three of `b` in each of three buckets. Alice (home 0) has one `a` from home and one
/// `b` from bucket 1; Bob (home 2) has one `a`; a third submission was given up.
pub fn world() -> World {
    let mut snapshot = Snapshot {
        activity: ActivityFacts {
            id: "sale".to_owned(),
            buckets: 3,
            uses_gate: true,
            limit_max: 1,
            admission_ratio: 1_000,
            keeps_quota: false,
            offered: [("a".to_owned(), 30), ("b".to_owned(), 9)].into(),
        },
        ..Snapshot::default()
    };
    let mut gate: BTreeMap<u16, GateBucket> = BTreeMap::new();
    for bucket in 0..3 {
        for (sku, allotted) in [("a", 10), ("b", 3)] {
            let stock = Stock { allotted, available: i64::try_from(allotted).unwrap(), version: 1 };
            snapshot.stock.insert((sku.to_owned(), bucket), stock);
            let opened = AuditRow {
                version: 1,
                before: None,
                after: Some(stock),
                operation: Some("manual".to_owned()),
                reference: "preheat".to_owned(),
            };
            snapshot.audit.insert((sku.to_owned(), bucket), vec![opened]);
            let counters = GateSku { free: stock.available, sold: 0, allotted: stock.available };
            gate.entry(bucket).or_default().skus.insert(sku.to_owned(), counters);
        }
    }
    snapshot.gate = Some(gate);
    let mut world = World { snapshot, told: Vec::new() };
    world.place(ALICE, &order("alice", 0, &[("a", 0, 1), ("b", 1, 1)]));
    world.place(BOB, &order("bob", 2, &[("a", 2, 1)]));
    let dead = StoredOrder { status: Status::Aborted, take: 0, ..order("carol", 1, &[]) };
    world.snapshot.orders.insert(DEAD.to_owned(), StoredOrder { home: None, ..dead });
    world.bucket(1).records.insert(DEAD.to_owned(), record("carol", false, &[("a", 1)]));
    world.told.push(told(DEAD, "carol", &[("a", 1)], Answer::Refused("order_aborted".to_owned())));
    world
}

impl World {
    /// Commits an order as the system does, in both stores.
    pub fn place(&mut self, order_no: &str, order: &StoredOrder) {
        let buyer = order.buyer.clone().unwrap();
        for ((sku, bucket), taken) in &order.parts {
            let (key, taken) = ((sku.clone(), *bucket), i64::from(*taken));
            let item = self.snapshot.stock.get_mut(&key).unwrap();
            let before = *item;
            *item = Stock { available: before.available - taken, version: before.version + 1, ..before };
            self.snapshot.audit.get_mut(&key).unwrap().push(AuditRow {
                version: item.version,
                before: Some(before),
                after: Some(*item),
                operation: Some("order".to_owned()),
                reference: order_no.to_owned(),
            });
            let content = self.bucket(*bucket);
            let counters = content.skus.get_mut(sku).unwrap();
            counters.free -= taken;
            counters.sold += taken;
        }
        let mut buckets: Vec<u16> = order.parts.keys().map(|(_, bucket)| *bucket).collect();
        buckets.extend(order.home);
        for bucket in buckets {
            let held: Vec<_> = order.held_in(bucket).into_iter().collect();
            self.bucket(bucket).records.insert(order_no.to_owned(), record(&buyer, true, &held));
        }
        for (scope, charged) in &order.charges {
            let guard = Guard {
                buyer: buyer.clone(),
                scope: scope.clone(),
                units: u64::from(*charged),
                orders: vec![order_no.to_owned()],
            };
            self.snapshot.guards.push(guard);
            self.bucket(order.home.unwrap()).marks.push(mark(&buyer, scope, order_no));
        }
        let lines: Vec<_> = order.lines.iter().map(|(sku, units)| (sku.as_str(), *units)).collect();
        self.told.push(told(order_no, &buyer, &lines, Answer::Accepted));
        self.snapshot.orders.insert(order_no.to_owned(), order.clone());
    }

    pub fn bucket(&mut self, bucket: u16) -> &mut GateBucket {
        self.snapshot.gate.as_mut().unwrap().get_mut(&bucket).unwrap()
    }

    pub fn stock(&mut self, sku: &str, bucket: u16) -> &mut Stock {
        self.snapshot.stock.get_mut(&(sku.to_owned(), bucket)).unwrap()
    }

    pub fn checks(&self) -> Vec<Check> {
        invariants(&self.snapshot, &self.told)
    }

    /// The numbers of the invariants that do not hold.
    pub fn broken(&self) -> Vec<&'static str> {
        self.checks().iter().filter(|check| !check.holds()).map(|check| check.id).collect()
    }
}
