//! The event source mapping of a queue: batches to the function, and deletion of what did not fail.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, Message, MessageSystemAttributeName};

use super::explain;
use crate::background::Stop;
use crate::functions::QueueFunction;

/// Most messages of one batch.
pub const BATCH_MAX: i32 = 10;
/// How long one receive waits for messages, in seconds.
const WAIT_S: i32 = 2;
/// Pause after a receive that failed.
const PAUSE: Duration = Duration::from_millis(500);

/// One queue and the function that it triggers.
#[derive(Clone)]
pub struct QueuePoller {
    pub client: Client,
    pub queue_url: String,
    pub queue_arn: String,
    pub function: QueueFunction,
    pub counts: Arc<QueueCounts>,
}

/// What a poller did so far.
#[derive(Debug, Default)]
pub struct QueueCounts {
    pub received: AtomicU64,
    pub failed: AtomicU64,
}

impl QueuePoller {
    /// Polls until told to stop. A batch in work is finished first.
    pub async fn run(self, mut stop: Stop) {
        while !stop.is_set() {
            let received = tokio::select! {
                received = self.receive() => received,
                () = stop.wait() => return,
            };
            match received {
                Ok(messages) if messages.is_empty() => {}
                Ok(messages) => self.deliver(messages).await,
                Err(error) => {
                    tracing::warn!(queue = self.queue_url, error, "receive failed");
                    stop.sleep(PAUSE).await;
                }
            }
        }
    }

    async fn receive(&self) -> Result<Vec<Message>, String> {
        let received = self
            .client
            .receive_message()
            .queue_url(&self.queue_url)
            .max_number_of_messages(BATCH_MAX)
            .wait_time_seconds(WAIT_S)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .send()
            .await
            .map_err(explain)?;
        Ok(received.messages.unwrap_or_default())
    }

    async fn deliver(&self, messages: Vec<Message>) {
        let handles: HashMap<String, String> = messages
            .iter()
            .filter_map(|message| Some((message.message_id.clone()?, message.receipt_handle.clone()?)))
            .collect();
        let mut event = SqsEvent::default();
        event.records = messages.into_iter().map(|message| self.record(message)).collect();
        let function = Arc::clone(&self.function);
        // A task of its own, so that a panic is a failed batch.
        let answer = tokio::spawn(async move { function(event).await }).await;
        let done = match answer {
            Ok(answer) => succeeded(handles.keys(), &answer),
            Err(error) => {
                tracing::error!(queue = self.queue_url, %error, "the function panicked: the whole batch comes back");
                Vec::new()
            }
        };
        let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        self.counts.received.fetch_add(count(handles.len()), Ordering::Relaxed);
        self.counts.failed.fetch_add(count(handles.len() - done.len()), Ordering::Relaxed);
        // What is not deleted comes back after its visibility timeout.
        self.delete(done.iter().filter_map(|id| Some((id, handles.get(id)?)))).await;
    }

    fn record(&self, message: Message) -> SqsMessage {
        let mut record = SqsMessage::default();
        record.message_id = message.message_id;
        record.receipt_handle = message.receipt_handle;
        record.body = message.body;
        record.md5_of_body = message.md5_of_body;
        let attributes = message.attributes.unwrap_or_default();
        record.attributes = attributes.into_iter().map(|(name, value)| (name.as_str().to_owned(), value)).collect();
        record.event_source_arn = Some(self.queue_arn.clone());
        record.event_source = Some("aws:sqs".to_owned());
        record.aws_region = self.queue_arn.split(':').nth(3).map(str::to_owned);
        record
    }

    async fn delete(&self, done: impl Iterator<Item = (&String, &String)>) {
        let entries: Vec<_> = done
            .enumerate()
            .filter_map(|(index, (_, handle))| {
                let entry = DeleteMessageBatchRequestEntry::builder().id(index.to_string()).receipt_handle(handle);
                entry.build().ok()
            })
            .collect();
        if entries.is_empty() {
            return;
        }
        let deleted = self.client.delete_message_batch().queue_url(&self.queue_url).set_entries(Some(entries));
        if let Err(error) = deleted.send().await {
            // They come back, and handling them again has no effect.
            tracing::warn!(queue = self.queue_url, error = explain(error), "delete failed");
        }
    }
}

/// The messages that may be deleted. As Lambda does it, an answer that names a message which is not
/// in the batch, or none at all, fails the whole batch.
#[must_use]
pub fn succeeded<'a>(batch: impl Iterator<Item = &'a String> + Clone, answer: &SqsBatchResponse) -> Vec<String> {
    let failed: HashSet<&str> =
        answer.batch_item_failures.iter().map(|failure| failure.item_identifier.as_str()).collect();
    let known: HashSet<&str> = batch.clone().map(String::as_str).collect();
    if !failed.is_subset(&known) {
        return Vec::new();
    }
    batch.filter(|id| !failed.contains(id.as_str())).cloned().collect()
}
