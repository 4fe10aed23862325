use futures_util::future::join_all;
use serde_json::json;

use crate::shop::{Shop, code};

/// F1: the check is inside the commit.
#[tokio::test(flavor = "multi_thread")]
async fn f1_sixty_four_buyers_and_one_unit() {
    for strategy in ["prededuct", "cas"] {
        let shop = Shop::open(1, &json!({"strategy": strategy})).await;
        let buyers: Vec<_> = (0..64).map(|n| (format!("buyer-{n}"), shop.token(&format!("buyer-{n}")))).collect();
        let answers = join_all(buyers.iter().map(|(buyer, token)| shop.order(buyer, token, 1))).await;
        let won = answers.iter().filter(|(status, _)| *status == 201).count();
        assert_eq!(won, 1, "{strategy}: {answers:?}");
        for (status, body) in answers.iter().filter(|(status, _)| *status != 201) {
            // A transaction that collided until its retries ran out may be sent again; nothing else.
            assert!(matches!((*status, code(body)), (409, "sold_out") | (503, "unavailable")), "{strategy}: {body}");
        }
        assert_eq!(shop.available().await, 0);
    }
}

/// F7: a double click burns no stock, in Redis neither.
#[tokio::test(flavor = "multi_thread")]
async fn f7_one_buyer_with_fifty_tokens_at_once() {
    for (strategy, max) in [("prededuct", 1), ("cas", 1), ("prededuct", 3)] {
        let fields = json!({"strategy": strategy, "limit": {"scope": "activity", "max": max}});
        let shop = Shop::open(100, &fields).await;
        let tokens: Vec<_> = (0..50).map(|_| shop.token("alice")).collect();
        let answers = join_all(tokens.iter().map(|token| shop.order("alice", token, 1))).await;
        let won = answers.iter().filter(|(status, _)| *status == 201).count();
        assert_eq!(won, max, "{strategy}: {answers:?}");
        for (status, body) in answers.iter().filter(|(status, _)| *status != 201) {
            assert!(
                matches!((*status, code(body)), (409, "limit_reached") | (503, "unavailable")),
                "{strategy}: {body}"
            );
        }
        assert_eq!(shop.available().await, 100 - max as u64);
        if strategy == "prededuct" {
            assert_eq!(shop.free().await, Some(100 - i64::try_from(max).unwrap()));
        }
    }
}

/// F23: one empty bucket is not "sold out" while another has stock.
#[tokio::test(flavor = "multi_thread")]
async fn f23_buyers_of_one_home_bucket_get_every_unit() {
    let shop = Shop::open(8, &json!({"buckets": 8})).await;
    let home =
        |buyer: &String| holdfast::domain::ids::BuyerId::parse(buyer).unwrap().home(shop.activity.buckets).get() == 3;
    let buyers: Vec<String> = (0..).map(|n| format!("b{n}")).filter(home).take(10).collect();
    let mut won = 0;
    for buyer in &buyers {
        let (status, body) = shop.order(buyer, &shop.token(buyer), 1).await;
        if status == 201 {
            won += 1;
        } else {
            assert_eq!(code(&body), "sold_out");
        }
    }
    assert_eq!((won, shop.available().await, shop.free().await), (8, 0, Some(0)));
    assert!(shop.reconcile().await.findings.is_empty());
}

/// A quantity that no bucket has alone is filled from several.
#[tokio::test]
async fn f23_a_large_quantity_is_filled_from_several_buckets() {
    let shop = Shop::open(8, &json!({"buckets": 4, "limit": {"scope": "activity", "max": 8}})).await;
    assert_eq!(shop.order("alice", &shop.token("alice"), 5).await.0, 201);
    assert_eq!((shop.available().await, shop.free().await), (3, Some(3)));
    assert_eq!(code(&shop.order("bob", &shop.token("bob"), 4).await.1), "sold_out");
    assert_eq!((shop.available().await, shop.free().await), (3, Some(3)), "a refusal leaves nothing behind");
    assert_eq!(shop.order("bob", &shop.token("bob"), 3).await.0, 201);
    assert!(shop.reconcile().await.findings.is_empty());
}

/// Several SKUs, all or nothing.
#[tokio::test]
async fn a_cart_is_taken_whole_or_not_at_all() {
    let skus = json!([{"sku": "phone", "stock": 5, "price": 100}, {"sku": "case", "stock": 1, "price": 7}]);
    let fields = json!({"skus": skus, "buckets": 2, "limit": {"scope": "activity", "max": 2}});
    let shop = Shop::open(5, &fields).await;
    let cart = |token: &str| json!({"token": token, "lines": [{"sku": "phone", "quantity": 1}, {"sku": "case", "quantity": 1}]});
    let (status, body) = shop.order_body("alice", &cart(&shop.token("alice"))).await;
    assert_eq!((status, &body["total"]), (201, &json!(107)), "{body}");
    let (_, body) = shop.order_body("bob", &cart(&shop.token("bob"))).await;
    assert_eq!(code(&body), "sold_out");
    assert_eq!((shop.available().await, shop.free().await), (4, Some(4)));
}
