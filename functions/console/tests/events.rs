//! Every file of events/console through the handler, against real servers.

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("console") {
        let backend = harness::events::demo().await;
        harness::events::check_http(&case, &console::handler(backend.wiring.clone())).await;
    }
}
