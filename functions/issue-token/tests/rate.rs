//! Tokens: several per buyer, ten a minute, also before the start, none without the gate.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, sync::Arc};

use harness::{Backend, Options, events, http::Call, sample};
use holdfast::lambda::http::HttpHandler as _;
use issue_token::Handler;
use lambda_http::{Body, Response};
use serde_json::json;

async fn shop() -> (Backend, Handler) {
    let backend = Backend::start(Options::default()).await.unwrap();
    let minutes = sample::minutes_from_now;
    let early = json!({"starts_at": minutes(10), "ends_at": minutes(20)});
    events::open(&backend.wiring, "sale", &sample::with(sample::activity("phone", 1), &early)).await;
    let handler = issue_token::handler(backend.wiring.clone(), Arc::clone(&backend.keys));
    (backend, handler)
}

async fn ask(handler: &Handler, buyer: &str) -> Response<Body> {
    let call = Call::new("POST /v1/activities/{activity}/tokens").path("activity", "sale").buyer(buyer);
    handler.handle(call.json(&json!({})).request().unwrap()).await
}

#[tokio::test]
async fn a_buyer_gets_ten_different_tokens_a_minute_and_no_more() {
    let (backend, handler) = shop().await;
    let mut tokens = BTreeSet::new();
    for _ in 0..10 {
        let (status, body) = harness::http::read(&ask(&handler, "alice").await);
        assert_eq!(status, 201, "{body}");
        let text = body["token"].as_str().unwrap().to_owned();
        assert_eq!(backend.keys.verify(&text).unwrap().buyer.as_str(), "alice");
        tokens.insert(text);
    }
    assert_eq!(tokens.len(), 10);
    let refused = ask(&handler, "alice").await;
    assert_eq!(refused.status(), 429);
    let seconds: u32 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds));
    assert_eq!(ask(&handler, "bob").await.status(), 201, "another buyer is not concerned");
}

/// The signature alone makes a token; the process counts for itself meanwhile.
#[tokio::test]
async fn without_redis_tokens_are_issued_at_a_rate_of_the_process() {
    let (mut backend, handler) = shop().await;
    backend.redis.as_mut().unwrap().stop_hard();
    let mut issued = 0;
    // A minute may end in between.
    while issued <= 20 {
        let answer = ask(&handler, "alice").await;
        if answer.status() == 429 {
            let seconds: u32 = answer.headers()["retry-after"].to_str().unwrap().parse().unwrap();
            assert!((1..=60).contains(&seconds));
            break;
        }
        let (status, body) = harness::http::read(&answer);
        assert_eq!(status, 201, "{body}");
        assert!(backend.keys.verify(body["token"].as_str().unwrap()).is_ok());
        issued += 1;
    }
    assert!((10..=20).contains(&issued), "{issued}");
    assert_eq!(ask(&handler, "bob").await.status(), 201, "another buyer is not concerned");
    backend.redis.as_mut().unwrap().restart().await.unwrap();
    assert_eq!(ask(&handler, "carol").await.status(), 201);
}
