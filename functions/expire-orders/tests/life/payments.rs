//! Money comes: in time, twice, too late, wrong, and goes back.

use serde_json::json;

use crate::shop::{PRICE, Shop};

/// Past the payment deadline of 15 minutes.
const LATE: i64 = 16;

#[tokio::test]
async fn a_payment_is_one_however_often_it_is_told() {
    let shop = Shop::open(1, &json!({})).await;
    let order_no = shop.buy("alice").await;
    assert_eq!(shop.tell("p0", &order_no, &json!({"status": "failed"})).await.1["outcome"], "no_effect");
    assert_eq!(shop.pay("p1", &order_no).await, "paid");
    assert_eq!(shop.pay("p1", &order_no).await, "no_effect");
    assert!(shop.refunds(&order_no).await.is_empty());
    // Other money for the same order.
    for _ in 0..2 {
        assert_eq!(shop.pay("p2", &order_no).await, "refund_due");
    }
    assert_eq!(shop.refunds(&order_no).await, [json!("already_paid")]);
    shop.agrees_on(0).await;
}

#[tokio::test]
async fn other_money_than_the_orders_goes_back_and_the_order_stays_payable() {
    let shop = Shop::open(1, &json!({})).await;
    let order_no = shop.buy("alice").await;
    let wrong = [json!({"amount": PRICE - 1}), json!({"amount": PRICE + 1}), json!({"currency": "USD"})];
    for (n, fields) in wrong.iter().enumerate() {
        let (status, body) = shop.tell(&format!("w{n}"), &order_no, fields).await;
        assert_eq!((status, &body["reason"]), (200, &json!("amount_mismatch")), "{body}");
    }
    assert_eq!(shop.refunds(&order_no).await.len(), wrong.len());
    assert_eq!(shop.pay("p1", &order_no).await, "paid");
    shop.agrees_on(0).await;
}

#[tokio::test]
async fn money_for_no_order_goes_back_and_none_comes_afterwards() {
    let shop = Shop::open(1, &json!({})).await;
    let (token, order_no) = shop.token("alice");
    assert_eq!(shop.pay("p1", &order_no).await, "refund_due");
    assert_eq!(shop.refunds(&order_no).await, [json!("order_aborted")]);
    let (status, body) = shop.submit("alice", &token).await;
    assert_eq!((status, &body["code"]), (409, &json!("order_aborted")), "{body}");
    shop.agrees_on(1).await;
}

#[tokio::test]
async fn an_order_that_is_not_paid_in_time_goes_to_the_next_buyer() {
    let shop = Shop::open(2, &json!({})).await;
    let (late, paid) = (shop.buy("alice").await, shop.buy("bob").await);
    assert_eq!(shop.pay("p1", &paid).await, "paid");
    let early = shop.expire(14).await;
    assert_eq!((early.expired, early.complete), (0, true), "{early:?}");
    shop.agrees_on(0).await;
    let report = shop.expire(LATE).await;
    assert_eq!((report.expired, report.faults, report.complete), (1, 0, true), "{report:?}");
    assert_eq!(shop.expire(LATE).await.expired, 0);
    shop.agrees_on(1).await;
    let (status, body) = shop.cancel("alice", &late, &json!({})).await;
    assert_eq!((status, &body["code"]), (409, &json!("not_possible")), "{body}");
    shop.buy("carol").await;
    shop.agrees_on(0).await;
}

#[tokio::test]
async fn late_money_takes_a_unit_again_while_there_is_one() {
    let shop = Shop::open(1, &json!({})).await;
    let order_no = shop.buy("alice").await;
    assert_eq!(shop.expire(LATE).await.expired, 1);
    assert_eq!(shop.pay("p1", &order_no).await, "paid_late");
    assert_eq!(shop.pay("p1", &order_no).await, "no_effect");
    assert!(shop.refunds(&order_no).await.is_empty());
    shop.agrees_on(0).await;
    // Its quota as well: one is the limit.
    assert_eq!(shop.adjust("one-more", 1).await.0, 200);
    assert_eq!(shop.order("alice").await.1["code"], "limit_reached");
    shop.agrees_on(1).await;
}

/// Without Redis only the database's guard refuses: a late payment has to charge it again.
#[tokio::test]
async fn late_money_takes_quota_again_in_the_database() {
    let shop = Shop::open(2, &json!({"strategy": "cas"})).await;
    let order_no = shop.buy("alice").await;
    assert_eq!(shop.expire(LATE).await.expired, 1);
    assert_eq!(shop.pay("p1", &order_no).await, "paid_late");
    let (status, body) = shop.order("alice").await;
    assert_eq!((status, &body["code"]), (409, &json!("limit_reached")), "{body}");
}

#[tokio::test]
async fn late_money_goes_back_when_the_unit_is_gone() {
    let shop = Shop::open(1, &json!({})).await;
    let order_no = shop.buy("alice").await;
    assert_eq!(shop.expire(LATE).await.expired, 1);
    shop.buy("bob").await;
    assert_eq!(shop.pay("p1", &order_no).await, "refund_due");
    assert_eq!(shop.refunds(&order_no).await, [json!("paid_too_late")]);
    shop.agrees_on(0).await;
}

#[tokio::test]
async fn a_refund_the_provider_tells_of_ends_the_order() {
    let shop = Shop::open(1, &json!({})).await;
    let order_no = shop.buy("alice").await;
    let whole = json!({"status": "refunded"});
    let (status, body) = shop.tell("r1", &order_no, &whole).await;
    assert_eq!((status, &body["code"]), (409, &json!("not_paid")), "it overtook its payment: {body}");
    assert_eq!(shop.pay("p1", &order_no).await, "paid");
    let (status, body) = shop.tell("r0", &order_no, &json!({"status": "refunded", "amount": 1})).await;
    assert_eq!((status, &body["code"]), (422, &json!("partial_refund")), "{body}");
    shop.agrees_on(0).await;
    assert_eq!(shop.tell("r1", &order_no, &whole).await.1["outcome"], "refunded");
    assert_eq!(shop.tell("r1", &order_no, &whole).await.1["outcome"], "no_effect");
    // The provider gave it back already: nobody has to.
    assert!(shop.refunds(&order_no).await.is_empty());
    shop.agrees_on(1).await;
    shop.buy("alice").await;
    shop.agrees_on(0).await;
}
