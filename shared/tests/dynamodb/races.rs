//! Many at once: exact counts, whatever the order.

use std::time::Duration;

use holdfast::{
    domain::{
        ids::Bucket,
        order::{Order, Stored},
    },
    ports::{Claim, Commit, OrderStore, StockStore},
};
use servers::DynamodbOptions;

use crate::world::{World, activity_id, buyer, now, order, sale, sku};

/// Commits all of them at once; answers in the same order.
async fn commit_all(world: &World, orders: Vec<Order>, limit_max: u32) -> Vec<Commit> {
    let tasks: Vec<_> = orders
        .into_iter()
        .map(|order| {
            let database = world.database.clone();
            tokio::spawn(async move { database.commit(&order, limit_max).await.unwrap() })
        })
        .collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.push(task.await.unwrap());
    }
    answers
}

fn count(answers: &[Commit], wanted: &Commit) -> usize {
    answers.iter().filter(|answer| *answer == wanted).count()
}

fn last_unit() -> Commit {
    Commit::Short(vec![(sku("a"), Bucket::new(0).unwrap())])
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_of_64_buyers_one_gets_the_last_unit() {
    let world = World::patient().await;
    world.open("a", 0, 1).await;
    let orders = (0..64).map(|n| order(&format!("buyer{n}"), n, &[("a", 0, 1)])).collect();
    let answers = commit_all(&world, orders, 1).await;
    assert_eq!((count(&answers, &Commit::Committed), count(&answers, &last_unit())), (1, 63));
    assert_eq!(world.left("a", 0).await, (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn of_64_buyers_who_collide_one_gets_the_last_unit() {
    let latency = Duration::from_millis(2);
    let world = World::with(DynamodbOptions { latency, conflicts: true }).await;
    world.open("a", 0, 1).await;
    let orders = (0..64).map(|n| order(&format!("buyer{n}"), n, &[("a", 0, 1)])).collect();
    let answers = commit_all(&world, orders, 1).await;
    let (short, busy) = (count(&answers, &last_unit()), count(&answers, &Commit::Busy));
    assert_eq!(count(&answers, &Commit::Committed), 1, "{short} short, {busy} busy");
    assert_eq!(short + busy, 63);
    assert_eq!(world.left("a", 0).await, (0, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_buyer_with_50_orders_at_once_gets_no_more_than_the_limit() {
    for limit in [1, 3] {
        let world = World::patient().await;
        world.open("a", 0, 100).await;
        let orders = (0..50).map(|n| order("alice", n, &[("a", 0, 1)])).collect();
        let answers = commit_all(&world, orders, limit).await;
        let limit = usize::try_from(limit).unwrap();
        assert_eq!(count(&answers, &Commit::Committed), limit);
        assert_eq!(count(&answers, &Commit::LimitReached), 50 - limit);
        let listed = world.database.buyer_orders(&activity_id(), &buyer("alice")).await.unwrap();
        assert_eq!(listed.len(), limit);
        let taken = u64::try_from(limit).unwrap();
        assert_eq!(world.left("a", 0).await, (100 - taken, 1 + taken));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_order_from_many_processes_takes_its_stock_once() {
    let world = World::patient().await;
    world.open("a", 0, 100).await;
    let answers = commit_all(&world, vec![order("alice", 1, &[("a", 0, 2)]); 40], 100).await;
    assert_eq!((count(&answers, &Commit::Committed), count(&answers, &Commit::Exists)), (1, 39));
    assert_eq!(world.left("a", 0).await, (98, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_orders_over_the_same_buckets_sell_exactly_what_is_there() {
    let world = World::patient().await;
    for (name, at) in [("a", 0), ("a", 1), ("b", 1)] {
        world.open(name, at, 20).await;
    }
    let parts = |n: u32| match n % 3 {
        0 => vec![("a", 0, 2), ("b", 1, 1)],
        1 => vec![("a", 1, 1), ("b", 1, 2)],
        _ => vec![("a", 0, 1), ("a", 1, 2)],
    };
    let orders: Vec<_> = (0..60).map(|n| order(&format!("buyer{n}"), n, &parts(n))).collect();
    let answers = commit_all(&world, orders.clone(), 9).await;
    let activity = sale(&["a", "b"]);
    for item in world.database.stock(&activity, &[sku("a"), sku("b")]).await.unwrap() {
        let committed = orders.iter().zip(&answers).filter(|(_, answer)| **answer == Commit::Committed);
        let held = committed.flat_map(|(order, _)| order.held_in(item.bucket)).filter(|(name, _)| *name == item.sku);
        let held: Vec<u64> = held.map(|(_, units)| u64::from(units)).collect();
        assert_eq!(item.available + held.iter().sum::<u64>(), 20, "{item:?}");
        assert_eq!(item.version, 1 + u64::try_from(held.len()).unwrap(), "one version per transaction");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f24_of_a_commit_and_a_claim_exactly_one_wins() {
    const ROUNDS: u32 = 500;
    let world = World::start().await;
    world.open("a", 0, u64::from(ROUNDS)).await;
    let (mut committed, mut aborted) = (0, 0);
    for round in 0..ROUNDS {
        let order = order(&format!("buyer{round}"), round, &[("a", 0, 1)]);
        let tombstone = order.placement.clone().into_tombstone(now());
        let (placing, claiming) = (world.database.clone(), world.database.clone());
        let wanted = order.clone();
        // Either goes first in turn, by a different head start.
        let (first, second) = if round % 2 == 0 { (round % 7, 0) } else { (0, round % 7) };
        let place = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(u64::from(first) * 200)).await;
            placing.commit(&wanted, 1).await.unwrap()
        });
        let claim = tokio::spawn(async move {
            tokio::time::sleep(Duration::from_micros(u64::from(second) * 200)).await;
            claiming.claim(&tombstone).await.unwrap()
        });
        let answers = (place.await.unwrap(), claim.await.unwrap());
        let stored = world.database.order(&order.placement.order_no).await.unwrap().unwrap();
        match answers {
            (Commit::Committed, Claim::Order(found)) => {
                assert_eq!((&*found, &stored), (&order, &Stored::Order(order.clone())));
                committed += 1;
            }
            (Commit::Exists, Claim::Aborted) => {
                assert!(matches!(stored, Stored::Aborted(_)));
                aborted += 1;
            }
            other => panic!("round {round}: {other:?}"),
        }
    }
    assert_eq!(committed + aborted, u64::from(ROUNDS));
    assert!(committed > 0 && aborted > 0, "{committed} committed, {aborted} aborted: no race");
    assert_eq!(world.left("a", 0).await, (u64::from(ROUNDS) - committed, 1 + committed));
}
