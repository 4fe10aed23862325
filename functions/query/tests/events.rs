//! Every file of events/query through the handler, against real servers.

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("query") {
        let backend = harness::events::demo().await;
        harness::events::check_http(&case, &query::handler(backend.wiring.clone())).await;
    }
}

#[test]
fn the_binary_has_no_route_of_the_local_runner() {
    harness::events::check_binary(env!("CARGO_BIN_EXE_query"));
}
