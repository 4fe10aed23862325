use holdfast::{
    domain::time::UnixMillis,
    ports::{Clock as _, SystemClock},
};
use serde_json::{Value, json};
use servers::{Fault, FaultKind};

use crate::shop::{SKU, Shop, code};

async fn redis(shop: &Shop) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(shop.backend.redis_config.urls[0].as_str()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

async fn flush(shop: &Shop) {
    redis::cmd("FLUSHALL").exec_async(&mut redis(shop).await).await.unwrap();
}

fn same_order(first: &Value, again: &(u16, Value)) {
    assert_eq!(
        (again.0, &again.1["order_no"], &again.1["replayed"]),
        (200, &first["order_no"], &json!(true)),
        "{again:?}"
    );
}

#[tokio::test]
async fn the_same_token_gives_the_same_order_whatever_was_forgotten() {
    let shop = Shop::open(10, &json!({})).await;
    let token = shop.token("alice");
    let (status, first) = shop.order("alice", &token, 1).await;
    assert_eq!((status, &first["replayed"]), (201, &json!(false)));
    same_order(&first, &shop.order("alice", &token, 1).await);
    // The record alone is lost, as after a failover to a replica that lagged.
    let order_no = first["order_no"].as_str().unwrap();
    let home = holdfast::domain::ids::BuyerId::parse("alice").unwrap().home(shop.activity.buckets);
    let removed: u32 = redis::cmd("HDEL")
        .arg(format!("hf:{{sale:{home}}}:orders"))
        .arg(order_no)
        .query_async(&mut redis(&shop).await)
        .await
        .unwrap();
    assert_eq!(removed, 1);
    same_order(&first, &shop.order("alice", &token, 1).await);
    // All of Redis is lost.
    flush(&shop).await;
    same_order(&first, &shop.order("alice", &token, 1).await);
    assert_eq!(shop.available().await, 9);
    assert_eq!(shop.order("bob", &shop.token("bob"), 1).await.0, 201, "the database sells on alone");
    // Reconciliation loads it again, live orders included.
    assert!(shop.reconcile().await.complete);
    assert_eq!((shop.available().await, shop.free().await), (8, Some(8)));
    same_order(&first, &shop.order("alice", &token, 1).await);
    assert_eq!(code(&shop.order("alice", &shop.token("alice"), 1).await.1), "limit_reached");
    assert!(shop.reconcile().await.findings.is_empty());
}

/// The reply of the transaction is lost on its way back, three times: the SDK's retries included.
#[tokio::test]
async fn f19_a_lost_reply_is_settled_by_the_next_try() {
    for strategy in ["prededuct", "cas"] {
        let shop = Shop::open(10, &json!({"strategy": strategy})).await;
        let token = shop.token("alice");
        shop.backend.dynamodb.control().inject(Fault::standing("TransactWriteItems", FaultKind::DropAfter));
        let (status, body) = shop.order("alice", &token, 1).await;
        assert_eq!((status, &body["status"]), (202, &json!("CONFIRMING")), "{strategy}: {body}");
        shop.backend.dynamodb.control().clear();
        let again = shop.order("alice", &token, 1).await;
        same_order(&body, &again);
        assert_eq!(shop.available().await, 9);
        // The message that the unknown outcome sent finds a live order, and leaves it.
        assert_eq!(shop.settle_roll_backs().await, 1);
        same_order(&body, &shop.order("alice", &token, 1).await);
        assert_eq!(shop.available().await, 9);
    }
}

/// Nothing arrived: the message gives the submission up, once and for all.
#[tokio::test]
async fn an_unknown_outcome_that_did_not_commit_is_given_up() {
    let shop = Shop::open(10, &json!({})).await;
    let token = shop.token("alice");
    shop.backend.dynamodb.control().inject(Fault::standing("TransactWriteItems", FaultKind::DropBefore));
    assert_eq!(shop.order("alice", &token, 1).await.0, 202);
    shop.backend.dynamodb.control().clear();
    assert_eq!((shop.available().await, shop.free().await), (10, Some(9)));
    assert_eq!(shop.settle_roll_backs().await, 1);
    assert_eq!((shop.available().await, shop.free().await), (10, Some(10)));
    let (status, body) = shop.order("alice", &token, 1).await;
    assert_eq!((status, code(&body)), (409, "order_aborted"));
    // The quota is free again for a new submission.
    assert_eq!(shop.order("alice", &shop.token("alice"), 1).await.0, 201);
    assert!(shop.reconcile().await.findings.is_empty());
}

#[tokio::test]
async fn the_same_token_with_other_lines_is_refused() {
    let shop = Shop::open(10, &json!({"limit": {"scope": "activity", "max": 5}})).await;
    let token = shop.token("alice");
    assert_eq!(shop.order("alice", &token, 1).await.0, 201);
    let (status, body) = shop.order("alice", &token, 2).await;
    assert_eq!((status, code(&body)), (422, "token_mismatch"));
    flush(&shop).await;
    assert_eq!(code(&shop.order("alice", &token, 2).await.1), "token_mismatch", "also from the database");
    // Two lines of one SKU are one line.
    let lines = json!([{"sku": SKU, "quantity": 1}]);
    assert_eq!(shop.order_body("alice", &json!({"token": token, "lines": lines})).await.0, 200);
}

#[tokio::test]
async fn a_token_is_its_buyers_and_its_activitys_own() {
    let shop = Shop::open(10, &json!({})).await;
    let (status, body) = shop.order("mallory", &shop.token("alice"), 1).await;
    assert_eq!((status, code(&body)), (403, "token_invalid"));
    assert_eq!((shop.available().await, shop.free().await), (10, Some(10)));
}

#[tokio::test]
async fn f20_an_expired_token_still_names_its_order_and_admits_nothing() {
    for strategy in ["prededuct", "cas"] {
        let shop = Shop::open(10, &json!({"strategy": strategy})).await;
        let soon = SystemClock.now().plus_ms(700);
        let used = shop.token_until("alice", soon);
        let (status, first) = shop.order("alice", &used, 1).await;
        assert_eq!(status, 201);
        while SystemClock.now() < soon {
            tokio::task::yield_now().await;
        }
        same_order(&first, &shop.order("alice", &used, 1).await);
        let unused = shop.token_until("bob", UnixMillis::new(1));
        assert_eq!(code(&shop.order("bob", &unused, 1).await.1), "token_invalid");
        assert_eq!(shop.available().await, 9);
    }
}
