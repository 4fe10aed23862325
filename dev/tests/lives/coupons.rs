//! Coupons, from the operator who issues them to the order that is paid with one.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::shop::{Answer, PRICE, SKU, Shop, code};

const OFF: u64 = 900;

async fn coupons(shop: &Shop, count: u16) -> Vec<String> {
    let (status, body) = shop.issue_coupons(&json!({"count": count, "discount": OFF})).await;
    assert_eq!(status, 201, "{body}");
    body["coupons"].as_array().unwrap().iter().map(|code| code.as_str().unwrap().to_owned()).collect()
}

async fn order(shop: &Shop, buyer: &str, token: &str, coupon: &str) -> Answer {
    let body = json!({"token": token, "lines": [{"sku": SKU, "quantity": 1}], "coupon": coupon});
    shop.submit_body(buyer, &body).await
}

fn number(answer: &Answer) -> String {
    assert_eq!(answer.0, 201, "{answer:?}");
    answer.1["order_no"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_order_with_a_coupon_costs_less_and_is_paid_with_that() {
    let shop = Shop::open(4, &json!({})).await;
    let all = coupons(&shop, 2).await;
    assert_ne!(all[0], all[1]);
    let token = shop.token("alice");
    let (status, body) = order(&shop, "alice", &token, &all[0]).await;
    assert_eq!((status, &body["total"]), (201, &json!(PRICE - OFF)));
    assert_eq!(body["coupon"], json!({"code": all[0], "discount": OFF}));
    let replay = order(&shop, "alice", &token, &all[0]).await;
    assert_eq!((replay.0, &replay.1["total"], &replay.1["coupon"]), (200, &body["total"], &body["coupon"]));
    // Another coupon, or none, is another submission.
    assert_eq!(code(&order(&shop, "alice", &token, &all[1]).await), (422, "token_mismatch"));
    assert_eq!(code(&shop.submit("alice", &token, 1).await), (422, "token_mismatch"));
    let order_no = body["order_no"].as_str().unwrap();
    let told = shop.tell_with(order_no, "whole", "paid", &json!({"amount": PRICE})).await;
    assert_ne!(told.1["outcome"], "paid", "{told:?}");
    let told = shop.tell_with(order_no, "less", "paid", &json!({"amount": PRICE - OFF})).await;
    assert_eq!(told.1["outcome"], "paid", "{told:?}");
    shop.agree().await;
}

#[tokio::test]
async fn of_many_buyers_with_one_coupon_one_gets_it_and_the_units_of_the_others_are_there() {
    let shop = Arc::new(Shop::open(20, &json!({})).await);
    let coupon = coupons(&shop, 1).await.remove(0);
    let order = async |n: u32| {
        let buyer = format!("b{n}");
        let token = shop.token(&buyer);
        loop {
            let answer = order(&shop, &buyer, &token, &coupon).await;
            if !matches!(answer.0, 202 | 429 | 503) {
                return answer;
            }
        }
    };
    let answers = join_all((0..16).map(order)).await;
    assert_eq!(answers.iter().filter(|answer| matches!(answer.0, 200 | 201)).count(), 1);
    assert_eq!(answers.iter().filter(|answer| code(answer) == (409, "coupon_used")).count(), 15, "{answers:?}");
    assert_eq!(shop.left().await, (19, 19), "a refused order holds nothing");
    shop.agree().await;
}

#[tokio::test]
async fn a_coupon_that_was_used_aborts_the_submission_and_a_new_one_goes_without() {
    let shop = Shop::open(4, &json!({})).await;
    let coupon = coupons(&shop, 1).await.remove(0);
    number(&order(&shop, "alice", &shop.token("alice"), &coupon).await);
    let token = shop.token("bob");
    assert_eq!(code(&order(&shop, "bob", &token, &coupon).await), (409, "coupon_used"));
    assert_eq!(code(&order(&shop, "bob", &token, &coupon).await), (409, "order_aborted"));
    assert_eq!(shop.submit("bob", &shop.token("bob"), 1).await.0, 201);
    shop.agree().await;
}

#[tokio::test]
async fn a_coupon_comes_back_with_the_quota() {
    for (policy, again) in [("release", (201, "")), ("keep", (409, "coupon_used"))] {
        let shop = Shop::open(4, &json!({"on_cancel": policy})).await;
        let all = coupons(&shop, 2).await;
        let cancelled = number(&order(&shop, "alice", &shop.token("alice"), &all[0]).await);
        assert_eq!(shop.cancel("alice", &cancelled, &json!({})).await.0, 200);
        number(&order(&shop, "bob", &shop.token("bob"), &all[1]).await);
        shop.let_expire().await;
        for (buyer, coupon) in [("carl", &all[0]), ("dora", &all[1])] {
            assert_eq!(code(&order(&shop, buyer, &shop.token(buyer), coupon).await), again, "{policy}");
        }
        shop.agree().await;
    }
}

/// Paid after it expired, when its coupon was used by another order: the money goes back.
#[tokio::test]
async fn a_late_payment_whose_coupon_is_gone_is_refunded() {
    let shop = Shop::open(4, &json!({})).await;
    let coupon = coupons(&shop, 1).await.remove(0);
    let late = number(&order(&shop, "alice", &shop.token("alice"), &coupon).await);
    shop.let_expire().await;
    let other = number(&order(&shop, "bob", &shop.token("bob"), &coupon).await);
    let pay = async |order_no: &str, event: &str| -> Value {
        shop.tell_with(order_no, event, "paid", &json!({"amount": PRICE - OFF})).await.1["outcome"].clone()
    };
    assert_eq!(pay(&late, "late").await, "refund_due");
    assert_eq!(pay(&other, "other").await, "paid");
    assert_eq!((shop.status(&late).await, shop.status(&other).await), ("CLOSED", "PAID"));
    shop.agree().await;
}

#[tokio::test]
async fn a_coupon_works_without_redis() {
    let shop = Shop::open(4, &json!({"strategy": "cas"})).await;
    let coupon = coupons(&shop, 1).await.remove(0);
    number(&order(&shop, "alice", &shop.token("alice"), &coupon).await);
    assert_eq!(code(&order(&shop, "bob", &shop.token("bob"), &coupon).await), (409, "coupon_used"));
}
