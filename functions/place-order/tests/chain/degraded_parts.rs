//! A cluster of which one node is dead: its buckets are passed by, the others keep using Redis.

use std::time::Duration;

use futures_util::future::join_all;
use holdfast::{config::RedisConfig, domain::ids::BuyerId, ports::StockGate as _};
use serde_json::json;
use servers::RedisCluster;

use crate::shop::{Shop, code};

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
    let redis = RedisConfig { urls: cluster.urls(), cluster: true, password: None, deadline_ms: 1_000 };
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
    // The node comes back with nothing.
    cluster.revive_primary(0).await.unwrap();
    let deadline = tokio::time::Instant::now() + Duration::from_mins(1);
    loop {
        let report = shop.reconcile().await;
        if report.complete && report.faults == 0 && report.findings.is_empty() {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline, "{report:?}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!((shop.available().await, shop.free().await), (119, Some(119)));
}
