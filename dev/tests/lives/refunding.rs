//! Refunds: as a whole, by an operator or by the provider.

use holdfast::domain::payment::RefundReason;
use serde_json::json;

use crate::shop::{PRICE, Shop, code, outcome};

#[tokio::test]
async fn an_operator_refunds_a_paid_order_as_a_whole() {
    let shop = Shop::open(4, &json!({})).await;
    let order_no = shop.order("alice").await;
    let reason = json!({"reason": "sent back", "amount": PRICE});
    assert_eq!(code(&shop.operate("refund", &order_no, &reason).await), (409, "not_paid"));
    shop.pay(&order_no).await;
    assert_eq!(code(&shop.operate("cancel", &order_no, &json!({"reason": "x"})).await), (409, "already_paid"));
    let part = json!({"reason": "a scratch", "amount": PRICE - 1});
    assert_eq!(code(&shop.operate("refund", &order_no, &part).await), (422, "partial_refund"));
    assert_eq!((shop.status(&order_no).await, shop.left().await), ("PAID", (3, 3)));
    for _ in 0..2 {
        let (status, body) = shop.operate("refund", &order_no, &reason).await;
        assert_eq!((status, &body["status"]), (200, &json!("REFUNDED")));
        assert_eq!(shop.left().await, (4, 4));
        assert_eq!(shop.refunds(&order_no).await, [("operator-1".to_owned(), RefundReason::Operator)]);
    }
    let ended = shop.committed(&order_no).await.ended_by.unwrap();
    assert_eq!((ended.operator.as_str(), ended.reason.as_str(), ended.quota_kept), ("olivia", "sent back", false));
    assert_eq!(code(&shop.operate("cancel", &order_no, &json!({"reason": "x"})).await), (409, "not_possible"));
    shop.order("alice").await;
    shop.agree().await;
}

#[tokio::test]
async fn the_provider_tells_of_a_refund() {
    let shop = Shop::open(4, &json!({})).await;
    let order_no = shop.order("alice").await;
    assert_eq!(code(&shop.tell(&order_no, "back", "refunded").await), (409, "not_paid"), "before its payment");
    shop.pay(&order_no).await;
    let part = shop.tell_with(&order_no, "back", "refunded", &json!({"amount": 1})).await;
    assert_eq!(code(&part), (422, "partial_refund"));
    assert_eq!((shop.status(&order_no).await, shop.left().await), ("PAID", (3, 3)));
    for expected in ["refunded", "no_effect"] {
        assert_eq!(outcome(&shop.tell(&order_no, "back", "refunded").await), expected);
        assert_eq!((shop.status(&order_no).await, shop.left().await), ("REFUNDED", (4, 4)));
    }
    assert!(shop.refunds(&order_no).await.is_empty(), "the money is back already");
    shop.agree().await;
}

#[tokio::test]
async fn an_operator_cancels_what_is_not_paid() {
    let shop = Shop::open(4, &json!({})).await;
    let order_no = shop.order("alice").await;
    for _ in 0..2 {
        let (status, body) = shop.operate("cancel", &order_no, &json!({"reason": "asked by phone"})).await;
        assert_eq!((status, &body["status"]), (200, &json!("CANCELLED")));
        assert_eq!(shop.left().await, (4, 4));
    }
    assert_eq!(shop.cancel("alice", &order_no, &json!({})).await.0, 200);
    shop.agree().await;
}
