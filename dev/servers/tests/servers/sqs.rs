//! Queues of the local SQS.

use std::time::{Duration, Instant};

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::types::{MessageSystemAttributeName, QueueAttributeName};
use servers::{Fault, FaultKind, Sqs};

use crate::clients;

async fn start() -> (Sqs, Client) {
    let server = Sqs::start().await.unwrap();
    let client = clients::sqs(server.endpoint());
    (server, client)
}

async fn create(client: &Client, name: &str, attributes: &[(QueueAttributeName, &str)]) -> String {
    let mut request = client.create_queue().queue_name(name);
    for (attribute, value) in attributes {
        request = request.attributes(attribute.clone(), *value);
    }
    request.send().await.unwrap().queue_url.unwrap()
}

async fn send(client: &Client, queue: &str, body: &str) {
    let request = client.send_message().queue_url(queue).message_body(body);
    request.send().await.unwrap();
}

/// Long-polls for a second; answers the bodies and their receipt handles.
async fn receive(client: &Client, queue: &str, wait_s: i32) -> Vec<(String, String)> {
    let request = client
        .receive_message()
        .queue_url(queue)
        .wait_time_seconds(wait_s)
        .message_system_attribute_names(MessageSystemAttributeName::All)
        .max_number_of_messages(10);
    let received = request.send().await.unwrap();
    let messages = received.messages.unwrap_or_default().into_iter();
    messages.map(|message| (message.body.unwrap(), message.receipt_handle.unwrap())).collect()
}

#[tokio::test]
async fn a_message_is_received_hidden_and_deleted() {
    let (server, client) = start().await;
    let queue = create(&client, "orders", &[]).await;
    assert!(queue.contains("eu-west-1"), "{queue}");
    send(&client, &queue, "hello").await;
    let received = receive(&client, &queue, 0).await;
    assert_eq!(received[0].0, "hello");
    assert!(receive(&client, &queue, 0).await.is_empty(), "it is invisible");
    let change =
        client.change_message_visibility().queue_url(&queue).receipt_handle(&received[0].1).visibility_timeout(0);
    change.send().await.unwrap();
    let again = receive(&client, &queue, 1).await;
    assert_eq!(again[0].0, "hello");
    let delete = client.delete_message().queue_url(&queue).receipt_handle(&again[0].1);
    delete.send().await.unwrap();
    let counted = client.get_queue_attributes().queue_url(&queue).attribute_names(QueueAttributeName::All);
    let attributes = counted.send().await.unwrap().attributes.unwrap();
    for name in
        [QueueAttributeName::ApproximateNumberOfMessages, QueueAttributeName::ApproximateNumberOfMessagesNotVisible]
    {
        assert_eq!(attributes[&name], "0");
    }
    assert_eq!(server.control().count("ReceiveMessage"), 3);
    server.stop().await;
}

#[tokio::test]
async fn a_message_received_too_often_goes_to_the_dead_letter_queue() {
    let (_server, client) = start().await;
    let dead = create(&client, "dead", &[]).await;
    let arn = client.get_queue_attributes().queue_url(&dead).attribute_names(QueueAttributeName::QueueArn);
    let arn = arn.send().await.unwrap().attributes.unwrap()[&QueueAttributeName::QueueArn].clone();
    let policy = format!(r#"{{"deadLetterTargetArn":"{arn}","maxReceiveCount":"2"}}"#);
    let attributes =
        [(QueueAttributeName::RedrivePolicy, policy.as_str()), (QueueAttributeName::VisibilityTimeout, "1")];
    let queue = create(&client, "orders", &attributes).await;
    send(&client, &queue, "poison").await;
    for _ in 0..2 {
        // The long poll outlasts the visibility timeout.
        assert_eq!(receive(&client, &queue, 3).await.len(), 1);
    }
    assert!(receive(&client, &queue, 2).await.is_empty());
    assert_eq!(receive(&client, &dead, 1).await[0].0, "poison");
}

#[tokio::test]
async fn faults_are_answered_or_break_the_connection() {
    let (server, client) = start().await;
    let queue = create(&client, "orders", &[]).await;
    let attempt = || client.send_message().queue_url(&queue).message_body("x").send();
    for (kind, code) in [
        (FaultKind::Error500, Some("InternalFailure")),
        (FaultKind::Throttled, Some("RequestThrottled")),
        (FaultKind::DropBefore, None),
    ] {
        server.control().inject(Fault::once("SendMessage", kind));
        let error = attempt().await.unwrap_err();
        assert_eq!(error.code(), code, "{kind:?}");
        assert!(receive(&client, &queue, 0).await.is_empty());
    }
    server.control().inject(Fault::once("SendMessage", FaultKind::DropAfter));
    assert!(attempt().await.unwrap_err().as_service_error().is_none());
    assert_eq!(receive(&client, &queue, 1).await.len(), 1);
    let delay = Duration::from_millis(20);
    server.control().inject(Fault::once("SendMessage", FaultKind::Delay(delay)));
    let start = Instant::now();
    attempt().await.unwrap();
    assert!(start.elapsed() >= delay);
    assert_eq!(server.control().count("SendMessage"), 5);
}

#[tokio::test]
async fn a_long_poll_without_a_client_takes_no_message() {
    let (server, client) = start().await;
    let queue = create(&client, "orders", &[]).await;
    let poll = tokio::spawn({
        let (client, queue) = (client.clone(), queue.clone());
        async move { receive(&client, &queue, 20).await }
    });
    while server.control().count("ReceiveMessage") == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    poll.abort();
    assert!(poll.await.unwrap_err().is_cancelled());
    send(&client, &queue, "for the living").await;
    assert_eq!(receive(&client, &queue, 2).await.len(), 1);
}

#[tokio::test]
async fn a_queue_that_does_not_exist_is_named_as_on_aws() {
    let (_server, client) = start().await;
    let request = client.get_queue_url().queue_name("nowhere");
    let error = request.send().await.unwrap_err();
    assert!(error.into_service_error().is_queue_does_not_exist());
}
