//! Every file of events/rebalance-stock through the handler, against real servers.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use holdfast::app::rebalance_stock::RebalanceReport;

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("rebalance-stock") {
        let backend = harness::events::demo().await;
        let report = rebalance_stock::handler(backend.wiring.clone()).handle(Duration::from_mins(1)).await;
        assert_eq!(serde_json::json!(report.is_ok()), case.expected["succeeds"], "{}", case.name);
        assert_eq!(report.unwrap(), RebalanceReport { activities: 1, complete: true, ..RebalanceReport::default() });
    }
}

#[test]
fn the_binary_has_no_route_of_the_local_runner() {
    harness::events::check_binary(env!("CARGO_BIN_EXE_rebalance-stock"));
}
