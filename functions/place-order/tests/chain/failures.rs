//! Database and queue failing, and Redis being wrong: nothing sold twice, nothing lost, no infrastructure
//! error told as a business refusal. Redis gone: `degraded`.

use serde_json::json;
use servers::{Fault, FaultKind};

use crate::shop::{Shop, code};

#[tokio::test]
async fn the_database_refusing_sells_nothing_and_the_same_token_goes_on() {
    for kind in [FaultKind::Conflict, FaultKind::Throttled] {
        let shop = Shop::open(10, &json!({})).await;
        let token = shop.token("alice");
        shop.backend.dynamodb.control().inject(Fault::standing("TransactWriteItems", kind));
        let (status, body) = shop.order("alice", &token, 1).await;
        assert_eq!((status, code(&body)), (503, "unavailable"), "{body}");
        // The deduction waits for the retry: not sold, not lost.
        assert_eq!((shop.available().await, shop.free().await), (10, Some(9)));
        shop.backend.dynamodb.control().clear();
        assert_eq!(shop.order("alice", &token, 1).await.0, 201);
        assert_eq!((shop.available().await, shop.free().await), (9, Some(9)));
        assert!(shop.reconcile().await.findings.is_empty());
    }
}

#[tokio::test]
async fn conflicts_that_pass_are_not_seen_by_the_buyer() {
    let shop = Shop::open(10, &json!({})).await;
    let fault = Fault { operation: Some("TransactWriteItems"), kind: FaultKind::Conflict, times: Some(2) };
    shop.backend.dynamodb.control().inject(fault);
    assert_eq!(shop.order("alice", &shop.token("alice"), 1).await.0, 201);
}

/// F30: the message cannot be sent, the record is the truth: reconciliation would find it.
#[tokio::test]
async fn the_queue_refusing_is_no_error_for_the_buyer() {
    let shop = Shop::open(10, &json!({})).await;
    let token = shop.token("alice");
    shop.backend.sqs.control().inject(Fault::standing("SendMessage", FaultKind::Error500));
    shop.backend.dynamodb.control().inject(Fault::standing("TransactWriteItems", FaultKind::Error500));
    let (status, body) = shop.order("alice", &token, 1).await;
    assert_eq!((status, &body["status"]), (202, &json!("CONFIRMING")));
    shop.backend.dynamodb.control().clear();
    shop.backend.sqs.control().clear();
    assert_eq!(shop.order("alice", &token, 1).await.0, 201);
    assert_eq!((shop.available().await, shop.free().await), (9, Some(9)));
}

/// The database has less than Redis thinks: the surplus is refused exactly, and given back.
#[tokio::test]
async fn when_redis_admits_too_much_the_database_stays_exact() {
    let shop = Shop::open(1, &json!({"buckets": 1})).await;
    let client = redis::Client::open(shop.backend.redis_config.urls[0].as_str()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    // As after a failover that lost deductions.
    let key = "hf:{sale:0}:bucket";
    redis::cmd("HSET").arg(key).arg("phone").arg("3|0|1|1|1").exec_async(&mut connection).await.unwrap();
    assert_eq!(shop.order("alice", &shop.token("alice"), 1).await.0, 201);
    let refused = shop.token("bob");
    assert_eq!(code(&shop.order("bob", &refused, 1).await.1), "sold_out");
    assert_eq!(code(&shop.order("bob", &refused, 1).await.1), "order_aborted", "the refusal was final");
    assert_eq!(shop.available().await, 0);
    // The counter is off and the records agree: reconciliation sets it right.
    let report = shop.reconcile().await;
    assert_eq!(report.findings.len(), 1, "{report:?}");
    assert_eq!(shop.free().await, Some(0));
    assert!(shop.reconcile().await.findings.is_empty());
}

/// The database refused, and the claim cannot be stored: nothing final is told before it is.
#[tokio::test]
async fn a_refusal_is_told_only_when_its_claim_is_stored() {
    let shop = Shop::open(1, &json!({"buckets": 1})).await;
    let client = redis::Client::open(shop.backend.redis_config.urls[0].as_str()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let key = "hf:{sale:0}:bucket";
    redis::cmd("HSET").arg(key).arg("phone").arg("3|0|1|1|1").exec_async(&mut connection).await.unwrap();
    assert_eq!(shop.order("alice", &shop.token("alice"), 1).await.0, 201);
    shop.backend.dynamodb.control().inject(Fault::standing("PutItem", FaultKind::Error500));
    let token = shop.token("bob");
    let (status, body) = shop.order("bob", &token, 1).await;
    assert_eq!((status, &body["status"]), (202, &json!("CONFIRMING")), "{body}");
    shop.backend.dynamodb.control().clear();
    assert_eq!(shop.settle_roll_backs().await, 1);
    assert_eq!(code(&shop.order("bob", &token, 1).await.1), "order_aborted");
}
