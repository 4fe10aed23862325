//! Every file of events/roll-back through the handler, against real servers.

#![recursion_limit = "256"]
#![allow(clippy::unwrap_used)]

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("roll-back") {
        let backend = harness::events::demo().await;
        let handler = roll_back::handler(backend.wiring.clone());
        let response = handler.handle(serde_json::from_value(case.event.clone()).unwrap()).await;
        harness::events::check(&case, &backend, &serde_json::to_value(response).unwrap()).await;
    }
}

#[test]
fn the_binary_has_no_route_of_the_local_runner() {
    harness::events::check_binary(env!("CARGO_BIN_EXE_roll-back"));
}
