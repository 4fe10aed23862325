//! Every file of events/expire-orders through the handler, against real servers.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("expire-orders") {
        let backend = harness::events::demo().await;
        let report = expire_orders::handler(backend.wiring.clone()).handle(Duration::from_mins(1)).await;
        let answer = match report {
            Ok(report) => serde_json::to_value(report).unwrap(),
            Err(fault) => serde_json::json!({"errorMessage": fault.to_string()}),
        };
        harness::events::check(&case, &backend, &answer).await;
    }
}

#[test]
fn the_binary_has_no_route_of_the_local_runner() {
    harness::events::check_binary(env!("CARGO_BIN_EXE_expire-orders"));
}
