//! Calls, counts and faults of the local DynamoDB.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::types::{StreamSpecification, StreamViewType};
use servers::{Dynamodb, DynamodbOptions, Fault, FaultKind};

use crate::clients::{self, TABLE, create_table, exists, key, put};

async fn start() -> (Dynamodb, aws_sdk_dynamodb::Client) {
    let server = Dynamodb::start(DynamodbOptions::default()).await.unwrap();
    let client = clients::dynamodb(server.endpoint());
    create_table(&client).await;
    (server, client)
}

fn put_item(
    client: &aws_sdk_dynamodb::Client,
    pk: &str,
) -> aws_sdk_dynamodb::operation::put_item::builders::PutItemFluentBuilder {
    client.put_item().table_name(TABLE).set_item(Some(key(pk)))
}

#[tokio::test]
async fn what_is_put_can_be_got_and_is_counted() {
    let (server, client) = start().await;
    put_item(&client, "a").send().await.unwrap();
    assert!(exists(&client, "a").await);
    assert!(!exists(&client, "b").await);
    let counts: Vec<_> = server.control().counts().into_iter().collect();
    let expected = [("CreateTable", 1), ("GetItem", 2), ("PutItem", 1)];
    assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)));
    server.control().reset_counts();
    assert_eq!(server.control().count("PutItem"), 0);
    server.stop().await;
}

#[tokio::test]
async fn answered_faults_are_not_applied() {
    let (server, client) = start().await;
    for (kind, code) in [
        (FaultKind::Error500, "InternalServerError"),
        (FaultKind::Throttled, "ProvisionedThroughputExceededException"),
        (FaultKind::Conflict, "TransactionConflictException"),
    ] {
        server.control().inject(Fault::once("PutItem", kind));
        let error = put_item(&client, "a").send().await.unwrap_err();
        assert_eq!(error.code(), Some(code));
        let status = error.raw_response().unwrap().status().as_u16();
        assert_eq!(status, if kind == FaultKind::Error500 { 500 } else { 400 });
        assert!(!exists(&client, "a").await);
    }
    put_item(&client, "a").send().await.unwrap();
    assert_eq!(server.control().count("PutItem"), 4);
}

#[tokio::test]
async fn a_call_dropped_before_is_not_applied_and_one_dropped_after_is() {
    let (server, client) = start().await;
    for (kind, applied) in [(FaultKind::DropBefore, false), (FaultKind::DropAfter, true)] {
        for write in ["PutItem", "TransactWriteItems"] {
            let pk = format!("{kind:?}{write}");
            server.control().inject(Fault::once(write, kind));
            let failed = if write == "PutItem" {
                put_item(&client, &pk).send().await.unwrap_err().as_service_error().is_none()
            } else {
                let transaction = client.transact_write_items().transact_items(put(&pk));
                transaction.send().await.unwrap_err().as_service_error().is_none()
            };
            assert!(failed, "a broken connection is not an answer");
            assert_eq!(exists(&client, &pk).await, applied, "{pk}");
        }
    }
}

#[tokio::test]
async fn latency_and_delays_take_their_time() {
    let (server, client) = start().await;
    let millis = Duration::from_millis;
    server.set_latency(millis(400));
    let delay = FaultKind::Delay(millis(200));
    server.control().inject(Fault::once("PutItem", delay));
    let start = Instant::now();
    put_item(&client, "a").send().await.unwrap();
    assert!(start.elapsed() >= millis(600));
    server.set_latency(Duration::ZERO);
    let start = Instant::now();
    put_item(&client, "a").send().await.unwrap();
    assert!(start.elapsed() < millis(400), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_undo_its_call() {
    let (server, client) = start().await;
    server.set_latency(Duration::from_millis(50));
    let call = tokio::spawn(put_item(&client, "a").send());
    let deadline = Instant::now() + Duration::from_secs(10);
    while server.control().count("PutItem") == 0 {
        assert!(Instant::now() < deadline, "the call has not arrived");
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    server.set_latency(Duration::ZERO);
    while !exists(&client, "a").await {
        assert!(Instant::now() < deadline, "the call was undone");
    }
}

#[tokio::test]
async fn streams_are_served_on_the_same_endpoint() {
    let (server, client) = start().await;
    let stream = StreamSpecification::builder().stream_enabled(true).stream_view_type(StreamViewType::NewImage);
    client.update_table().table_name(TABLE).stream_specification(stream.build().unwrap()).send().await.unwrap();
    // Neither a fault that names no operation nor the latency is for streams.
    server.control().inject(Fault { operation: None, kind: FaultKind::Error500, times: None });
    server.set_latency(Duration::from_mins(1));
    let (status, body) = clients::streams_call(server.endpoint(), "ListStreams", "{}").await;
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("StreamArn"), "{body}");
    assert_eq!(server.control().count("ListStreams"), 1);
    server.control().inject(Fault::once("ListStreams", FaultKind::Error500));
    let (status, _) = clients::streams_call(server.endpoint(), "ListStreams", "{}").await;
    assert_eq!(status, 500);
}

#[tokio::test]
async fn nothing_listens_after_a_drop() {
    let (server, _) = start().await;
    let address = server.endpoint().strip_prefix("http://").unwrap().to_owned();
    drop(server);
    let deadline = Instant::now() + Duration::from_secs(5);
    while tokio::net::TcpStream::connect(&address).await.is_ok() {
        assert!(Instant::now() < deadline, "still listening");
        tokio::task::yield_now().await;
    }
}
