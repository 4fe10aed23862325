//! Random sequences: what must hold after each step, whatever came before.

use std::collections::BTreeMap;

use fastrand::Rng;
use holdfast::{
    domain::{
        order::{Placement, Take},
        order_no::OrderNo,
        record::Rank,
    },
    ports::{OrderGate, StockGate},
};
use tokio::task::JoinSet;

use super::support::{Sale, World, allotment, bucket, part, units};

const BUCKETS: u16 = 2;
const STEPS: usize = 2_500;
const SKUS: [&str; 2] = ["a", "b"];

fn submissions(sale: &Sale) -> Vec<Placement> {
    let buyers = ["alice", "bob", "carol|d", "e=f"];
    let orders = buyers.iter().flat_map(|buyer| (0..4_u8).map(move |token| (*buyer, token)));
    orders.map(|(buyer, token)| sale.placement(buyer, token, &[("a", 1 + u32::from(token)), ("b", 2)])).collect()
}

fn pick<'a, T>(rng: &mut Rng, from: &'a [T]) -> &'a T {
    &from[rng.usize(..from.len())]
}

/// One random operation. Answers the order and bucket that it took back as if it had never been.
async fn step(world: &World, sale: &Sale, orders: &[Placement], rng: &mut Rng) -> Option<(OrderNo, u16)> {
    let (gate, activity) = (&world.gate, &sale.activity);
    let placement = pick(rng, orders).clone();
    let at = rng.u16(..BUCKETS);
    let take = *pick(rng, &[Take::FIRST, Take::SECOND]);
    let (a, b) = (rng.u32(..4), rng.u32(..3));
    match rng.u8(..20) {
        0..5 => drop(world.place(sale, &placement).await),
        5..8 => drop(world.look(sale, &placement).await),
        8..11 => drop(gate.deduct(activity, &placement, bucket(at), &units(&[("a", a), ("b", b)])).await.unwrap()),
        11..13 => {
            let _ = gate.undo(activity, &placement, bucket(at)).await.unwrap();
            return Some((placement.order_no, at));
        }
        13..15 => {
            let keep = rng.bool();
            let _ = gate.restock(activity, &placement.order_no, bucket(at), take, keep, None).await.unwrap();
        }
        15..17 => {
            let parts = [part(at, "a", a), part(at, "b", b)];
            let _ = gate.restore(activity, &placement, bucket(at), take, &parts).await.unwrap();
        }
        17 => {
            let moved = allotment(SKUS[rng.usize(..SKUS.len())], rng.u64(..12), rng.u64(..400), rng.u8(..5) > 0);
            gate.sync_allotment(&activity.id, bucket(at), &[moved]).await.unwrap();
        }
        18 => drop(world.preheat(sale, at).await),
        _ => assert_eq!(gate.sum_bucket(activity, bucket(at), true).await.unwrap(), []),
    }
    None
}

/// Stock + ΣD = allotted and sold = ΣD, counted here from the records, not by the script.
async fn ranks(world: &World, sale: &Sale) -> BTreeMap<(OrderNo, u16), Rank> {
    let mut ranks = BTreeMap::new();
    for at in 0..BUCKETS {
        let state = world.gate.read_bucket(&sale.activity, bucket(at)).await.unwrap();
        let page = world.gate.list_records(&sale.activity.id, bucket(at), 0).await.unwrap();
        assert!(page.next.is_none(), "few enough for one page");
        let records: Vec<_> = page.records.into_iter().map(|(no, record)| (no, record.unwrap())).collect();
        for sku in state.skus {
            let held: i64 = records.iter().map(|(_, record)| i64::from(record.holds(&sku.sku))).sum();
            let allotted = i64::try_from(sku.allotted).unwrap();
            assert_eq!((sku.stock + held, sku.sold), (allotted, held), "bucket {at}, {}", sku.sku);
        }
        ranks.extend(records.into_iter().map(|(no, record)| ((no, at), record.rank())));
    }
    ranks
}

pub async fn sums_hold_and_ranks_never_fall(world: &World) {
    let seed = 0x5EED_u64;
    let mut rng = Rng::with_seed(seed);
    let sale = world.sale(BUCKETS, &[("a", 6), ("b", 9)]).await;
    let orders = submissions(&sale);
    let mut before = BTreeMap::new();
    for number in 0..STEPS {
        let undone = step(world, &sale, &orders, &mut rng).await;
        let after = ranks(world, &sale).await;
        for (order, rank) in &before {
            let now = after.get(order).copied().unwrap_or(Rank::ABSENT);
            let excused = undone.as_ref() == Some(order) && now == Rank::ABSENT;
            assert!(now >= *rank || excused, "seed {seed}, step {number}: {order:?} fell");
        }
        before = after;
    }
}

pub async fn sums_hold_under_concurrency(world: &World) {
    let sale = world.sale(BUCKETS, &[("a", 6), ("b", 9)]).await;
    let orders = submissions(&sale);
    let mut running = JoinSet::new();
    for seed in 0..8 {
        let (world, sale, orders) = (world.clone(), sale.clone(), orders.clone());
        running.spawn(async move {
            let mut rng = Rng::with_seed(seed);
            for _ in 0..300 {
                step(&world, &sale, &orders, &mut rng).await;
            }
        });
    }
    running.join_all().await;
    ranks(world, &sale).await;
}
