//! Redis gone in part: a cluster of which one node is dead, and a call that fails in the middle of an order.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use harness::faulty::{Faulty, Saboteur, Strike};
use holdfast::{
    app::{
        admission::AdmissionControl,
        place_order::{PlaceOrder, Placed, Submission},
    },
    config::RedisConfig,
    domain::{cart::Cart, ids::BuyerId, money::Quantity},
    ports::{StockGate as _, SystemClock},
};
use serde_json::json;
use servers::{RedisCluster, until};

use crate::shop::{SKU, Shop, UNBOUNDED, code};

const BUCKETS: u16 = 12;

/// Which buckets answer, asked from a process that has not met the dead node.
async fn answering(shop: &Shop) -> Vec<u16> {
    let gate = shop.backend.another_process().gate;
    let mut answering = Vec::new();
    for bucket in shop.activity.buckets.all() {
        if gate.read_bucket(&shop.activity, bucket).await.is_ok() {
            answering.push(bucket.get());
        }
    }
    answering
}

#[tokio::test(flavor = "multi_thread")]
async fn one_dead_node_of_a_cluster_does_not_stop_the_others_from_using_redis() {
    let mut cluster = RedisCluster::start().await.unwrap();
    cluster.serve_partly().await.unwrap();
    let redis = RedisConfig::new(cluster.urls(), true, 1_000);
    let options = harness::Options { redis: Some(redis), ..harness::Options::default() };
    let shop = Shop::open_with(options, 240, &json!({"buckets": BUCKETS})).await;
    assert_eq!(shop.order("first", &shop.token("first"), 1).await.0, 201);
    cluster.kill_shard(0);
    cluster.until_failed(Duration::from_secs(30)).await.unwrap();
    let alive = answering(&shop).await;
    assert!(!alive.is_empty() && alive.len() < usize::from(BUCKETS), "{alive:?}");

    let home = |buyer: &str| BuyerId::parse(buyer).unwrap().home(shop.activity.buckets).get();
    let buyers: Vec<String> = (0..120).map(|n| format!("buyer-{n}")).collect();
    let tokens: Vec<String> = buyers.iter().map(|buyer| shop.token(buyer)).collect();
    // One after the other: a process of a function serves few at once.
    for chunk in buyers.iter().zip(&tokens).collect::<Vec<_>>().chunks(8) {
        let answers = join_all(chunk.iter().map(|(buyer, token)| shop.order_patiently(buyer, token))).await;
        assert!(answers.iter().all(|(status, _)| *status == 201), "{answers:?}");
    }
    assert_eq!(shop.available().await, 240 - 121);
    // Every order whose home node lives went through Redis.
    let gate = shop.backend.another_process().gate;
    for bucket in shop.activity.buckets.all().filter(|bucket| alive.contains(&bucket.get())) {
        let of_it = buyers.iter().chain([&"first".to_owned()]).filter(|buyer| home(buyer) == bucket.get()).count();
        let state = gate.read_bucket(&shop.activity, bucket).await.unwrap();
        assert_eq!(state.skus[0].sold, i64::try_from(of_it).unwrap(), "bucket {bucket}");
    }
    for (buyer, token) in buyers.iter().zip(&tokens).take(20) {
        assert_eq!(shop.order_patiently(buyer, token).await.0, 200);
        assert_eq!(code(&shop.order_patiently(buyer, &shop.token(buyer)).await.1), "limit_reached");
    }
    // To the last unit, wherever it is: what the dead buckets have is not "sold out".
    let late: Vec<String> =
        (120..).map(|n| format!("buyer-{n}")).filter(|buyer| alive.contains(&home(buyer))).take(140).collect();
    let (mut sold, mut refused) = (121, 0);
    for chunk in late.chunks(8) {
        let tokens: Vec<String> = chunk.iter().map(|buyer| shop.token(buyer)).collect();
        let orders = chunk.iter().zip(&tokens).map(|(buyer, token)| shop.order_patiently(buyer, token));
        for (status, body) in join_all(orders).await {
            if status == 201 {
                sold += 1;
            } else {
                assert_eq!(code(&body), "sold_out");
                refused += 1;
            }
        }
    }
    assert_eq!((sold, refused, shop.available().await), (240, 21, 0));
    // The node comes back with nothing.
    cluster.revive_primary(0).await.unwrap();
    let nothing_found = async || {
        let report = shop.reconcile().await;
        Ok((report.complete && report.faults == 0 && report.findings.is_empty()).then_some(()))
    };
    until("both stores agree", Duration::from_mins(1), nothing_found).await.unwrap();
    assert_eq!((shop.available().await, shop.free().await), (0, Some(0)));
}

/// Redis fails at any step while other buckets are looked for: the database has the unit, and sells it.
#[tokio::test]
async fn redis_failing_while_other_buckets_are_looked_for_is_no_sold_out() {
    for step in 0..6 {
        let shop = Shop::open(2, &json!({"buckets": 2})).await;
        let home = |buyer: &String| BuyerId::parse(buyer).unwrap().home(shop.activity.buckets).get() == 0;
        let buyers: Vec<String> = (0..).map(|n| format!("b{n}")).filter(home).take(2).collect();
        assert_eq!(shop.order(&buyers[0], &shop.token(&buyers[0]), 1).await.0, 201);
        // Redis shows one too many at home, as after a failover that lost the deduction.
        let _: () = shop.redis(redis::cmd("HSET").arg("hf:{sale:0}:bucket").arg(SKU).arg("1|0|1|1|1")).await;
        let wiring = shop.backend.another_process();
        let use_case = PlaceOrder {
            memory: holdfast::app::stock_memory::StockMemory::default(),
            cache: wiring.cache,
            admission: AdmissionControl::new(wiring.database.clone(), UNBOUNDED),
            store: wiring.database,
            gate: Faulty { inner: wiring.gate, saboteur: Saboteur::at(step, Strike::Refused) },
            messages: wiring.queues,
            clock: SystemClock,
            keys: Arc::clone(&shop.backend.keys),
        };
        let cart = Cart::new([(shop.activity.skus[0].sku.clone(), Quantity::new(1).unwrap())]).unwrap();
        let buyer = BuyerId::parse(&buyers[1]).unwrap();
        let token = shop.token(&buyers[1]);
        let submission = Submission { activity: shop.activity.id.clone(), buyer, token, cart, coupon: None };
        let placed = use_case.run(submission).await.unwrap();
        assert!(matches!(placed, Placed::Created(_)), "step {step}: {placed:?}");
        assert_eq!(shop.available().await, 0);
        for _ in 0..2 {
            assert!(shop.reconcile().await.complete);
        }
        assert!(shop.reconcile().await.findings.is_empty(), "step {step}");
        assert_eq!(shop.free().await, Some(0));
    }
}
