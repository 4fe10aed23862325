//! SQS: the queues that the system sends to. Bodies are JSON; the trace goes beside them, as the service's own
//! attribute, so that messages of older versions are read as before.

use std::sync::Arc;

use aws_sdk_sqs::{
    Client,
    types::{MessageSystemAttributeNameForSends, MessageSystemAttributeValue, QueueAttributeName},
};
use serde::Serialize;

use super::aws::{LazyClient, Witness};
use crate::{
    config::QueueConfig,
    ports::{Backlog, Fault, Messages, OrderEvent, RefundEvent, RollBack},
    telemetry,
};

/// Longest body, in bytes (256 KiB), by the service.
pub const BODY_MAX_BYTES: usize = 262_144;
/// Longest delay of one message, in seconds, by the service.
pub const DELAY_MAX_S: u16 = 900;

/// The queues. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Queues {
    client: LazyClient<Client>,
    urls: Arc<QueueConfig>,
}

impl Queues {
    #[must_use]
    pub fn new(client: impl Into<LazyClient<Client>>, urls: QueueConfig) -> Self {
        Self { client: client.into(), urls: Arc::new(urls) }
    }
}

/// Why a message was not even sent.
#[derive(Debug, thiserror::Error)]
enum Unsendable {
    #[error("this function was given no URL of the {0} queue")]
    NoUrl(&'static str),
    #[error("the body has {0} bytes, more than {BODY_MAX_BYTES}")]
    TooLong(usize),
    #[error("the delay of {0} s is longer than {DELAY_MAX_S} s")]
    TooLate(u16),
}

/// One message and where it goes.
struct Message<'a> {
    operation: &'static str,
    queue: &'static str,
    url: Option<&'a str>,
    delay_s: u16,
    body: String,
}

impl Messages for Queues {
    async fn send_roll_back(&self, message: &RollBack, delay_s: u16) -> Result<(), Fault> {
        const OPERATION: &str = "send roll-back";
        let (url, body) = (self.urls.roll_back_url.as_deref(), json(OPERATION, message)?);
        self.send(Message { operation: OPERATION, queue: "roll-back", url, delay_s, body }).await
    }

    async fn send_event(&self, event: &OrderEvent) -> Result<(), Fault> {
        const OPERATION: &str = "send order event";
        let (url, body) = (self.urls.fulfilment_url.as_deref(), json(OPERATION, event)?);
        self.send(Message { operation: OPERATION, queue: "fulfilment", url, delay_s: 0, body }).await
    }

    async fn send_refund(&self, event: &RefundEvent) -> Result<(), Fault> {
        const OPERATION: &str = "send refund event";
        let (url, body) = (self.urls.fulfilment_url.as_deref(), json(OPERATION, event)?);
        self.send(Message { operation: OPERATION, queue: "fulfilment", url, delay_s: 0, body }).await
    }

    async fn send_dead_letter(&self, body: &str) -> Result<(), Fault> {
        let (url, body) = (self.urls.dead_letter_url.as_deref(), body.to_owned());
        self.send(Message { operation: "send dead letter", queue: "dead letter", url, delay_s: 0, body }).await
    }
}

impl Backlog for Queues {
    async fn roll_back_backlog(&self) -> Result<u64, Fault> {
        const OPERATION: &str = "measure the roll-back queue";
        let url = self.urls.roll_back_url.as_deref();
        let url = url.ok_or_else(|| Fault::not_applied(OPERATION, Unsendable::NoUrl("roll-back")))?;
        let counts = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let request = self.client.get_queue_attributes().queue_url(url).set_attribute_names(Some(counts.to_vec()));
        let answer = request.send().await.map_err(|error| Fault::not_applied(OPERATION, error))?;
        let attributes = answer.attributes.unwrap_or_default();
        let count = |name| attributes.get(name).and_then(|count| count.parse::<u64>().ok());
        let counts: Option<Vec<u64>> = counts.iter().map(count).collect();
        counts.map(|counts| counts.iter().sum()).ok_or_else(|| Fault::not_applied(OPERATION, "the queue does not tell"))
    }
}

fn json<T: Serialize>(operation: &'static str, message: &T) -> Result<String, Fault> {
    serde_json::to_string(message).map_err(|cause| Fault::not_applied(operation, cause))
}

impl Queues {
    async fn send(&self, message: Message<'_>) -> Result<(), Fault> {
        let refuse = |cause: Unsendable| Fault::not_applied(message.operation, cause);
        let url = message.url.ok_or_else(|| refuse(Unsendable::NoUrl(message.queue)))?;
        if message.body.len() > BODY_MAX_BYTES {
            // Never cut: half a record is worth less than an error that says so.
            return Err(refuse(Unsendable::TooLong(message.body.len())));
        }
        if message.delay_s > DELAY_MAX_S {
            return Err(refuse(Unsendable::TooLate(message.delay_s)));
        }
        let request = self.client.send_message().queue_url(url).message_body(message.body);
        let mut request = request.delay_seconds(i32::from(message.delay_s));
        if let Some(trace) = telemetry::trace() {
            let header =
                MessageSystemAttributeValue::builder().data_type("String").string_value(trace.header()).build();
            let header = header.map_err(|error| Fault::not_applied(message.operation, error))?;
            request = request.message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, header);
        }
        let witness = Witness::default();
        let sent = request.customize().interceptor(witness.clone()).send().await;
        sent.map(drop).map_err(|error| witness.fault(message.operation, error))
    }
}
