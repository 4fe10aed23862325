//! Every file of events/payment through the handler, against real servers.

use std::sync::Arc;

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("payment") {
        let backend = harness::events::demo().await;
        let handler = payment::handler(backend.wiring.clone(), Arc::new(harness::webhook_secrets()));
        harness::events::check_http(&case, &handler).await;
    }
}

#[test]
fn the_binary_has_no_route_of_the_local_runner() {
    harness::events::check_binary(env!("CARGO_BIN_EXE_payment"));
}
