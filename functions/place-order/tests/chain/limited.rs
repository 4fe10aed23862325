//! Admission while the rollback queue is too long.

use std::sync::Arc;

use holdfast::lambda::Wiring;
use holdfast::ports::{AdmissionStore as _, Clock as _, Limiting, SystemClock};
use serde_json::json;
use servers::{Fault, FaultKind};

use crate::shop::{NOTHING, SKU, Shop, UNBOUNDED, code, order_with};

async fn limit(shop: &Shop, for_ms: i64) {
    let until = SystemClock.now().plus_ms(for_ms);
    let limiting = Limiting { until, by: "system:test".to_owned(), reason: "a test".to_owned(), backlog: 100_001 };
    shop.backend.wiring.database.limit_admission(&limiting).await.unwrap();
}

fn body(token: &str) -> serde_json::Value {
    json!({"token": token, "lines": [{"sku": SKU, "quantity": 1}]})
}

/// M25: new submissions at the bounded rate only, repeats as always; it ends when it runs out.
#[tokio::test]
async fn a_limited_admission_lets_repeats_through_and_ends_by_itself() {
    for strategy in ["prededuct", "cas"] {
        let shop = Shop::open(10, &json!({"strategy": strategy})).await;
        let token = shop.token("alice");
        let (_, first) = shop.order("alice", &token, 1).await;
        limit(&shop, 60_000).await;
        let process = shop.another_process(NOTHING);
        let refused = body(&shop.token("bob"));
        shop.backend.dynamodb.control().reset_counts();
        for _ in 0..5 {
            let (status, answer) = order_with(&process, "bob", &refused).await;
            assert_eq!((status, code(&answer)), (429, "limited"), "{strategy}");
        }
        if strategy == "prededuct" {
            let counts = shop.backend.dynamodb.control().counts();
            assert!(counts.keys().eq(["GetItem"]) && counts["GetItem"] <= 4, "only what is cached: {counts:?}");
            assert_eq!(shop.free().await, Some(9));
        }
        let (status, again) = order_with(&process, "alice", &body(&token)).await;
        assert_eq!((status, &again["order_no"]), (200, &first["order_no"]), "{strategy}");
        // Where the rate has room, the same submission is taken.
        assert_eq!(order_with(&shop.another_process(UNBOUNDED), "bob", &refused).await.0, 201, "{strategy}");
        limit(&shop, -1).await;
        let process = shop.another_process(NOTHING);
        assert_eq!(order_with(&process, "carol", &body(&shop.token("carol"))).await.0, 201, "{strategy}: it ran out");
        assert_eq!(shop.available().await, 7);
    }
}

/// An admission that is not finished yet goes on: its units wait for it.
#[tokio::test]
async fn what_redis_admitted_before_goes_on_while_admission_is_limited() {
    let shop = Shop::open(10, &json!({})).await;
    let token = shop.token("alice");
    shop.backend.dynamodb.control().inject(Fault::standing("TransactWriteItems", FaultKind::Throttled));
    assert_eq!(shop.order("alice", &token, 1).await.0, 503);
    shop.backend.dynamodb.control().clear();
    limit(&shop, 60_000).await;
    assert_eq!(order_with(&shop.another_process(NOTHING), "alice", &body(&token)).await.0, 201);
}

/// Reading the state fails: orders go on.
#[tokio::test]
async fn a_state_that_cannot_be_read_stops_no_order() {
    let shop = Shop::open(10, &json!({})).await;
    assert_eq!(shop.order("alice", &shop.token("alice"), 1).await.0, 201);
    // The activity is cached: what cannot be read is the state alone.
    let wiring = Wiring { cache: shop.backend.wiring.cache.clone(), ..shop.backend.another_process() };
    let process = place_order::handler(wiring, Arc::clone(&shop.backend.keys));
    shop.backend.dynamodb.control().reset_counts();
    shop.backend.dynamodb.control().inject(Fault::standing("GetItem", FaultKind::Error500));
    assert_eq!(order_with(&process, "bob", &body(&shop.token("bob"))).await.0, 201);
    assert!(shop.backend.dynamodb.control().count("GetItem") > 0, "it was asked for");
}
