//! Every file of events/query through the handler, against real servers.

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("query") {
        let backend = harness::events::demo().await;
        harness::events::check_http(&case, &query::handler(backend.wiring.clone())).await;
    }
}
