//! Every file of events/relay through the handler: audit rows, order events and dead letters, looked up
//! where they must have landed.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use harness::{Backend, events};
use holdfast::{
    ports::{Clock as _, SystemClock},
    telemetry::{self, Label, Meter, Metric, Value as Measured},
};
use serde_json::{Value, json};

#[tokio::test]
async fn every_event_gets_its_answer() {
    for case in events::cases("relay") {
        let backend = events::demo().await;
        let response = relay::handler(backend.wiring.clone()).handle(serde_json::from_value(case.event).unwrap()).await;
        let name = &case.name;
        let failures = serde_json::to_value(response).unwrap()["batchItemFailures"].clone();
        assert_eq!(failures, case.expected["batchItemFailures"], "{name}");
        let rows = audit_rows(&backend).await;
        let expected = case.expected["audit"].as_array().unwrap();
        assert_eq!(rows.len(), expected.len(), "{name}: {rows:?}");
        for row in expected {
            assert!(rows.iter().any(|found| events::contains(found, row)), "{name}: no {row} among {rows:?}");
        }
        let events = bodies(&backend, backend.queues.fulfilment_url.as_deref()).await;
        let ids: Vec<Value> = events.iter().map(|event| event["event_id"].clone()).collect();
        assert_eq!(sorted(ids), sorted(case.expected["events"].as_array().unwrap().clone()), "{name}");
        let letters = bodies(&backend, backend.queues.dead_letter_url.as_deref()).await;
        let numbers: Vec<Value> = letters.iter().map(|letter| letter["dynamodb"]["SequenceNumber"].clone()).collect();
        assert_eq!(sorted(numbers), sorted(case.expected["deadLetters"].as_array().unwrap().clone()), "{name}");
    }
}

#[tokio::test]
async fn what_a_person_must_know_and_what_was_sold_is_counted() {
    let (backend, meter) = (events::demo().await, Arc::new(Meter::default()));
    let handler = relay::handler(backend.wiring.clone());
    let case = |name: &str| events::cases("relay").into_iter().find(|case| case.name == name).unwrap();
    for name in ["poison-among-good", "stock-untracked"] {
        let event = serde_json::from_value(case(name).event).unwrap();
        telemetry::scoped(Some(Arc::clone(&meter)), None, handler.handle(event)).await;
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
    placed.await;
    let held = meter.take_due(SystemClock.now()).unwrap();
    let sold = held.values.iter().filter_map(|(label, values)| Some((label, values.get(&Metric::SoldUnits)?)));
    assert_eq!(sold.collect::<Vec<_>>(), [(&Label::Activity("demo".to_owned()), &Measured::Sum(1))]);
}

fn sorted(mut values: Vec<Value>) -> Vec<String> {
    let mut texts: Vec<String> = values.drain(..).map(|value| value.to_string()).collect();
    texts.sort();
    texts
}

/// The audit table as the files describe its rows.
async fn audit_rows(backend: &Backend) -> Vec<Value> {
    let scan = backend.sdk.dynamodb.scan().table_name(&backend.sdk.tables.audit_table).consistent_read(true);
    let items = scan.send().await.unwrap().items.unwrap_or_default();
    items
        .iter()
        .map(|item| {
            let text = |name: &str| item.get(name).and_then(|value| value.as_s().ok()).cloned();
            let number = |name: &str| item[name].as_n().unwrap().parse::<u64>().unwrap();
            let available = |name: &str| {
                let image = item.get(name).and_then(|value| value.as_m().ok());
                image.map(|image| image["available"].as_n().unwrap().parse::<u64>().unwrap())
            };
            json!({
                "sku": text("sku"), "bucket": number("bucket"), "version": number("version"),
                "operation": text("operation"), "before": available("before"), "after": available("after")
            })
        })
        .collect()
}

/// Every message of a queue, read once: all are there when the handler has answered.
async fn bodies(backend: &Backend, url: Option<&str>) -> Vec<Value> {
    let mut bodies = Vec::new();
    loop {
        let receive = backend.sdk.sqs.receive_message().queue_url(url.unwrap()).max_number_of_messages(10);
        let messages = receive.send().await.unwrap().messages.unwrap_or_default();
        if messages.is_empty() {
            return bodies;
        }
        bodies.extend(messages.iter().map(|message| serde_json::from_str::<Value>(message.body().unwrap()).unwrap()));
    }
}

#[test]
fn the_binary_has_no_route_of_the_local_runner() {
    harness::events::check_binary(env!("CARGO_BIN_EXE_relay"));
}
