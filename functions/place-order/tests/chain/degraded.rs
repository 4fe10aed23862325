//! Redis stopped, silent or empty: orders go on through the database, and everything returns by itself.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use holdfast::{
    adapters::redis::Gate,
    config::RedisConfig,
    lambda::Wiring,
    ports::{Clock as _, SystemClock},
    telemetry::{self, Label, Meter, Metric, Value as Measured},
};
use serde_json::{Value, json};
use servers::{Fault, FaultKind, until};
use tokio::time::Instant;

use crate::shop::{NOTHING, SKU, Shop, UNBOUNDED, code, order_with};

/// The deadline of a deployment.
fn quick() -> harness::Options {
    harness::Options { redis_deadline_ms: 50, ..harness::Options::default() }
}

fn same_order(first: &Value, again: &(u16, Value)) {
    assert_eq!((again.0, &again.1["order_no"]), (200, &first["order_no"]), "{again:?}");
}

const LIMIT: Duration = Duration::from_secs(30);

/// Until the handler's own breaker lets orders through Redis again: an order that Redis counts. Not asked as often as
/// [`until`] does, because each time sells a unit, at a bounded rate.
async fn until_redis_is_used(shop: &Shop) {
    let deadline = Instant::now() + LIMIT;
    for n in 0.. {
        let before = shop.free().await.unwrap();
        let buyer = format!("later-{n}");
        assert_eq!(shop.order(&buyer, &shop.token(&buyer), 1).await.0, 201);
        if shop.free().await.unwrap() < before {
            return;
        }
        assert!(Instant::now() < deadline, "Redis is not used again");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn both_stores_agree(shop: &Shop) {
    for _ in 0..2 {
        let report = shop.reconcile().await;
        assert!(report.complete && report.faults == 0, "{report:?}");
    }
    let report = shop.reconcile().await;
    assert!(report.findings.is_empty(), "{report:?}");
    assert_eq!(shop.free().await, Some(i64::try_from(shop.available().await).unwrap()));
}

/// M25, F12: killed under load. All units are sold and none twice, before Redis is back and after.
#[tokio::test(flavor = "multi_thread")]
async fn redis_killed_under_load_sells_every_unit_once() {
    let mut shop = Shop::open(60, &json!({"buckets": 4})).await;
    let buyers: Vec<_> = (0..80).map(|n| format!("buyer-{n}")).map(|buyer| (shop.token(&buyer), buyer)).collect();
    let (first, rest) = buyers.split_at(40);
    let mut redis = shop.backend.redis.take().unwrap();
    let control = shop.backend.dynamodb.control().clone();
    let kill = async {
        let under_way = async || Ok((control.count("TransactWriteItems") >= 5).then_some(()));
        until("orders are under way", LIMIT, under_way).await.unwrap();
        redis.stop_hard();
    };
    let (mut answers, ()) =
        tokio::join!(join_all(first.iter().map(|(token, buyer)| shop.order_patiently(buyer, token))), kill);
    shop.backend.redis = Some(redis);
    answers.extend(join_all(rest.iter().map(|(token, buyer)| shop.order_patiently(buyer, token))).await);
    let won: Vec<_> = buyers.iter().zip(&answers).filter(|(_, (status, _))| *status < 300).collect();
    assert_eq!((won.len(), shop.available().await), (60, 0), "{answers:?}");
    for (_, body) in answers.iter().filter(|(status, _)| *status >= 300) {
        assert_eq!(code(body), "sold_out");
    }
    // It comes back empty. Before anything was restored in it, repeats are repeats.
    shop.restart_redis().await;
    for ((token, buyer), (_, order)) in &won[..10] {
        same_order(order, &shop.order(buyer, token, 1).await);
    }
    both_stores_agree(&shop).await;
    for ((token, buyer), (_, order)) in won {
        same_order(order, &shop.order(buyer, token, 1).await);
    }
}

/// The return: nothing has to be done but reconciliation's work, which is scheduled.
#[tokio::test]
async fn redis_back_and_empty_is_used_again_by_itself() {
    let mut shop = Shop::open(100, &json!({})).await;
    let through = shop.token("through");
    let (status, placed) = shop.order("through", &through, 1).await;
    assert_eq!(status, 201);
    shop.backend.redis.as_mut().unwrap().stop_hard();
    same_order(&placed, &shop.order("through", &through, 1).await);
    let past = shop.token("past");
    let (status, placed_past) = shop.order("past", &past, 1).await;
    assert_eq!((status, shop.available().await), (201, 98));
    for buyer in ["through", "past"] {
        assert_eq!(code(&shop.order(buyer, &shop.token(buyer), 1).await.1), "limit_reached");
    }
    shop.restart_redis().await;
    // Memory lost is not a business refusal either.
    assert_eq!(shop.order("bob", &shop.token("bob"), 1).await.0, 201);
    assert!(shop.reconcile().await.complete);
    assert_eq!((shop.available().await, shop.free().await), (97, Some(97)));
    until_redis_is_used(&shop).await;
    for (buyer, token, order) in [("through", &through, &placed), ("past", &past, &placed_past)] {
        same_order(order, &shop.order(buyer, token, 1).await);
        assert_eq!(code(&shop.order(buyer, &shop.token(buyer), 1).await.1), "limit_reached");
    }
    both_stores_agree(&shop).await;
}

/// SIGSTOP: its memory is old when it goes on, and what was sent to it is carried out late.
#[tokio::test(flavor = "multi_thread")]
async fn redis_silent_under_load_and_back_with_an_old_memory() {
    let shop = Shop::open_with(quick(), 60, &json!({"buckets": 4})).await;
    let buyers: Vec<_> = (0..50).map(|n| format!("buyer-{n}")).map(|buyer| (shop.token(&buyer), buyer)).collect();
    for (token, buyer) in &buyers[..10] {
        assert_eq!(shop.order_patiently(buyer, token).await.0, 201);
    }
    shop.backend.redis.as_ref().unwrap().pause().unwrap();
    let answers = join_all(buyers.iter().map(|(token, buyer)| shop.order_patiently(buyer, token))).await;
    assert!(answers.iter().all(|(status, _)| *status < 300), "{answers:?}");
    assert_eq!(shop.available().await, 10);
    shop.backend.redis.as_ref().unwrap().resume().unwrap();
    for ((token, buyer), (_, order)) in buyers.iter().zip(&answers) {
        same_order(order, &shop.order_patiently(buyer, token).await);
        assert_eq!(code(&shop.order_patiently(buyer, &shop.token(buyer)).await.1), "limit_reached");
    }
    both_stores_agree(&shop).await;
    until_redis_is_used(&shop).await;
    both_stores_agree(&shop).await;
}

/// Redis, back with an old memory, has nothing left; the order that was placed past it is there all the same.
#[tokio::test]
async fn a_refusal_by_redis_is_not_told_to_whom_the_database_has_an_order() {
    let shop = Shop::open_with(quick(), 2, &json!({"buckets": 1})).await;
    let key = "hf:{sale:0}:bucket";
    let _: () = shop.redis(redis::cmd("HSET").arg(key).arg(SKU).arg("0|2|1|2|1")).await;
    shop.backend.redis.as_ref().unwrap().pause().unwrap();
    let token = shop.token("alice");
    let (status, order) = shop.order("alice", &token, 1).await;
    assert_eq!(status, 201, "{order}");
    shop.backend.redis.as_ref().unwrap().resume().unwrap();
    // A process that was not there knows it from the others.
    let other = shop.another_process(NOTHING);
    let body = |token: &str| json!({"token": token, "lines": [{"sku": SKU, "quantity": 1}]});
    same_order(&order, &order_with(&other, "alice", &body(&token)).await);
    assert_eq!(code(&order_with(&other, "bob", &body(&shop.token("bob"))).await.1), "sold_out");
    // A token that no such order can have costs no look into the database.
    shop.backend.dynamodb.control().reset_counts();
    let late = shop.token_until("bob", shop.activity.window.ends_at);
    assert_eq!(code(&order_with(&other, "bob", &body(&late)).await.1), "sold_out");
    assert!(shop.backend.dynamodb.control().count("GetItem") <= 2, "only what is cached");
    same_order(&order, &shop.order_patiently("alice", &token).await);
}

/// Redis counts another submission of the buyer. A process that saw nothing wrong with it is asked at once.
#[tokio::test]
async fn a_process_that_sees_redis_knows_at_once_of_an_order_that_another_placed_past_it() {
    let shop = Shop::open_with(quick(), 5, &json!({"buckets": 1})).await;
    let mark = "03PMZ9TWHB6V08WN8MG9SWRMDG=1";
    let _: () = shop.redis(redis::cmd("HSET").arg("hf:{sale:0}:orders").arg("A|alice").arg(mark)).await;
    let gone = RedisConfig { urls: vec!["redis://127.0.0.1:1".to_owned()], ..shop.backend.redis_config.clone() };
    let wiring = Wiring { gate: Gate::new(Some(gone)), degraded_rate: UNBOUNDED, ..shop.backend.another_process() };
    let blind = place_order::handler(wiring, Arc::clone(&shop.backend.keys));
    let token = shop.token("alice");
    let body = json!({"token": token, "lines": [{"sku": SKU, "quantity": 1}]});
    let (placed, told) = tokio::join!(order_with(&blind, "alice", &body), async {
        // What it knows of admission is fresh when the first note is written.
        shop.order("bob", &shop.token("bob"), 1).await
    });
    assert_eq!((placed.0, told.0), (201, 201), "{placed:?} {told:?}");
    same_order(&placed.1, &shop.order("alice", &token, 1).await);
}

/// The script was sent, timed out and is carried out later; meanwhile the database refused the order.
#[tokio::test]
async fn a_refusal_past_redis_is_claimed_before_it_is_told() {
    let shop = Shop::open_with(quick(), 1, &json!({"buckets": 1})).await;
    shop.backend.redis.as_ref().unwrap().pause().unwrap();
    let refused = shop.token("alice");
    let body = json!({"token": refused, "lines": [{"sku": SKU, "quantity": 1}]});
    // Another process sells the last unit.
    let other = Arc::new(shop.another_process(UNBOUNDED));
    let bob = json!({"token": shop.token("bob"), "lines": [{"sku": SKU, "quantity": 1}]});
    assert_eq!(order_with(&other, "bob", &bob).await.0, 201);
    let third = shop.another_process(UNBOUNDED);
    assert_eq!(code(&order_with(&third, "alice", &body).await.1), "sold_out");
    shop.backend.redis.as_ref().unwrap().resume().unwrap();
    // Whatever Redis now holds of alice's submission: it was refused for good.
    assert_eq!(code(&shop.order_patiently("alice", &refused).await.1), "order_aborted");
    assert!(shop.settle_roll_backs().await > 0, "what could not be given back is asked for");
    both_stores_agree(&shop).await;
    assert_eq!((shop.available().await, shop.free().await), (0, Some(0)));
}

/// Over the rate nothing is written, and the database is not asked.
#[tokio::test]
async fn over_the_rate_an_order_is_limited_and_costs_no_call() {
    let mut shop = Shop::open(10, &json!({})).await;
    let process = shop.another_process(NOTHING);
    let body = json!({"token": shop.token("alice"), "lines": [{"sku": SKU, "quantity": 1}]});
    shop.backend.redis.as_mut().unwrap().stop_hard();
    shop.backend.dynamodb.control().reset_counts();
    for _ in 0..20 {
        let (status, answer) = order_with(&process, "alice", &body).await;
        assert_eq!((status, code(&answer)), (429, "limited"));
    }
    let counts = shop.backend.dynamodb.control().counts();
    assert_eq!(counts.keys().collect::<Vec<_>>(), ["GetItem"], "what is cached is read: {counts:?}");
    assert!(counts.values().sum::<u64>() <= 8, "{counts:?}");
    // The same submission goes on where there is room, and is counted.
    let meter = Arc::new(Meter::default());
    let order = order_with(&shop.handler, "alice", &body);
    let placed = Box::pin(telemetry::scoped(Some(Arc::clone(&meter)), None, order)).await;
    let held = meter.take_due(SystemClock.now()).unwrap();
    assert_eq!((placed.0, &held.values[&Label::Whole][&Metric::PastRedis]), (201, &Measured::Sum(1)));
    assert_eq!(shop.available().await, 9);
}

#[tokio::test]
async fn freeze_and_window_hold_without_redis() {
    for fields in [json!({}), json!({"ends_at": harness::sample::minutes_from_now(5)})] {
        let mut shop = Shop::open(10, &fields).await;
        shop.backend.redis.as_mut().unwrap().stop_hard();
        let admin = holdfast::app::admin::Admin {
            store: shop.backend.wiring.database.clone(),
            cache: shop.backend.wiring.cache.clone(),
            gate: shop.backend.wiring.gate.clone(),
            clock: SystemClock,
        };
        let _ = admin
            .switch(&shop.activity.id, None, false, "olivia", &holdfast::domain::reason::Reason::parse("test").unwrap())
            .await
            .unwrap();
        let (status, body) = shop.order("alice", &shop.token("alice"), 1).await;
        assert_eq!((status, code(&body)), (503, "frozen"));
        assert_eq!(shop.available().await, 10);
    }
    let starts =
        json!({"starts_at": harness::sample::minutes_from_now(1), "ends_at": harness::sample::minutes_from_now(9)});
    let mut shop = Shop::open(10, &starts).await;
    shop.backend.redis.as_mut().unwrap().stop_hard();
    assert_eq!(code(&shop.order("alice", &shop.token("alice"), 1).await.1), "not_started");
}

/// Both stores gone: that alone is told as what it is.
#[tokio::test]
async fn without_redis_and_database_the_answer_is_unavailable_or_open() {
    let mut shop = Shop::open(10, &json!({})).await;
    let token = shop.token("alice");
    shop.backend.redis.as_mut().unwrap().stop_hard();
    for (kind, expected) in [(FaultKind::Throttled, 503), (FaultKind::DropAfter, 202)] {
        shop.backend.dynamodb.control().inject(Fault::standing("TransactWriteItems", kind));
        assert_eq!(shop.order("alice", &token, 1).await.0, expected);
        shop.backend.dynamodb.control().clear();
    }
    assert_eq!(shop.order("alice", &token, 1).await.0, 200, "the lost answer was a commit");
    assert_eq!(shop.available().await, 9);
}

/// A full Redis takes no order; the database does.
#[tokio::test]
async fn redis_without_memory_is_passed_by() {
    let shop = Shop::open(10, &json!({})).await;
    let _: () = shop.redis(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("1")).await;
    for buyer in ["a", "b", "c"] {
        assert_eq!(shop.order(buyer, &shop.token(buyer), 1).await.0, 201);
    }
    let _: () = shop.redis(redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg("0")).await;
    both_stores_agree(&shop).await;
    assert_eq!(shop.available().await, 7);
}

/// What Redis may hold of a submission could still become an order after the end: "ended" is claimed too.
#[tokio::test]
async fn after_the_end_a_refusal_past_redis_stays_one() {
    let ends_at = SystemClock.now().plus_ms(2_000);
    let shop = Shop::open_with(quick(), 10, &json!({"ends_at": ends_at})).await;
    let token = shop.token("alice");
    // Admitted in time, and not committed.
    shop.backend.dynamodb.control().inject(Fault::standing("TransactWriteItems", FaultKind::Throttled));
    assert_eq!(shop.order("alice", &token, 1).await.0, 503);
    shop.backend.dynamodb.control().clear();
    shop.backend.redis.as_ref().unwrap().pause().unwrap();
    until("the sale is over", LIMIT, async || Ok((SystemClock.now() >= ends_at).then_some(()))).await.unwrap();
    let (status, body) = shop.order("alice", &token, 1).await;
    assert_eq!((status, code(&body)), (410, "ended"));
    shop.backend.redis.as_ref().unwrap().resume().unwrap();
    // Through Redis, which holds it as admitted.
    let body = json!({"token": token, "lines": [{"sku": SKU, "quantity": 1}]});
    let (_, again) = order_with(&shop.another_process(NOTHING), "alice", &body).await;
    assert_eq!(code(&again), "order_aborted");
    both_stores_agree(&shop).await;
    assert_eq!(shop.available().await, 10);
}
