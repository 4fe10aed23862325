//! A buyer gives an order up.

use serde_json::json;
use servers::{Fault, FaultKind};

use crate::shop::{Shop, code};

#[tokio::test]
async fn a_buyer_cancels_and_may_buy_again() {
    let shop = Shop::open(4, &json!({})).await;
    let token = shop.token("alice");
    assert_eq!(shop.submit("alice", &token, 1).await.0, 201);
    let order_no = shop.number(&token);
    assert_eq!(code(&shop.submit("alice", &shop.token("alice"), 1).await), (409, "limit_reached"));
    assert_eq!(shop.left().await, (3, 3));
    for _ in 0..3 {
        let (status, body) = shop.cancel("alice", &order_no, &json!({})).await;
        assert_eq!((status, &body["status"]), (200, &json!("CANCELLED")));
        assert_eq!(shop.left().await, (4, 4));
    }
    let (status, body) = shop.submit("alice", &token, 1).await;
    assert_eq!((status, &body["status"]), (200, &json!("CANCELLED")), "the same submission is told what became of it");
    shop.order("alice").await;
    assert_eq!(shop.left().await, (3, 3));
    shop.agree().await;
}

#[tokio::test]
async fn nobody_cancels_what_is_not_theirs_or_is_paid() {
    let shop = Shop::open(4, &json!({})).await;
    let (hers, paid) = (shop.order("alice").await, shop.order("paul").await);
    shop.pay(&paid).await;
    let mine = shop.token("mallory");
    for body in [json!({}), json!({"token": mine})] {
        assert_eq!(code(&shop.cancel("mallory", &hers, &body).await), (404, "unknown_order"));
    }
    assert_eq!(code(&shop.cancel("paul", &paid, &json!({})).await), (409, "already_paid"));
    assert_eq!((shop.status(&hers).await, shop.status(&paid).await), ("PENDING_PAYMENT", "PAID"));
    shop.let_expire().await;
    assert_eq!(code(&shop.cancel("alice", &hers, &json!({})).await), (409, "not_possible"));
    shop.agree().await;
}

/// M22: what was cancelled before it is stored never becomes an order.
#[tokio::test]
async fn f24_a_cancellation_that_overtakes_its_order_wins() {
    let shop = Shop::open(4, &json!({})).await;
    let token = shop.token("alice");
    let order_no = shop.number(&token);
    assert_eq!(code(&shop.cancel("alice", &order_no, &json!({})).await), (404, "unknown_order"));
    assert_eq!(shop.status(&order_no).await, "", "without the token nothing is written");
    let (status, body) = shop.cancel("alice", &order_no, &json!({"token": token})).await;
    assert_eq!((status, &body["status"]), (200, &json!("ABORTED")));
    assert_eq!(code(&shop.submit("alice", &token, 1).await), (409, "order_aborted"));
    assert_eq!(shop.left().await, (4, 4));
    shop.agree().await;
}

/// The buyer was told 202 and does not want to know any more.
#[tokio::test]
async fn an_order_of_unknown_outcome_is_given_up() {
    let shop = Shop::open(4, &json!({})).await;
    let token = shop.token("alice");
    shop.backend.dynamodb.control().inject(Fault::standing("TransactWriteItems", FaultKind::DropBefore));
    assert_eq!(shop.submit("alice", &token, 1).await.0, 202);
    shop.backend.dynamodb.control().clear();
    assert_eq!(shop.left().await, (4, 3));
    let (status, body) = shop.cancel("alice", &shop.number(&token), &json!({"token": token})).await;
    assert_eq!((status, &body["status"]), (200, &json!("ABORTED")));
    assert_eq!(shop.left().await, (4, 4));
    shop.order("alice").await;
    shop.agree().await;
}

#[tokio::test]
async fn an_order_over_several_buckets_goes_back_to_each() {
    let shop = Shop::open(8, &json!({"limit": {"scope": "activity", "max": 5}})).await;
    let (status, body) = shop.submit("alice", &shop.token("alice"), 5).await;
    assert_eq!(status, 201, "{body}");
    assert_eq!(shop.left().await, (3, 3));
    assert_eq!(shop.cancel("alice", body["order_no"].as_str().unwrap(), &json!({})).await.0, 200);
    assert_eq!(shop.left().await, (8, 8));
    shop.agree().await;
}
