//! Every file of events/expire-orders through the handler, against real servers.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use holdfast::app::expire_orders::ExpiryReport;

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("expire-orders") {
        let backend = harness::events::demo().await;
        let report = expire_orders::handler(backend.wiring.clone()).handle(Duration::from_mins(1)).await;
        assert_eq!(serde_json::json!(report.is_ok()), case.expected["succeeds"], "{}", case.name);
        assert_eq!(report.unwrap(), ExpiryReport { activities: 1, complete: true, ..ExpiryReport::default() });
    }
}

#[test]
fn the_binary_has_no_route_of_the_local_runner() {
    harness::events::check_binary(env!("CARGO_BIN_EXE_expire-orders"));
}
