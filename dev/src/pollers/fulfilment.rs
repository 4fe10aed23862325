//! A stand-in for fulfilment: takes order events from their queue and counts them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message};
use serde_json::Value;

use super::explain;
use super::queue::BATCH_MAX;
use crate::background::Stop;

/// How long one receive waits for messages, in seconds.
const WAIT_S: i32 = 2;
/// Pause after a receive that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// The events that arrived.
#[derive(Clone, Debug, Default)]
pub struct Fulfilment(Arc<Mutex<Arrived>>);

/// Counts of [`Fulfilment`].
#[derive(Clone, Debug, Default)]
pub struct Arrived {
    /// Events by their id, `<order_no>#<status>#<take>`.
    pub events: HashSet<String>,
    /// Events that arrived again: allowed, delivery is at least once.
    pub repeated: u64,
    /// Messages that are not order events.
    pub unreadable: u64,
}

impl Fulfilment {
    /// What arrived up to now.
    #[must_use]
    pub fn arrived(&self) -> Arrived {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many different events arrived up to now.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).events.len()
    }

    /// Forgets what arrived.
    pub fn forget(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arrived::default();
    }

    /// Reads the queue until told to stop.
    pub async fn run(self, client: Client, queue_url: String, mut stop: Stop) {
        while !stop.is_set() {
            let receive = client
                .receive_message()
                .queue_url(&queue_url)
                .max_number_of_messages(BATCH_MAX)
                .wait_time_seconds(WAIT_S)
                .send();
            let received = tokio::select! {
                received = receive => received,
                () = stop.wait() => return,
            };
            match received {
                Ok(received) => {
                    let messages = received.messages.unwrap_or_default();
                    self.take(&messages);
                    delete(&client, &queue_url, &messages).await;
                }
                Err(error) => {
                    tracing::warn!(queue = queue_url, error = explain(error), "receive failed");
                    stop.sleep(PAUSE).await;
                }
            }
        }
    }

    fn take(&self, messages: &[Message]) {
        let mut arrived = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for message in messages {
            let event: Option<Value> = message.body.as_deref().and_then(|body| serde_json::from_str(body).ok());
            match event.as_ref().and_then(|event| event["event_id"].as_str()) {
                None => arrived.unreadable += 1,
                Some(id) => {
                    let repeated = !arrived.events.insert(id.to_owned());
                    arrived.repeated += u64::from(repeated);
                }
            }
        }
    }
}

async fn delete(client: &Client, queue_url: &str, messages: &[Message]) {
    let entries: Vec<_> = messages
        .iter()
        .enumerate()
        .filter_map(|(index, message)| {
            let handle = message.receipt_handle.as_deref()?;
            DeleteMessageBatchRequestEntry::builder().id(index.to_string()).receipt_handle(handle).build().ok()
        })
        .collect();
    if entries.is_empty() {
        return;
    }
    if let Err(error) = client.delete_message_batch().queue_url(queue_url).set_entries(Some(entries)).send().await {
        tracing::warn!(queue = queue_url, error = explain(error), "delete failed");
    }
}
