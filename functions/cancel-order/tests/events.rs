//! Every file of events/cancel-order through the handler, against real servers.

use std::sync::Arc;

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("cancel-order") {
        let backend = harness::events::demo().await;
        let handler = cancel_order::handler(backend.wiring.clone(), Arc::clone(&backend.keys));
        harness::events::check_http(&case, &handler).await;
    }
}

#[test]
fn the_binary_has_no_route_of_the_local_runner() {
    harness::events::check_binary(env!("CARGO_BIN_EXE_cancel-order"));
}
