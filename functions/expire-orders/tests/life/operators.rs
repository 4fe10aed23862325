//! What operators do to orders, stock and the sale.

use holdfast::{
    app::activity_cache::LIFETIME,
    domain::order::{Status, Stored},
};
use serde_json::json;
use tokio::time::Instant;

use crate::shop::Shop;

const CANCEL: &str = "POST /v1/admin/activities/{activity}/orders/{order_no}/cancel";
const REFUND: &str = "POST /v1/admin/activities/{activity}/orders/{order_no}/refund";

#[tokio::test]
async fn an_operators_word_on_quota_comes_before_the_policy() {
    for (policy, release, may_buy) in [("release", false, false), ("keep", true, true)] {
        let shop = Shop::open(1, &json!({"on_cancel": policy})).await;
        let order_no = shop.buy("alice").await;
        let asked = json!({"reason": "on the phone", "release_quota": release});
        for _ in 0..2 {
            let (status, body) = shop.operate(CANCEL, &order_no, &asked).await;
            assert_eq!((status, &body["status"]), (200, &json!("CANCELLED")), "{policy}: {body}");
        }
        let Some(Stored::Order(order)) = shop.stored(&order_no).await else { unreachable!("it is stored") };
        let ended_by = order.ended_by.unwrap();
        assert_eq!((ended_by.operator.as_str(), ended_by.quota_kept), ("olga", !release), "{policy}");
        shop.agrees_on(1).await;
        let (status, body) = shop.order("alice").await;
        assert_eq!(status == 201, may_buy, "{policy}: {body}");
        shop.agrees_on(u64::from(!may_buy)).await;
    }
}

#[tokio::test]
async fn an_operator_refunds_a_paid_order_once_and_whole() {
    let shop = Shop::open(1, &json!({})).await;
    let order_no = shop.buy("alice").await;
    let asked = json!({"reason": "damaged"});
    assert_eq!(shop.operate(REFUND, &order_no, &asked).await.1["code"], "not_paid");
    assert_eq!(shop.pay("p1", &order_no).await, "paid");
    assert_eq!(shop.operate(CANCEL, &order_no, &asked).await.1["code"], "already_paid");
    let part = json!({"reason": "damaged", "amount": 1});
    let (status, body) = shop.operate(REFUND, &order_no, &part).await;
    assert_eq!((status, &body["code"]), (422, &json!("partial_refund")), "{body}");
    shop.agrees_on(0).await;
    for _ in 0..2 {
        let (status, body) = shop.operate(REFUND, &order_no, &asked).await;
        assert_eq!((status, &body["status"]), (200, &json!("REFUNDED")), "{body}");
    }
    assert_eq!(shop.refunds(&order_no).await, [json!("operator")]);
    shop.agrees_on(1).await;
}

#[tokio::test]
async fn stock_is_adjusted_once_and_never_below_what_is_sold() {
    let shop = Shop::open(2, &json!({"buckets": 2})).await;
    shop.buy("alice").await;
    for _ in 0..2 {
        let (status, body) = shop.adjust("more", 3).await;
        assert_eq!((status, &body["in_force"]), (200, &json!(true)), "{body}");
        shop.agrees_on(4).await;
    }
    let (status, body) = shop.adjust("more", 4).await;
    assert_eq!((status, &body["code"]), (422, &json!("idempotency_mismatch")), "{body}");
    let (status, body) = shop.adjust("too-much", -5).await;
    assert_eq!((status, &body["code"]), (409, &json!("stock_sold")), "{body}");
    shop.agrees_on(4).await;
    for _ in 0..2 {
        assert_eq!(shop.adjust("all", -4).await.0, 200);
        shop.agrees_on(0).await;
    }
    let (status, body) = shop.submit("bob", &shop.token("bob").0).await;
    assert_eq!((status, &body["code"]), (409, &json!("sold_out")), "{body}");
    assert_eq!(shop.adjust("again", 1).await.0, 200);
    shop.buy("bob").await;
    shop.agrees_on(0).await;
}

#[tokio::test]
async fn after_the_end_nothing_is_sold_and_what_was_sold_is_paid() {
    let shop = Shop::open(5, &json!({})).await;
    let order_no = shop.buy("alice").await;
    assert_eq!(shop.end().await.0, 200);
    assert_eq!(shop.end().await.0, 200);
    let deadline = Instant::now() + LIFETIME;
    let refused = loop {
        let (status, body) = shop.submit("bob", &shop.token("bob").0).await;
        if status == 410 || Instant::now() > deadline {
            break body;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    };
    assert_eq!(refused["code"], "ended", "within the life of what a process remembers");
    assert_eq!(shop.pay("p1", &order_no).await, "paid");
    let Some(Stored::Order(order)) = shop.stored(&order_no).await else { unreachable!("it is stored") };
    assert_eq!(order.status, Status::Paid);
}
