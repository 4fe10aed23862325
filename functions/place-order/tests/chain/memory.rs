//! What a process remembers of stock: fewer calls, never a wrong answer for longer than its life.

use std::time::Duration;

use holdfast::{
    app::adjust_stock::{AdjustStock, Adjusted, Adjustment},
    domain::{
        ids::{Bucket, BuyerId, Sku},
        reason::Reason,
        stock::MoveId,
    },
    lambda::Wiring,
    ports::SystemClock,
};
use serde_json::json;
use tokio::time::Instant;

use crate::{
    calls::scripts,
    shop::{SKU, Shop, code},
};

/// So many buyers whose home is this bucket.
fn buyers(shop: &Shop, home: Bucket, count: usize) -> Vec<String> {
    let names = (0..).map(|n| format!("buyer-{n}"));
    names.filter(|name| BuyerId::parse(name).unwrap().home(shop.activity.buckets) == home).take(count).collect()
}

/// One more unit; answers where.
async fn one_more(shop: &Shop) -> Bucket {
    let Wiring { database, gate, .. } = shop.backend.another_process();
    let adjusting = AdjustStock { store: database, gate, clock: SystemClock };
    let asked = Adjustment {
        activity: shop.activity.id.clone(),
        sku: Sku::parse(SKU).unwrap(),
        delta: 1,
        id: MoveId::parse("one-more").unwrap(),
        operator: BuyerId::parse("olivia").unwrap(),
        reason: Reason::parse("more came in").unwrap(),
    };
    match adjusting.run(&asked).await.unwrap() {
        Adjusted::Done(buckets) => buckets[0].bucket,
        refused => unreachable!("{refused:?}"),
    }
}

/// Whatever was asked meanwhile was asked again: once a second at most.
fn looks(began: Instant) -> u64 {
    began.elapsed().as_secs() + 1
}

/// M24, B3: after the first one a refusal for sold out is one script, with eight buckets as with one.
#[tokio::test]
async fn sold_out_is_one_script() {
    let shop = Shop::open(8, &json!({"buckets": 8, "limit": {"scope": "activity", "max": 8}})).await;
    assert_eq!(shop.order("greedy", &shop.token("greedy"), 8).await.0, 201);
    scripts(&shop).await;
    let began = Instant::now();
    for n in 0..50 {
        let buyer = format!("late-{n}");
        assert_eq!(code(&shop.order(&buyer, &shop.token(&buyer), 1).await.1), "sold_out");
    }
    // Each look asks seven buckets.
    let asked = scripts(&shop).await;
    assert!(asked <= 50 + 7 * looks(began), "{asked}");
}

/// Stock that comes back is sold, though this process has just told "sold out" from memory.
#[tokio::test]
async fn stock_that_comes_back_is_sold_at_once() {
    let shop = Shop::open(4, &json!({"buckets": 4, "limit": {"scope": "activity", "max": 4}})).await;
    assert_eq!(shop.order("greedy", &shop.token("greedy"), 4).await.0, 201);
    for n in 0..3 {
        let buyer = format!("late-{n}");
        assert_eq!(code(&shop.order(&buyer, &shop.token(&buyer), 1).await.1), "sold_out");
    }
    // Whose home has it gets it at once. Of the others one has to be told.
    let place = one_more(&shop).await;
    let others = (0..).map(|n| format!("eager-{n}"));
    let mut others = others.filter(|name| BuyerId::parse(name).unwrap().home(shop.activity.buckets) != place);
    let deadline = Instant::now() + Duration::from_secs(10);
    let winner = loop {
        let buyer = others.next().unwrap();
        let (status, body) = shop.order(&buyer, &shop.token(&buyer), 1).await;
        if status == 201 {
            break buyer;
        }
        assert_eq!(code(&body), "sold_out");
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!((shop.available().await, shop.free().await), (0, Some(0)), "{winner} has it");
}

/// M5: every buyer's home is empty, and all the stock is elsewhere: one script more than at home.
#[tokio::test]
async fn stock_elsewhere_costs_one_script_more() {
    let shop = Shop::open(80, &json!({"buckets": 4, "limit": {"scope": "activity", "max": 20}})).await;
    let home = Bucket::new(0).unwrap();
    let mut all = buyers(&shop, home, 22).into_iter();
    // The second one is the first that looks elsewhere: it loads scripts.
    for units in [20, 1] {
        let buyer = all.next().unwrap();
        assert_eq!(shop.order(&buyer, &shop.token(&buyer), units).await.0, 201);
    }
    scripts(&shop).await;
    let began = Instant::now();
    for buyer in all {
        assert_eq!(shop.order(&buyer, &shop.token(&buyer), 1).await.0, 201, "{buyer}");
    }
    // Home and one other; when nothing is remembered, home again and a look at the three others.
    let asked = scripts(&shop).await;
    assert!(asked <= 20 * 2 + 4 * looks(began), "{asked}");
    assert_eq!((shop.available().await, shop.free().await), (39, Some(39)));
    assert!(shop.reconcile().await.findings.is_empty());
}

/// What is remembered is wrong: another process took it. The order looks around and finds the rest.
#[tokio::test]
async fn a_memory_that_is_wrong_costs_calls_and_nothing_else() {
    let shop = Shop::open(8, &json!({"buckets": 4, "limit": {"scope": "activity", "max": 8}})).await;
    let home = Bucket::new(0).unwrap();
    let all = buyers(&shop, home, 8);
    let other = shop.another_process(crate::shop::UNBOUNDED);
    let order = json!([{"sku": SKU, "quantity": 1}]);
    for buyer in &all {
        // The other process takes a unit each time this one has learnt where there is one.
        let body = json!({"token": shop.token(buyer), "lines": order});
        let answer = if buyer.ends_with(['0', '2', '4', '6', '8']) {
            crate::shop::order_with(&other, buyer, &body).await
        } else {
            shop.order_body(buyer, &body).await
        };
        assert_eq!(answer.0, 201, "{buyer}: {}", answer.1);
    }
    assert_eq!((shop.available().await, shop.free().await), (0, Some(0)));
    assert!(shop.reconcile().await.findings.is_empty());
}

/// Five units from buckets of two each.
#[tokio::test]
async fn a_large_quantity_is_filled_from_several_buckets() {
    let shop = Shop::open(8, &json!({"buckets": 4, "limit": {"scope": "activity", "max": 8}})).await;
    for (buyer, quantity) in [("five", 5), ("three", 3)] {
        let (status, body) = shop.order(buyer, &shop.token(buyer), quantity).await;
        assert_eq!(status, 201, "{body}");
    }
    assert_eq!(code(&shop.order("late", &shop.token("late"), 1).await.1), "sold_out");
    assert_eq!((shop.available().await, shop.free().await), (0, Some(0)));
    assert!(shop.reconcile().await.findings.is_empty());
}
