//! Stock that moves between buckets while the sale runs.

use std::sync::Arc;

use futures_util::future::join_all;
use harness::faulty::{Faulty, Saboteur, Strike};
use holdfast::app::rebalance_stock::{RebalanceReport, RebalanceStock};
use holdfast::domain::ids::{BuyerId, Sku};
use holdfast::lambda::Wiring;
use holdfast::ports::{StockGate as _, StockStore as _, SystemClock};
use serde_json::json;
use servers::{Fault, FaultKind};
use tokio::time::{Duration, Instant};

use crate::shop::{SKU, Shop, code};

async fn rebalance(shop: &Shop) -> RebalanceReport {
    let Wiring { database, gate, .. } = shop.backend.another_process();
    let run = RebalanceStock { store: database, gate, clock: SystemClock };
    run.run(Instant::now() + Duration::from_mins(1)).await.unwrap()
}

/// Units per bucket, in the database and in Redis.
async fn buckets(shop: &Shop) -> Vec<(u64, i64)> {
    let mut all = Vec::new();
    for bucket in shop.activity.buckets.all() {
        let stock = shop.backend.wiring.database.bucket_stock(&shop.activity, bucket).await.unwrap();
        let state = shop.backend.wiring.gate.read_bucket(&shop.activity, bucket).await.unwrap();
        all.push((stock[0].available, state.skus[0].stock));
    }
    all
}

/// Buyers whose home is bucket 0.
fn at_home(shop: &Shop) -> impl Iterator<Item = String> {
    let buckets = shop.activity.buckets;
    (0..).map(|n| format!("b{n}")).filter(move |name| BuyerId::parse(name).unwrap().home(buckets).get() == 0)
}

/// To so many buyers of bucket 0, after the first few.
async fn sell_at_home(shop: &Shop, after: usize, count: usize) {
    for buyer in at_home(shop).skip(after).take(count) {
        shop.submit_patiently(&buyer, &shop.token(&buyer)).await;
    }
}

/// B6: a bucket that is nearly empty gets its share from the full ones, in both stores, with an audit row each.
#[tokio::test]
async fn f23_an_empty_bucket_is_filled_again() {
    let shop = Shop::open(400, &json!({})).await;
    sell_at_home(&shop, 0, 90).await;
    assert_eq!(buckets(&shop).await, [(10, 10), (100, 100), (100, 100), (100, 100)]);
    let report = rebalance(&shop).await;
    assert_eq!((report.activities, report.units, report.faults, report.complete), (1, 67, 0, true));
    let after = buckets(&shop).await;
    assert_eq!(after[0], (77, 77), "{after:?}");
    assert!(after.iter().all(|(database, redis)| i64::try_from(*database) == Ok(*redis)), "{after:?}");
    assert_eq!(rebalance(&shop).await.moves, 0, "and again nothing");
    // Emptied again, it is filled again.
    sell_at_home(&shop, 90, 50).await;
    assert!(rebalance(&shop).await.moves > 0);
    shop.agree().await;
    // B7: who moved it, and why.
    let sku = Sku::parse(SKU).unwrap();
    let bucket = shop.activity.buckets.all().next().unwrap();
    let moved = shop.last_change(&sku, bucket.get()).await;
    assert_eq!((moved[0].as_str(), moved[1].as_str()), ("automatic", "rebalance-stock"));
    assert!(moved[2].starts_with("move: "), "{moved:?}");
}

/// One unit in each bucket: drawn together, so that a buyer of five gets them from one.
#[tokio::test]
async fn the_last_units_are_drawn_together() {
    let shop = Shop::open(8, &json!({"buckets": 8, "limit": {"scope": "activity", "max": 8}})).await;
    let report = rebalance(&shop).await;
    assert_eq!((report.moves, report.units), (7, 7));
    let after = buckets(&shop).await;
    assert_eq!(after.iter().filter(|bucket| **bucket == (8, 8)).count(), 1, "{after:?}");
    let (status, body) = shop.submit("five", &shop.token("five"), 5).await;
    assert_eq!(status, 201, "{body}");
    let parts = shop.committed(body["order_no"].as_str().unwrap()).await.parts;
    assert_eq!(parts.len(), 1, "{parts:?}");
    assert_eq!(rebalance(&shop).await.moves, 0);
    assert_eq!(shop.submit("three", &shop.token("three"), 3).await.0, 201);
    assert_eq!(code(&shop.submit("late", &shop.token("late"), 1).await), (409, "sold_out"));
    shop.agree().await;
}

/// A unit that Redis has promised to an order on its way stays where that order looks for it.
#[tokio::test]
async fn what_is_promised_stays() {
    let shop = Shop::open(4, &json!({})).await;
    let control = shop.backend.dynamodb.control();
    control.inject(Fault::standing("TransactWriteItems", FaultKind::DropBefore));
    let token = shop.token("alice");
    assert_eq!(shop.submit("alice", &token, 1).await.0, 202);
    control.clear();
    let before = buckets(&shop).await;
    let promised = before.iter().position(|bucket| *bucket == (1, 0)).unwrap();
    assert_eq!(rebalance(&shop).await.units, 2);
    let after = buckets(&shop).await;
    assert_eq!(after[promised], (1, 0), "{after:?}");
    assert_eq!(shop.submit("alice", &token, 1).await.0, 201);
    shop.agree().await;
}

#[tokio::test]
async fn what_is_not_running_or_is_frozen_is_left_alone() {
    let later = harness::sample::minutes_from_now(30);
    let shop = Shop::open(8, &json!({"buckets": 8, "starts_at": later})).await;
    assert_eq!(rebalance(&shop).await, RebalanceReport { complete: true, ..RebalanceReport::default() });
    let shop = Shop::open(8, &json!({"buckets": 8})).await;
    let freeze = "POST /v1/admin/activities/{activity}/freeze";
    assert_eq!(shop.admin(freeze, &json!({"reason": "look"})).await.0, 200);
    assert_eq!(rebalance(&shop).await.moves, 0);
    let shop = Shop::open(8, &json!({"buckets": 1})).await;
    assert_eq!(rebalance(&shop).await.activities, 0);
}

#[tokio::test]
async fn without_redis_the_database_alone_is_rebalanced() {
    let shop = Shop::open(8, &json!({"buckets": 8, "strategy": "cas"})).await;
    assert_eq!(rebalance(&shop).await.units, 7);
    let stock = shop.backend.wiring.database.stock(&shop.activity, &[Sku::parse(SKU).unwrap()]).await.unwrap();
    assert_eq!(stock.iter().map(|item| item.available).max(), Some(8));
}

/// Runs at once, and buyers who take what is on the move: every unit is sold, none twice.
#[tokio::test]
async fn buyers_and_runs_at_once_sell_every_unit_once() {
    let shop = Arc::new(Shop::open(60, &json!({"buckets": 8, "limit": {"scope": "activity", "max": 3}})).await);
    let buy = async |n: u32| {
        let buyer = format!("b{n}");
        let answer = shop.submit_until_final(&buyer, &shop.token(&buyer), n % 3 + 1).await;
        (answer.0, n % 3 + 1)
    };
    let runs = async {
        for _ in 0..12 {
            let _ = join_all([rebalance(&shop), rebalance(&shop)]).await;
        }
    };
    let (answers, ()) = tokio::join!(join_all((0..60).map(buy)), runs);
    let sold: u32 = answers.iter().filter(|(status, _)| matches!(status, 200 | 201)).map(|(_, units)| units).sum();
    assert!(sold <= 60);
    let mut left = 60 - sold;
    for n in 0.. {
        let buyer = format!("last-{n}");
        if left == 0 {
            break;
        }
        shop.submit_patiently(&buyer, &shop.token(&buyer)).await;
        left -= 1;
    }
    assert_eq!(code(&shop.submit("late", &shop.token("late"), 1).await), (409, "sold_out"));
    assert_eq!(shop.left().await, (0, 0));
    shop.agree().await;
}

/// Each step of a run fails once: the next run and reconciliation put it right.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_at_any_step_loses_no_unit() {
    // Activities, four buckets, stock, three moves, stock, four allotments.
    for (step, strike) in (0..14).flat_map(|step| Strike::ALL.map(|strike| (step, strike))) {
        let shop = Shop::open(4, &json!({})).await;
        let Wiring { database, gate, .. } = shop.backend.another_process();
        let saboteur = Saboteur::at(step, strike);
        let store = Faulty { inner: database, saboteur: saboteur.clone() };
        let broken = RebalanceStock { store, gate: Faulty { inner: gate, saboteur }, clock: SystemClock };
        let _ = broken.run(Instant::now() + Duration::from_mins(1)).await;
        assert_eq!(rebalance(&shop).await.faults, 0, "{step} {strike:?}");
        // An allotment that was not carried is in Redis after reconciliation at the latest.
        let _ = shop.reconcile().await;
        let after = buckets(&shop).await;
        assert_eq!(after.iter().filter(|bucket| **bucket == (4, 4)).count(), 1, "{step} {strike:?}: {after:?}");
        shop.agree().await;
    }
}
