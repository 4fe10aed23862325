//! Every file of events/relay through the handler, against real servers.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use harness::events;
use holdfast::{
    ports::{Clock as _, SystemClock},
    telemetry::{self, Label, Meter, Metric, Value as Measured},
};

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in harness::events::cases("relay") {
        let backend = harness::events::demo().await;
        let handler = relay::handler(backend.wiring.clone());
        let response = handler.handle(serde_json::from_value(case.event.clone()).unwrap()).await;
        harness::events::check(&case, &backend, &serde_json::to_value(response).unwrap()).await;
    }
}

#[tokio::test]
async fn what_a_person_must_know_and_what_was_sold_is_counted() {
    let (backend, meter) = (events::demo().await, Arc::new(Meter::default()));
    let handler = relay::handler(backend.wiring.clone());
    let case = |name: &str| events::cases("relay").into_iter().find(|case| case.name == name).unwrap();
    for name in ["poison-among-good", "stock-untracked"] {
        let event = serde_json::from_value(case(name).event).unwrap();
        Box::pin(telemetry::scoped(Some(Arc::clone(&meter)), None, handler.handle(event))).await;
    }
    let held = meter.take_due(SystemClock.now()).unwrap();
    let whole = &held.values[&Label::Whole];
    assert_eq!(
        (&whole[&Metric::DeadRecords], &whole[&Metric::UntrackedChanges]),
        (&Measured::Sum(1), &Measured::Sum(1))
    );
    let placed = telemetry::scoped(Some(Arc::clone(&meter)), None, async {
        handler.handle(serde_json::from_value(case("order-placed").event).unwrap()).await
    });
    Box::pin(placed).await;
    let held = meter.take_due(SystemClock.now()).unwrap();
    let sold = held.values.iter().filter_map(|(label, values)| Some((label, values.get(&Metric::SoldUnits)?)));
    assert_eq!(sold.collect::<Vec<_>>(), [(&Label::Activity("demo".to_owned()), &Measured::Sum(1))]);
}
