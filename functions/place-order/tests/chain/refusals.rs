use harness::sample;
use serde_json::{Value, json};

use crate::shop::{SKU, Shop, code};

/// Parses or is refused before any call; nothing is written either way.
#[tokio::test]
async fn bad_input_gets_a_clear_error_and_changes_nothing() {
    let shop = Shop::open(10, &json!({})).await;
    let token = shop.token("alice");
    let line = |quantity: Value| json!({"token": token, "lines": [{"sku": SKU, "quantity": quantity}]});
    let many: Vec<Value> = (0..21).map(|n| json!({"sku": format!("s{n}"), "quantity": 1})).collect();
    let cases = [
        (400, "invalid_request", line(json!(0))),
        (400, "invalid_request", line(json!(-1))),
        (400, "invalid_request", line(json!(1_001))),
        (400, "invalid_request", line(json!(u64::MAX))),
        (400, "invalid_request", line(json!(1.5))),
        (400, "invalid_request", line(json!("1"))),
        (400, "invalid_request", line(Value::Null)),
        (400, "invalid_request", json!({"token": token, "lines": []})),
        (400, "invalid_request", json!({"token": token, "lines": many})),
        (400, "invalid_request", json!({"token": token, "lines": [{"sku": "{a}", "quantity": 1}]})),
        (403, "coupon_invalid", json!({"token": token, "lines": [{"sku": SKU, "quantity": 1}], "coupon": "x"})),
        (400, "invalid_request", json!({"token": token, "lines": [{"sku": SKU, "quantity": 1}], "coupon": 5})),
        (400, "invalid_request", json!({"lines": [{"sku": SKU, "quantity": 1}]})),
        (400, "invalid_request", json!([])),
        (404, "unknown_sku", json!({"token": token, "lines": [{"sku": "tablet", "quantity": 1}]})),
        (403, "token_invalid", json!({"token": "", "lines": [{"sku": SKU, "quantity": 1}]})),
        (403, "token_invalid", json!({"token": format!("{token}A"), "lines": [{"sku": SKU, "quantity": 1}]})),
    ];
    for (status, expected, body) in cases {
        let (got, answer) = shop.order_body("alice", &body).await;
        assert_eq!((got, code(&answer)), (status, expected), "{body}");
        assert!(!answer["detail"].as_str().unwrap().is_empty());
    }
    assert_eq!((shop.available().await, shop.free().await), (10, Some(10)));
    // And the token was not used up by any of it.
    assert_eq!(shop.order("alice", &token, 1).await.0, 201);
}

/// F8: the window is checked where stock is taken.
#[tokio::test]
async fn f8_before_the_start_and_after_the_end_nothing_is_sold() {
    for strategy in ["prededuct", "cas"] {
        let minutes = sample::minutes_from_now;
        let early = json!({"strategy": strategy, "starts_at": minutes(10), "ends_at": minutes(20)});
        let shop = Shop::open(10, &early).await;
        let (status, body) = shop.order("alice", &shop.token("alice"), 1).await;
        assert_eq!((status, code(&body)), (409, "not_started"), "{strategy}");
        assert_eq!(shop.available().await, 10);
        // Before the function's own margin, Redis's clock decides.
        let at_once = (holdfast::ports::Clock::now(&holdfast::ports::SystemClock)).plus_ms(900).to_string();
        let shop = Shop::open(10, &json!({"strategy": strategy, "starts_at": at_once, "ends_at": minutes(20)})).await;
        let answer = shop.order("alice", &shop.token("alice"), 1).await;
        assert!(answer.0 == 201 || code(&answer.1) == "not_started", "{answer:?}");
    }
}

#[tokio::test]
async fn after_the_end_old_orders_are_told_and_new_ones_refused() {
    for strategy in ["prededuct", "cas"] {
        let ends_at = holdfast::ports::Clock::now(&holdfast::ports::SystemClock).plus_ms(2_500);
        let shop = Shop::open(10, &json!({"strategy": strategy, "ends_at": ends_at.to_string()})).await;
        let token = shop.token("alice");
        let (status, first) = shop.order("alice", &token, 1).await;
        assert_eq!(status, 201, "{first}");
        while holdfast::ports::Clock::now(&holdfast::ports::SystemClock) < ends_at.plus_ms(5) {
            tokio::task::yield_now().await;
        }
        let (status, body) = shop.order("bob", &shop.token("bob"), 1).await;
        assert_eq!((status, code(&body)), (410, "ended"), "{strategy}");
        let (status, again) = shop.order("alice", &token, 1).await;
        assert_eq!((status, &again["order_no"]), (200, &first["order_no"]), "{strategy}");
        assert_eq!(shop.available().await, 9);
    }
}

#[tokio::test]
async fn an_activity_that_is_not_preheated_or_does_not_exist() {
    let shop = Shop::open(10, &json!({})).await;
    let (status, body) = order_in(&shop, "none").await;
    assert_eq!((status, code(&body)), (404, "unknown_activity"));
}

async fn order_in(shop: &Shop, activity: &str) -> (u16, Value) {
    use holdfast::lambda::http::HttpHandler as _;
    let body = json!({"token": shop.token("alice"), "lines": [{"sku": SKU, "quantity": 1}]});
    let call = harness::http::Call::new("POST /v1/activities/{activity}/orders").path("activity", activity);
    harness::http::read(&shop.handler.handle(call.buyer("alice").json(&body).request().unwrap()).await)
}

/// A freeze holds in both stores, by SKU or for all, and is lifted again.
#[tokio::test]
async fn a_frozen_sku_is_not_sold_until_it_is_unfrozen() {
    for strategy in ["prededuct", "cas"] {
        let skus = json!([{"sku": "phone", "stock": 5, "price": 1}, {"sku": "case", "stock": 5, "price": 1}]);
        let shop = Shop::open(5, &json!({"strategy": strategy, "skus": skus})).await;
        switch(&shop, Some("phone"), false).await;
        let (status, body) = shop.order("alice", &shop.token("alice"), 1).await;
        assert_eq!((status, code(&body)), (503, "frozen"), "{strategy}");
        let case = json!({"token": shop.token("bob"), "lines": [{"sku": "case", "quantity": 1}]});
        assert_eq!(shop.order_body("bob", &case).await.0, 201, "{strategy}: the other SKU goes on");
        switch(&shop, None, true).await;
        assert_eq!(shop.order("carol", &shop.token("carol"), 1).await.0, 201, "{strategy}");
        assert_eq!(shop.available().await, 8);
        assert!(shop.reconcile().await.findings.is_empty());
    }
}

/// Redis came back from before the freeze: the database refuses, and reconciliation asserts it again.
#[tokio::test]
async fn a_freeze_survives_the_loss_of_redis() {
    let shop = Shop::open(10, &json!({})).await;
    switch(&shop, None, false).await;
    let client = redis::Client::open(shop.backend.redis_config.urls[0].as_str()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    for bucket in shop.activity.buckets.all() {
        let key = format!("hf:{{sale:{bucket}}}:bucket");
        let before: String = redis::cmd("HGET").arg(&key).arg("phone").query_async(&mut connection).await.unwrap();
        // `free|sold|on sale|allotted|version`, as it was before.
        let fields: Vec<&str> = before.split('|').collect();
        let earlier = format!("{}|{}|1|{}|1", fields[0], fields[1], fields[3]);
        redis::cmd("HSET").arg(&key).arg("phone").arg(earlier).exec_async(&mut connection).await.unwrap();
    }
    let (status, body) = shop.order("alice", &shop.token("alice"), 1).await;
    assert_eq!((status, code(&body)), (503, "frozen"), "the database's own switch holds");
    assert!(!shop.reconcile().await.findings.is_empty());
    let (status, body) = shop.order("bob", &shop.token("bob"), 1).await;
    assert_eq!((status, code(&body)), (503, "frozen"));
    assert_eq!((shop.available().await, shop.free().await), (10, Some(10)));
}

async fn switch(shop: &Shop, sku: Option<&str>, on_sale: bool) {
    use holdfast::app::admin::{Admin, SwitchResult};
    let wiring = shop.backend.wiring.clone();
    let admin =
        Admin { store: wiring.database, cache: wiring.cache, gate: wiring.gate, clock: holdfast::ports::SystemClock };
    let sku = sku.map(|sku| holdfast::domain::ids::Sku::parse(sku).unwrap());
    let SwitchResult::Done(buckets) = admin
        .switch(
            &shop.activity.id,
            sku.as_ref(),
            on_sale,
            "olivia",
            &holdfast::domain::reason::Reason::parse("test").unwrap(),
        )
        .await
        .unwrap()
    else {
        unreachable!("the activity is preheated")
    };
    assert!(buckets.iter().all(holdfast::app::admin::BucketSwitch::in_force));
}

/// A configuration that changed under a function is loaded once, and used.
#[tokio::test]
async fn a_changed_configuration_reaches_a_function_that_holds_the_old_one() {
    let shop = Shop::open(10, &json!({})).await;
    assert_eq!(shop.order("alice", &shop.token("alice"), 1).await.0, 201);
    // Another process changes the limit; this one still holds the old version in its cache.
    let other = shop.backend.another_process();
    let admin = holdfast::app::admin::Admin {
        store: other.database,
        cache: other.cache,
        gate: other.gate,
        clock: holdfast::ports::SystemClock,
    };
    let mut draft = sample::with(sample::activity(SKU, 10), &json!({"limit": {"scope": "activity", "max": 2}}));
    draft["starts_at"] = json!(shop.activity.window.starts_at);
    draft["ends_at"] = json!(shop.activity.window.ends_at);
    let expected = holdfast::app::admin::Expected::Version(shop.activity.version);
    let saved = admin.save(shop.activity.id.clone(), serde_json::from_value(draft).unwrap(), expected).await.unwrap();
    assert!(matches!(saved, holdfast::app::admin::SavedActivity::Changed(_)), "{saved:?}");
    assert_eq!(shop.order("alice", &shop.token("alice"), 1).await.0, 201, "the new limit allows a second");
    assert_eq!(code(&shop.order("alice", &shop.token("alice"), 1).await.1), "limit_reached");
}

/// Both stores tell the orders of the scope that is full, and no others.
#[tokio::test]
async fn a_limit_names_the_orders_of_its_scope() {
    for strategy in ["prededuct", "cas"] {
        let skus = json!([{"sku": SKU, "stock": 9, "price": 1}, {"sku": "case", "stock": 9, "price": 1}]);
        let fields = json!({"strategy": strategy, "skus": skus, "limit": {"scope": "sku", "max": 2}});
        let shop = Shop::open(9, &fields).await;
        let order =
            async |lines: Value| shop.order_body("alice", &json!({"token": shop.token("alice"), "lines": lines})).await;
        let (status, phone) = order(json!([{"sku": SKU, "quantity": 2}])).await;
        assert_eq!(status, 201, "{phone}");
        assert_eq!(order(json!([{"sku": "case", "quantity": 1}])).await.0, 201);
        let both = json!([{"sku": SKU, "quantity": 1}, {"sku": "case", "quantity": 1}]);
        let (_, refused) = order(both).await;
        assert_eq!(code(&refused), "limit_reached");
        assert_eq!(refused["orders"], json!([phone["order_no"]]), "{strategy}");
    }
}
