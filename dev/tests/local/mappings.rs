//! The event source mappings against real local servers.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use aws_sdk_dynamodb::types::AttributeValue;
use aws_sdk_sqs::types::QueueAttributeName;
use dev::background::Background;
use dev::pollers::queue::{QueueCounts, QueuePoller};
use dev::pollers::stream::{StreamCounts, StreamPoller};
use dev::stack::long_polls;
use harness::{Backend, Options};
use serde_json::{Value, json};

async fn backend() -> Backend {
    Backend::start(Options { visibility: Duration::from_secs(1), ..Options::default() }).await.unwrap()
}

async fn until(what: &str, mut met: impl AsyncFnMut() -> bool) {
    let met = async || Ok(met().await.then_some(()));
    servers::until(what, Duration::from_secs(30), met).await.unwrap();
}

/// Fails a message whose body is `bad`, and panics at `worse`.
fn picky(event: SqsEvent, seen: &Mutex<Vec<String>>) -> SqsBatchResponse {
    let mut answer = SqsBatchResponse::default();
    for message in event.records {
        let body = message.body.unwrap_or_default();
        seen.lock().unwrap().push(body.clone());
        assert_ne!(body, "worse", "asked for by the test");
        if body == "bad" {
            answer.add_failure(message.message_id.unwrap_or_default());
        }
    }
    answer
}

/// Sends these messages to a queue with a picky function; answers what it saw until so many are dead
/// letters.
async fn deliver(bodies: &[&str], dead: &str) -> Vec<String> {
    let backend = backend().await;
    let url = backend.queues.roll_back_url.clone().unwrap();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let watched = Arc::clone(&seen);
    let poller = QueuePoller {
        client: long_polls(&backend),
        queue_url: url.clone(),
        queue_arn: "arn:aws:sqs:eu-west-1:000000000000:roll-back".to_owned(),
        function: Arc::new(move |event| {
            let watched = Arc::clone(&watched);
            Box::pin(async move { picky(event, &watched) })
        }),
        counts: Arc::new(QueueCounts::default()),
    };
    for body in bodies {
        backend.sdk.sqs.send_message().queue_url(&url).message_body(*body).send().await.unwrap();
    }
    let mut background = Background::default();
    background.spawn(|stop| poller.run(stop));
    until("all bad messages are dead letters", async || {
        let name = QueueAttributeName::ApproximateNumberOfMessages;
        let request = backend.sdk.sqs.get_queue_attributes().queue_url(&backend.roll_back_dead_letters);
        let answer = request.attribute_names(name.clone()).send().await.unwrap();
        answer.attributes.unwrap_or_default().get(&name).is_some_and(|count| count == dead)
    })
    .await;
    background.stop().await;
    let seen = seen.lock().unwrap();
    seen.clone()
}

#[tokio::test]
async fn f17_a_failed_message_alone_comes_back_and_ends_as_a_dead_letter() {
    let seen = deliver(&["good", "bad", "fine"], "1").await;
    let times = |body: &str| seen.iter().filter(|seen| *seen == body).count();
    assert_eq!((times("good"), times("bad"), times("fine")), (1, 5, 1), "as the redrive policy says");
}

#[tokio::test]
async fn a_panic_fails_its_batch_and_the_poller_goes_on() {
    assert_eq!(deliver(&["worse"], "1").await, ["worse"; 5]);
}

/// Keeps the versions of each item, and fails every third call at its second record.
fn forgetful(event: &Value, seen: &Mutex<Handled>) -> Value {
    let mut seen = seen.lock().unwrap();
    seen.calls += 1;
    let fails = seen.calls % 3 == 1;
    for (index, record) in event["Records"].as_array().unwrap().iter().enumerate() {
        if fails && index == 1 {
            let number = &record["dynamodb"]["SequenceNumber"];
            return json!({ "batchItemFailures": [{ "itemIdentifier": number }] });
        }
        let image = &record["dynamodb"]["NewImage"];
        let version = image["version"]["N"].as_str().unwrap().parse().unwrap();
        seen.versions.entry(image["pk"]["S"].to_string()).or_default().push(version);
        assert_eq!(record["eventSource"], "aws:dynamodb");
    }
    json!({ "batchItemFailures": [] })
}

#[derive(Default)]
struct Handled {
    calls: u32,
    versions: HashMap<String, Vec<u32>>,
}

#[tokio::test]
async fn each_items_changes_arrive_once_and_in_order_although_calls_fail() {
    let backend = backend().await;
    let table = &backend.sdk.tables.table;
    let described = backend.sdk.dynamodb.describe_table().table_name(table).send().await.unwrap();
    let config = aws_sdk_dynamodbstreams::config::Builder::from(&backend.sdk.config);
    let client = aws_sdk_dynamodbstreams::Client::from_conf(config.endpoint_url(backend.dynamodb.endpoint()).build());
    let seen: Arc<Mutex<Handled>> = Arc::default();
    let watched = Arc::clone(&seen);
    let counts = Arc::new(StreamCounts::default());
    let poller = StreamPoller {
        client,
        stream_arn: described.table.unwrap().latest_stream_arn.unwrap(),
        function: Arc::new(move |event| {
            let watched = Arc::clone(&watched);
            Box::pin(async move { forgetful(&event, &watched) })
        }),
        counts: Arc::clone(&counts),
    };
    let mut background = Background::default();
    background.spawn(|stop| poller.run(stop));
    let text = |value: &str| AttributeValue::S(value.to_owned());
    for version in 1..=20 {
        for item in ["a", "b", "c", "d", "e"] {
            let put = backend.sdk.dynamodb.put_item().table_name(table).item("pk", text(item)).item("sk", text("x"));
            put.item("version", AttributeValue::N(version.to_string())).send().await.unwrap();
        }
    }
    until("all records are handled", async || counts.records.load(Ordering::Relaxed) == 100).await;
    let idle = counts.idle_reads.load(Ordering::Relaxed);
    until("the stream is read to its end", async || counts.idle_reads.load(Ordering::Relaxed) > idle).await;
    background.stop().await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.versions.len(), 5);
    for (item, versions) in &seen.versions {
        assert_eq!(*versions, (1..=20).collect::<Vec<_>>(), "{item}");
    }
    assert!(counts.failures.load(Ordering::Relaxed) > 0, "some calls did fail");
}
