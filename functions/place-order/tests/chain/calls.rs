//! How many calls an order may cost.

use serde_json::json;

use crate::shop::{Shop, code};

/// Scripts that Redis ran since the last look, by its own count.
pub async fn scripts(shop: &Shop) -> u64 {
    let client = redis::Client::open(shop.backend.redis_config.urls[0].as_str()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await.unwrap();
    redis::cmd("CONFIG").arg("RESETSTAT").exec_async(&mut connection).await.unwrap();
    let calls = |line: &str| -> Option<u64> {
        let (name, rest) = line.split_once(':')?;
        let is_script = matches!(name, "cmdstat_evalsha" | "cmdstat_eval");
        is_script.then(|| rest.strip_prefix("calls=")?.split(',').next()?.parse().ok()).flatten()
    };
    stats.lines().filter_map(calls).sum()
}

fn database_calls(shop: &Shop) -> u64 {
    let calls = shop.backend.dynamodb.control().counts().values().sum();
    shop.backend.dynamodb.control().reset_counts();
    calls
}

/// B3: one script and one transaction for an order whose home bucket has the stock.
#[tokio::test]
async fn an_accepted_order_is_one_script_and_one_transaction() {
    let shop = Shop::open(1_000, &json!({})).await;
    // The first order connects, loads the script and fills the activity cache.
    assert_eq!(shop.order("first", &shop.token("first"), 1).await.0, 201);
    scripts(&shop).await;
    database_calls(&shop);
    for n in 0..20 {
        let buyer = format!("b{n}");
        assert_eq!(shop.order(&buyer, &shop.token(&buyer), 1).await.0, 201);
    }
    assert_eq!(scripts(&shop).await, 20);
    let control = shop.backend.dynamodb.control();
    assert_eq!(control.count("TransactWriteItems"), 20);
    // The activity is read again every two seconds at most: not by order.
    assert!(control.count("GetItem") <= 2, "{:?}", control.counts());
}

/// B3: what the script refuses never reaches the database.
#[tokio::test]
async fn a_refusal_by_the_script_calls_no_database() {
    let shop = Shop::open(2, &json!({"buckets": 2})).await;
    for buyer in ["a1", "a2", "a3", "a4"] {
        let _ = shop.order(buyer, &shop.token(buyer), 1).await;
    }
    assert_eq!(shop.available().await, 0);
    let winner = {
        let mut winner = None;
        for buyer in ["a1", "a2", "a3", "a4"] {
            if code(&shop.order(buyer, &shop.token(buyer), 1).await.1) == "limit_reached" {
                winner = Some(buyer);
            }
        }
        winner.unwrap()
    };
    let refusals = [("limit_reached", winner), ("sold_out", "late-1"), ("sold_out", "late-2")];
    database_calls(&shop);
    scripts(&shop).await;
    for (expected, buyer) in refusals {
        assert_eq!(code(&shop.order(buyer, &shop.token(buyer), 1).await.1), expected);
    }
    let reads = shop.backend.dynamodb.control().count("GetItem");
    assert_eq!(database_calls(&shop), reads, "nothing but the activity's own reading");
    assert!(reads <= 1, "{reads}");
    // limit: one script; sold out: home, and a look at the other bucket where nothing is remembered.
    let asked = scripts(&shop).await;
    assert!((1 + 2..=1 + 2 * 2).contains(&asked), "{asked}");
}

/// A thousand counters, and each bucket's are written by one script, one bucket after the other.
#[tokio::test]
async fn f28_preheating_is_one_script_per_bucket() {
    let skus: Vec<_> = (0..16).map(|n| json!({"sku": format!("s{n}"), "stock": 64, "price": 1})).collect();
    let shop = Shop::open(0, &json!({"buckets": 64, "skus": skus})).await;
    // Those of the server since it started: one more where the script was not known yet.
    let ran = scripts(&shop).await;
    assert!((64..=65).contains(&ran), "{ran}");
    assert_eq!((shop.available().await, shop.free().await), (16 * 64, Some(16 * 64)));
}
