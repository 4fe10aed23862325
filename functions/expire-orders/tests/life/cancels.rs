//! Buyers give orders up.

use holdfast::domain::order::{Status, Stored};
use serde_json::json;

use crate::shop::{SKU, Shop};

#[tokio::test]
async fn a_buyer_who_cancels_may_buy_again() {
    let shop = Shop::open(1, &json!({})).await;
    let order_no = shop.buy("alice").await;
    for _ in 0..2 {
        let (status, body) = shop.cancel("alice", &order_no, &json!({})).await;
        assert_eq!((status, &body["status"]), (200, &json!("CANCELLED")), "{body}");
        shop.agrees_on(1).await;
    }
    let again = shop.buy("alice").await;
    assert_ne!(again, order_no);
    shop.agrees_on(0).await;
}

#[tokio::test]
async fn where_the_policy_keeps_quota_the_unit_goes_to_somebody_else() {
    let shop = Shop::open(1, &json!({"on_cancel": "keep"})).await;
    let order_no = shop.buy("alice").await;
    assert_eq!(shop.cancel("alice", &order_no, &json!({})).await.0, 200);
    let (status, body) = shop.order("alice").await;
    assert_eq!((status, &body["code"]), (409, &json!("limit_reached")), "{body}");
    shop.buy("bob").await;
    shop.agrees_on(0).await;
}

#[tokio::test]
async fn nobody_cancels_an_order_of_somebody_else() {
    let shop = Shop::open(2, &json!({})).await;
    let (token, order_no) = shop.token("alice");
    assert_eq!(shop.submit("alice", &token).await.0, 201);
    let before = shop.stored(&order_no).await;
    // With the token of the order neither: it was given to another buyer.
    for body in [json!({}), json!({"token": token})] {
        let (status, body) = shop.cancel("mallory", &order_no, &body).await;
        assert_eq!((status, &body["code"]), (404, &json!("unknown_order")), "{body}");
    }
    assert_eq!(shop.stored(&order_no).await, before);
    shop.agrees_on(1).await;
}

#[tokio::test]
async fn a_cancel_that_overtakes_its_order_needs_the_token() {
    let shop = Shop::open(2, &json!({})).await;
    let (token, order_no) = shop.token("alice");
    let (other_token, _) = shop.token("alice");
    for body in [json!({}), json!({"token": other_token}), json!({"token": "no token"})] {
        let (status, body) = shop.cancel("alice", &order_no, &body).await;
        assert_eq!((status, &body["code"]), (404, &json!("unknown_order")), "{body}");
        assert_eq!(shop.stored(&order_no).await, None, "nothing was written");
    }
    assert_eq!(shop.cancel("mallory", &order_no, &json!({"token": token})).await.0, 404);
    assert_eq!(shop.stored(&order_no).await, None, "nothing was written");
    for _ in 0..2 {
        let (status, body) = shop.cancel("alice", &order_no, &json!({"token": token})).await;
        assert_eq!((status, &body["status"]), (200, &json!("ABORTED")), "{body}");
    }
    assert!(matches!(shop.stored(&order_no).await, Some(Stored::Aborted(_))));
    let (status, body) = shop.submit("alice", &token).await;
    assert_eq!((status, &body["code"]), (409, &json!("order_aborted")), "{body}");
    shop.agrees_on(2).await;
    shop.buy("alice").await;
    shop.agrees_on(1).await;
}

#[tokio::test]
async fn a_paid_order_is_not_cancelled() {
    let shop = Shop::open(1, &json!({})).await;
    let order_no = shop.buy("alice").await;
    assert_eq!(shop.pay("p1", &order_no).await, "paid");
    let (status, body) = shop.cancel("alice", &order_no, &json!({})).await;
    assert_eq!((status, &body["code"]), (409, &json!("already_paid")), "{body}");
    let Some(Stored::Order(order)) = shop.stored(&order_no).await else { unreachable!("{SKU}") };
    assert_eq!(order.status, Status::Paid);
    shop.agrees_on(0).await;
}
