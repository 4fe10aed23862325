//! The SQS adapter against a real local server, through the real SDK.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

use std::time::{Duration, Instant};

use aws_config::Region;
use aws_sdk_sqs::{
    Client,
    config::Credentials,
    types::{Message, MessageSystemAttributeName},
};
use holdfast::{
    adapters::{
        aws,
        sqs::{BODY_MAX_BYTES, Queues},
    },
    config::QueueConfig,
    domain::{
        FORMAT,
        ids::{ActivityId, Bucket, BuyerId},
        order::{Order, Stored},
        order_no::OrderNo,
    },
    ports::{Backlog, Effect, Fault, Messages, OrderEvent, RollBack, RollBackReason},
    telemetry::{self, Trace},
};
use serde_json::{Value, json};
use servers::{FaultKind, Sqs};

struct World {
    server: Sqs,
    client: Client,
    urls: QueueConfig,
    queues: Queues,
}

impl World {
    async fn start() -> Self {
        let server = Sqs::start().await.unwrap();
        let client = client(server.endpoint()).await;
        let mut urls = Vec::new();
        for name in ["roll-back", "fulfilment", "dead-letters"] {
            urls.push(client.create_queue().queue_name(name).send().await.unwrap().queue_url);
        }
        let [roll_back_url, fulfilment_url, dead_letter_url] = urls.try_into().unwrap();
        let urls = QueueConfig { roll_back_url, fulfilment_url, dead_letter_url };
        Self { server, queues: Queues::new(client.clone(), urls.clone()), client, urls }
    }

    /// The bodies of all messages that can be received now, or within `wait_s` when there is none.
    async fn receive(&self, url: Option<&String>, wait_s: i32) -> Vec<String> {
        let receive = self.client.receive_message().set_queue_url(url.cloned()).max_number_of_messages(10);
        // Longer than an attempt may take here, so it is the queue that ends the wait.
        let patient = aws_sdk_sqs::config::Config::builder().timeout_config(
            aws_sdk_sqs::config::timeout::TimeoutConfig::builder()
                .operation_attempt_timeout(Duration::from_secs(30))
                .operation_timeout(Duration::from_secs(30))
                .build(),
        );
        let received = receive.wait_time_seconds(wait_s).customize().config_override(patient).send().await.unwrap();
        received.messages.unwrap_or_default().into_iter().map(|message| message.body.unwrap()).collect()
    }
}

/// As the functions have it, at a local endpoint; its connections are its own.
async fn client(endpoint: &str) -> Client {
    let config = aws::loader()
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "tests"))
        .endpoint_url(endpoint)
        .load()
        .await;
    Client::new(&config)
}

fn roll_back() -> RollBack {
    RollBack {
        format: FORMAT,
        activity: ActivityId::parse("sale").unwrap(),
        order_no: OrderNo::parse("03PMZ9TWHB6V08WN8MG9SWRMDG").unwrap(),
        buyer: BuyerId::parse("auth0|alice").unwrap(),
        home: Bucket::new(3).unwrap(),
        buckets: vec![Bucket::new(5).unwrap()],
        reason: RollBackReason::CommitUnknown,
    }
}

fn order() -> Order {
    serde_json::from_value(json!({
        "order_no": "03PMZ9TWHB6V08WN8MG9SWRMDG", "activity": "sale", "buyer": "auth0|alice", "home": 3,
        "strategy": "prededuct", "lines": [{"sku": "phone", "quantity": 2, "price": 49_900}],
        "lines_hash": "00112233445566778899aabbccddeeff", "currency": "EUR",
        "charges": [{"scope": "A", "units": 2}], "biz_date": "2026-11-29",
        "created_at": "2026-11-29T20:00:00Z", "pay_before": "2026-11-29T20:15:00Z",
        "status": "PENDING_PAYMENT", "take": 1, "parts": [{"sku": "phone", "bucket": 3, "units": 2}],
        "updated_at": "2026-11-29T20:00:00Z"
    }))
    .unwrap()
}

#[tokio::test]
async fn a_roll_back_is_sent_as_json_and_comes_after_its_delay() {
    let world = World::start().await;
    let sent = Instant::now();
    world.queues.send_roll_back(&roll_back(), 2).await.unwrap();
    assert_eq!(world.receive(world.urls.roll_back_url.as_ref(), 0).await, [""; 0]);
    let bodies = world.receive(world.urls.roll_back_url.as_ref(), 10).await;
    assert!(sent.elapsed() >= Duration::from_millis(1_900), "{:?}", sent.elapsed());
    let expected = json!({
        "format": 1, "activity": "sale", "order_no": "03PMZ9TWHB6V08WN8MG9SWRMDG", "buyer": "auth0|alice",
        "home": 3, "buckets": [5], "reason": "commit_unknown"
    });
    assert_eq!(serde_json::from_str::<Value>(&bodies[0]).unwrap(), expected);
    assert_eq!(serde_json::from_str::<RollBack>(&bodies[0]).unwrap(), roll_back());
}

#[tokio::test]
async fn the_trace_goes_beside_the_body() {
    let world = World::start().await;
    let header = "Root=1-6789abcd-0123456789abcdef01234567;Parent=0123456789abcdef;Sampled=0";
    let sent = async {
        world.queues.send_roll_back(&roll_back(), 0).await.unwrap();
        world.queues.send_event(&OrderEvent::of(order())).await.unwrap();
    };
    telemetry::scoped(None, Trace::parse(header), sent).await;
    world.queues.send_roll_back(&roll_back(), 0).await.unwrap();
    let receive = |url: &Option<String>| {
        let names = MessageSystemAttributeName::All;
        let receive = world.client.receive_message().set_queue_url(url.clone()).message_system_attribute_names(names);
        receive.max_number_of_messages(10).send()
    };
    let trace = |message: &Message| {
        let attributes = message.attributes.clone().unwrap_or_default();
        attributes.get(&MessageSystemAttributeName::AwsTraceHeader).cloned()
    };
    for (url, expected) in [
        (&world.urls.roll_back_url, vec![None, Some(header.to_owned())]),
        (&world.urls.fulfilment_url, vec![Some(header.to_owned())]),
    ] {
        let messages = receive(url).await.unwrap().messages.unwrap();
        let mut traces: Vec<_> = messages.iter().map(trace).collect();
        traces.sort();
        assert_eq!(traces, expected);
        // The body is as it was without.
        assert!(messages.iter().all(|message| !message.body.as_ref().unwrap().contains("6789abcd")));
    }
}

#[tokio::test]
async fn an_event_survives_the_way() {
    let world = World::start().await;
    let event = OrderEvent::of(order());
    world.queues.send_event(&event).await.unwrap();
    let bodies = world.receive(world.urls.fulfilment_url.as_ref(), 5).await;
    assert_eq!(serde_json::from_str::<OrderEvent>(&bodies[0]).unwrap(), event);
    assert_eq!(event.event_id, "03PMZ9TWHB6V08WN8MG9SWRMDG#PENDING_PAYMENT#1");
    assert_eq!(Stored::Order(event.order).status().as_str(), "PENDING_PAYMENT");
}

#[tokio::test]
async fn a_dead_letter_is_whole_or_refused() {
    let world = World::start().await;
    let longest = "x".repeat(BODY_MAX_BYTES);
    world.queues.send_dead_letter(&longest).await.unwrap();
    assert_eq!(world.receive(world.urls.dead_letter_url.as_ref(), 5).await, std::slice::from_ref(&longest));
    world.server.control().reset_counts();
    let fault = world.queues.send_dead_letter(&format!("{longest}x")).await.unwrap_err();
    assert_eq!(fault.effect, Effect::None);
    assert!(fault.chain().contains("262145 bytes"), "{}", fault.chain());
    assert_eq!(world.server.control().count("SendMessage"), 0);
}

#[tokio::test]
async fn a_delay_that_the_service_does_not_know_is_refused() {
    let world = World::start().await;
    assert_eq!(world.queues.send_roll_back(&roll_back(), 901).await.unwrap_err().effect, Effect::None);
    world.queues.send_roll_back(&roll_back(), 900).await.unwrap();
}

#[tokio::test]
async fn a_queue_that_was_not_configured_is_named() {
    let world = World::start().await;
    let queues = Queues::new(world.client.clone(), QueueConfig::default());
    let assert_named = |answer: Result<(), Fault>, name: &str| {
        let fault = answer.unwrap_err();
        assert_eq!(fault.effect, Effect::None);
        assert!(fault.chain().contains(name), "{}", fault.chain());
    };
    assert_named(queues.send_roll_back(&roll_back(), 0).await, "the roll-back queue");
    assert_named(queues.send_event(&OrderEvent::of(order())).await, "the fulfilment queue");
    assert_named(queues.send_dead_letter("{}").await, "the dead letter queue");
}

#[tokio::test]
async fn a_refusal_says_whether_the_message_may_be_there() {
    let cases = [
        (FaultKind::Error500, Effect::Unknown),
        (FaultKind::DropBefore, Effect::Unknown),
        (FaultKind::DropAfter, Effect::Unknown),
        (FaultKind::Throttled, Effect::None),
    ];
    for (kind, expected) in cases {
        let world = World::start().await;
        world.server.control().inject(servers::Fault::standing("SendMessage", kind));
        let fault = world.queues.send_roll_back(&roll_back(), 0).await.unwrap_err();
        assert_eq!(fault.effect, expected, "{kind:?}: {}", fault.chain());
        assert_eq!(world.server.control().count("SendMessage"), 3, "{kind:?}");
    }
}

#[tokio::test]
async fn one_broken_attempt_is_made_up_for() {
    for kind in [FaultKind::Error500, FaultKind::DropBefore, FaultKind::Throttled] {
        let world = World::start().await;
        world.server.control().inject(servers::Fault::once("SendMessage", kind));
        world.queues.send_roll_back(&roll_back(), 0).await.unwrap();
        assert_eq!(world.receive(world.urls.roll_back_url.as_ref(), 5).await.len(), 1, "{kind:?}");
    }
}

#[tokio::test]
async fn a_queue_that_does_not_exist_or_a_server_that_is_gone_has_nothing() {
    let world = World::start().await;
    let wrong = world.urls.roll_back_url.clone().map(|url| format!("{url}-of-another"));
    let queues = Queues::new(world.client.clone(), QueueConfig { roll_back_url: wrong, ..QueueConfig::default() });
    assert_eq!(queues.send_roll_back(&roll_back(), 0).await.unwrap_err().effect, Effect::None);
    // A client of its own: a connection that breaks while it is in use proves nothing.
    let queues = Queues::new(client(world.server.endpoint()).await, world.urls.clone());
    world.server.stop().await;
    assert_eq!(queues.send_roll_back(&roll_back(), 0).await.unwrap_err().effect, Effect::None);
}

#[tokio::test]
async fn the_backlog_counts_what_waits_what_is_in_flight_and_what_is_delayed() {
    let world = World::start().await;
    assert_eq!(world.queues.roll_back_backlog().await.unwrap(), 0);
    for delay_s in [0, 0, 0, 600, 600] {
        world.queues.send_roll_back(&roll_back(), delay_s).await.unwrap();
    }
    assert_eq!(world.queues.roll_back_backlog().await.unwrap(), 5);
    let url = world.urls.roll_back_url.as_ref().unwrap();
    let received = world.client.receive_message().queue_url(url).send().await.unwrap().messages.unwrap();
    assert_eq!(received.len(), 1);
    assert_eq!(world.queues.roll_back_backlog().await.unwrap(), 5);
    let delete = world.client.delete_message().queue_url(url);
    delete.receipt_handle(received[0].receipt_handle.as_ref().unwrap()).send().await.unwrap();
    assert_eq!(world.queues.roll_back_backlog().await.unwrap(), 4);
    world.server.control().inject(servers::Fault::standing("GetQueueAttributes", FaultKind::Error500));
    assert_eq!(world.queues.roll_back_backlog().await.unwrap_err().effect, Effect::None);
}
