//! How much is on sale, and until when.

use std::time::Duration;

use holdfast::ports::{Clock as _, MoveStore as _, OrderLife as _, SystemClock};
use serde_json::json;
use tokio::time::Instant;

use crate::shop::{Shop, code};

/// Most tries of what collides with others.
const TRIES_MAX: u32 = 500;

#[tokio::test]
async fn stock_is_added_and_taken_while_orders_come_and_never_below_what_is_sold() {
    let shop = Shop::open(4, &json!({})).await;
    for buyer in ["a", "b", "c"] {
        shop.order(buyer).await;
    }
    let (status, body) = shop.adjust(6, "more").await;
    assert_eq!((status, &body["in_force"]), (200, &json!(true)), "{body}");
    assert_eq!(shop.left().await, (7, 7));
    assert_eq!(code(&shop.adjust(-8, "too much").await).1, "invalid_request", "a key has no space");
    assert_eq!(code(&shop.adjust(-8, "too-much").await), (409, "stock_sold"));
    assert_eq!(shop.adjust(-7, "all-of-it").await.0, 200);
    assert_eq!(shop.left().await, (0, 0));
    assert_eq!(code(&shop.submit("d", &shop.token("d"), 1).await), (409, "sold_out"));
    shop.agree().await;
}

#[tokio::test]
async fn one_key_is_one_adjustment() {
    let shop = Shop::open(4, &json!({})).await;
    let first = shop.adjust(5, "key").await;
    for _ in 0..3 {
        assert_eq!(shop.adjust(5, "key").await, first);
        assert_eq!(shop.left().await, (9, 9));
    }
    assert_eq!(code(&shop.adjust(6, "key").await), (422, "idempotency_mismatch"));
    assert_eq!(shop.adjust(6, "another").await.0, 200);
    assert_eq!(shop.left().await, (15, 15));
    let id = holdfast::domain::stock::MoveId::parse("key").unwrap();
    let made = shop.backend.wiring.database.stock_move(&shop.activity.id, &id).await.unwrap().unwrap();
    assert_eq!((made.delta(), made.operator.as_str(), made.reason.as_str()), (5, "olivia", "counted again"));
    shop.agree().await;
}

/// Twenty operators click at once, and buyers order meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn adjustments_and_orders_at_once() {
    let shop = std::sync::Arc::new(Shop::open(40, &json!({})).await);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20_i64 {
        let shop = std::sync::Arc::clone(&shop);
        tasks.spawn(async move {
            let delta = if n % 2 == 0 { 3 } else { -2 };
            let mut tries = 0..TRIES_MAX;
            while shop.adjust(delta, &format!("key-{n}")).await.0 != 200 {
                assert!(tries.next().is_some());
            }
        });
    }
    for n in 0..30 {
        let shop = std::sync::Arc::clone(&shop);
        tasks.spawn(async move {
            let (buyer, token) = (format!("buyer-{n}"), shop.token(&format!("buyer-{n}")));
            let mut tries = 0..TRIES_MAX;
            while matches!(shop.submit(&buyer, &token, 1).await.0, 202 | 429 | 503) {
                assert!(tries.next().is_some());
            }
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    // 40 and ten times three, less ten times two, less thirty that were sold.
    assert_eq!(shop.left().await, (20, 20));
    shop.agree().await;
}

#[tokio::test]
async fn an_ended_sale_takes_no_orders_and_its_orders_live_on() {
    let shop = Shop::open(4, &json!({})).await;
    let (pays, cancels) = (shop.order("pays").await, shop.order("cancels").await);
    let end = "POST /v1/admin/activities/{activity}/end";
    let first = shop.admin(end, &json!({})).await;
    assert_eq!(first.0, 200, "{}", first.1);
    assert_eq!(shop.admin(end, &json!({})).await, first, "again changes nothing");
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        // Redis knows at once; a function's own copy is two seconds old at most.
        let answer = shop.submit("late", &shop.token("late"), 1).await;
        if code(&answer) == (410, "ended") {
            break;
        }
        assert_eq!(code(&answer), (503, "unavailable"));
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    shop.pay(&pays).await;
    assert_eq!(shop.cancel("cancels", &cancels, &json!({})).await.0, 200);
    assert_eq!(shop.left().await, (3, 3));
    shop.agree().await;
}

#[tokio::test]
async fn the_orders_that_are_due_are_listed_by_their_deadline() {
    let shop = Shop::open(8, &json!({"buckets": 1})).await;
    let mut orders = Vec::new();
    for n in 0..4 {
        let order = shop.committed(&shop.order(&format!("b{n}")).await).await;
        // The next one has another deadline.
        while SystemClock.now() <= order.placement.created_at {
            tokio::task::yield_now().await;
        }
        orders.push((order.placement.pay_before, order.placement.order_no));
    }
    let database = &shop.backend.wiring.database;
    let bucket = shop.activity.buckets.all().next().unwrap();
    let due = async |from, until| database.due_orders(&shop.activity, bucket, (from, until), None).await.unwrap().0;
    let all: Vec<_> = orders.iter().map(|(_, order_no)| order_no.clone()).collect();
    let (first, last) = (orders[0].0, orders[3].0);
    assert_eq!(due(first, last.plus_ms(1)).await, all);
    assert_eq!(due(first, last).await, all[..3], "the last instant is left out");
    assert_eq!(due(first.plus_ms(1), last.plus_ms(1)).await, all[1..]);
    assert!(due(last.plus_ms(1), last.plus_ms(9)).await.is_empty());
}
