//! Every file of events/payment through the handler, against real servers. A signature is good for five
//! minutes, so the files name what is signed and when, and the test signs.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use data_encoding::BASE64;
use harness::{events::Case, webhook_secrets};
use holdfast::{
    domain::webhook::WebhookSecrets,
    ports::{Clock as _, SystemClock},
};

fn sign(case: &mut Case) {
    let Some(asked) = case.event["headers"]["holdfast-signature"].as_str() else { return };
    let text = case.event["body"].as_str().unwrap_or_default();
    let body = match case.event["isBase64Encoded"].as_bool() {
        Some(true) => BASE64.decode(text.as_bytes()).unwrap(),
        _ => text.as_bytes().to_vec(),
    };
    let (ours, now) = (webhook_secrets(), SystemClock.now());
    let signature = match asked {
        "{{signed now}}" => ours.sign(&body, now),
        "{{signed nearly five minutes ago}}" => ours.sign(&body, now.plus_ms(-290_000)),
        "{{signed six minutes ago}}" => ours.sign(&body, now.plus_ms(-360_000)),
        "{{signed in six minutes}}" => ours.sign(&body, now.plus_ms(360_000)),
        "{{signed other body}}" => ours.sign(b"{}", now),
        "{{signed by somebody else}}" => WebhookSecrets::new(vec![vec![7; 32]]).unwrap().sign(&body, now),
        as_it_is => as_it_is.to_owned(),
    };
    case.event["headers"]["holdfast-signature"] = signature.into();
}

#[tokio::test]
async fn every_event_gets_its_answer() {
    for mut case in harness::events::cases("payment") {
        sign(&mut case);
        let backend = harness::events::demo().await;
        let handler = payment::handler(backend.wiring.clone(), Arc::new(webhook_secrets()));
        harness::events::check_http(&case, &handler).await;
    }
}

#[test]
fn the_binary_has_no_route_of_the_local_runner() {
    harness::events::check_binary(env!("CARGO_BIN_EXE_payment"));
}
