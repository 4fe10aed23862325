//! Redis admits more than there is; the database does not.

use std::sync::Arc;

use futures_util::future::join_all;
use serde_json::json;
use tokio::time::{Duration, Instant};

use crate::shop::{Shop, code};

/// A sale of 40 units over four buckets of which Redis admits 44.
async fn shop() -> Shop {
    Shop::open(40, &json!({"admission_ratio": 1.1})).await
}

/// One unit each to so many buyers; the last one and the token.
async fn sell(shop: &Shop, count: u32) -> (String, String) {
    let mut last = (String::new(), String::new());
    for n in 0..count {
        let buyer = format!("b{n}");
        let token = shop.token(&buyer);
        shop.submit_patiently(&buyer, &token).await;
        last = (buyer, token);
    }
    last
}

/// Thirty buyers who come too late: the database is asked once a second at most.
async fn refuse_thirty(shop: &Shop) {
    let control = shop.backend.dynamodb.control();
    control.reset_counts();
    let began = Instant::now();
    for n in 0..30 {
        let buyer = format!("late-{n}");
        assert_eq!(code(&shop.submit(&buyer, &shop.token(&buyer), 1).await), (409, "sold_out"));
    }
    let (transactions, seconds) = (control.count("TransactWriteItems"), began.elapsed().as_secs());
    assert!(transactions <= 2 * (seconds + 1), "{transactions} transactions in {seconds} s");
}

#[tokio::test]
async fn the_surplus_is_admitted_by_redis_and_refused_by_the_database() {
    let shop = Arc::new(shop().await);
    assert_eq!(shop.left().await, (40, 44));
    let buy = async |n: u32| {
        let buyer = format!("b{n}");
        shop.submit_until_final(&buyer, &shop.token(&buyer), 1).await
    };
    let answers = join_all((0..80).map(buy)).await;
    // 200 where the first answer was that it is not known yet.
    assert_eq!(answers.iter().filter(|answer| matches!(answer.0, 200 | 201)).count(), 40);
    let refused = answers.iter().filter(|answer| matches!(code(answer), (409, "sold_out" | "order_aborted")));
    assert_eq!(refused.count(), 40, "a clear answer for everybody else");
    // What was refused late is back in Redis.
    assert_eq!(shop.left().await, (0, 4));
    shop.agree().await;
}

/// M24: nobody is shown units that cannot be bought.
#[tokio::test]
async fn the_public_is_not_shown_the_surplus() {
    let shop = shop().await;
    sell(&shop, 40).await;
    assert_eq!(shop.left().await, (0, 4));
    assert_eq!(shop.shown().await, "none");
}

/// Redis goes on admitting when nothing is left. The process that learnt it does not ask the database again within
/// the second, and gives Redis back what it took.
#[tokio::test]
async fn a_late_sold_out_is_learnt() {
    let shop = shop().await;
    sell(&shop, 40).await;
    refuse_thirty(&shop).await;
    assert_eq!(shop.left().await, (0, 4));
    shop.agree().await;
}

/// Stock that comes back is sold no later than a second afterwards.
#[tokio::test]
async fn what_comes_back_is_sold() {
    for fields in [json!({"admission_ratio": 1.1}), json!({"strategy": "cas"})] {
        let shop = Shop::open(40, &fields).await;
        let (buyer, token) = sell(&shop, 40).await;
        assert_eq!(code(&shop.submit("late", &shop.token("late"), 1).await), (409, "sold_out"));
        assert_eq!(shop.cancel(&buyer, &shop.number(&token), &json!({})).await.0, 200);
        let deadline = Instant::now() + Duration::from_secs(10);
        for n in 0.. {
            let buyer = format!("eager-{n}");
            let answer = shop.submit(&buyer, &shop.token(&buyer), 1).await;
            if answer.0 == 201 {
                break;
            }
            assert_eq!(code(&answer), (409, "sold_out"));
            assert!(Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        shop.agree().await;
    }
}

/// Without Redis a buyer who comes too late costs reads and no write, once a process has learnt it.
#[tokio::test]
async fn sold_out_without_redis_is_one_read() {
    let shop = Shop::open(4, &json!({"strategy": "cas"})).await;
    let (buyer, token) = sell(&shop, 4).await;
    assert_eq!(code(&shop.submit("late", &shop.token("late"), 1).await), (409, "sold_out"));
    refuse_thirty(&shop).await;
    // Whose order it was is told it, from the store.
    assert_eq!(shop.submit(&buyer, &token, 1).await.0, 200);
    shop.agree().await;
}

/// What reconciliation loads again, carries over, or freezes in Redis has the surplus as well.
#[tokio::test]
async fn the_ratio_survives_a_redis_that_lost_everything() {
    let mut shop = shop().await;
    sell(&shop, 10).await;
    shop.backend.redis.as_mut().unwrap().restart().await.unwrap();
    for _ in 0..2 {
        shop.reconcile().await;
    }
    assert_eq!(shop.left().await, (30, 34));
    assert_eq!(shop.adjust(40, "more").await.0, 200);
    assert_eq!(shop.left().await, (70, 78));
    shop.agree().await;
}
