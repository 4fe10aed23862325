//! Every file of events/reconcile through the handler, against real servers.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("reconcile") {
        let backend = harness::events::demo().await;
        let report = reconcile::handler(backend.wiring.clone()).handle(Duration::from_mins(1)).await;
        assert_eq!(serde_json::json!(report.is_ok()), case.expected["succeeds"], "{}", case.name);
        let report = report.unwrap();
        assert!(report.complete && report.findings.is_empty() && report.faults == 0, "{report:?}");
        assert_eq!((report.activities, report.buckets), (1, 4));
    }
}

#[test]
fn the_binary_has_no_route_of_the_local_runner() {
    harness::events::check_binary(env!("CARGO_BIN_EXE_reconcile"));
}
