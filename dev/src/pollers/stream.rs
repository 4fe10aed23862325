//! The event source mapping of the table's stream: each shard in order, one batch at a time, and a
//! batch that fails is sent again from the failed record on until it succeeds.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lambda_events::dynamodb::Event;
use aws_lambda_events::streams::DynamoDbEventResponse;
use aws_sdk_dynamodbstreams::Client;
use aws_sdk_dynamodbstreams::types::{AttributeValue, Record, ShardIteratorType, StreamRecord};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

use super::explain;
use crate::background::Stop;
use crate::functions::StreamFunction;

/// Most records of one batch.
const BATCH_MAX: i32 = 100;
/// Pause when a shard has nothing new.
const IDLE: Duration = Duration::from_millis(200);
/// First and longest pause before a failed batch or read is tried again.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// One stream and the function that it triggers.
#[derive(Clone)]
pub struct StreamPoller {
    pub client: Client,
    pub stream_arn: String,
    pub function: StreamFunction,
    pub counts: Arc<StreamCounts>,
}

/// What a poller did so far.
#[derive(Debug, Default)]
pub struct StreamCounts {
    /// Records that were handled.
    pub records: AtomicU64,
    /// Calls that reported a failure.
    pub failures: AtomicU64,
    /// Reads that found nothing new: whoever waits for the end of a backlog sees it rise.
    pub idle_reads: AtomicU64,
}

/// Where the reading of one shard stands.
#[derive(Default)]
struct Shard {
    iterator: Option<String>,
    /// The last record that was handled; reading goes on behind it.
    checkpoint: Option<String>,
}

/// What one step on a shard came to.
enum Step {
    Handled,
    Idle,
    /// The shard was closed and is read to its end.
    Finished,
}

impl StreamPoller {
    /// Polls all shards until told to stop.
    pub async fn run(self, mut stop: Stop) {
        let mut shards: HashMap<String, Option<Shard>> = HashMap::new();
        let mut back_off = BackOff::default();
        while !stop.is_set() {
            match self.round(&mut shards, &mut stop).await {
                Ok(true) => back_off = BackOff::default(),
                Ok(false) => {
                    self.counts.idle_reads.fetch_add(1, Ordering::Relaxed);
                    back_off = BackOff::default();
                    stop.sleep(IDLE).await;
                }
                Err(error) => {
                    tracing::warn!(error, "reading the stream failed");
                    stop.sleep(back_off.next()).await;
                }
            }
        }
    }

    /// One step on every shard; answers whether any had records. A shard that is read to its end stays
    /// in the map as `None`.
    async fn round(&self, shards: &mut HashMap<String, Option<Shard>>, stop: &mut Stop) -> Result<bool, String> {
        if shards.values().all(Option::is_none) {
            self.discover(shards).await?;
        }
        let mut busy = false;
        for (id, slot) in shards.iter_mut() {
            let Some(shard) = slot else { continue };
            match self.step(id, shard, stop).await? {
                Step::Handled => busy = true,
                Step::Idle => {}
                Step::Finished => *slot = None,
            }
        }
        Ok(busy)
    }

    async fn discover(&self, shards: &mut HashMap<String, Option<Shard>>) -> Result<(), String> {
        let mut after = None;
        loop {
            let page = self
                .client
                .describe_stream()
                .stream_arn(&self.stream_arn)
                .set_exclusive_start_shard_id(after)
                .send()
                .await
                .map_err(explain)?;
            let description = page.stream_description.ok_or("the stream has no description")?;
            for shard in description.shards.unwrap_or_default() {
                if let Some(id) = shard.shard_id {
                    shards.entry(id).or_insert_with(|| Some(Shard::default()));
                }
            }
            after = description.last_evaluated_shard_id;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    async fn step(&self, id: &str, shard: &mut Shard, stop: &mut Stop) -> Result<Step, String> {
        if shard.iterator.is_none() {
            shard.iterator = Some(self.iterator(id, shard.checkpoint.as_deref()).await?);
        }
        let read = self.client.get_records().set_shard_iterator(shard.iterator.clone()).limit(BATCH_MAX).send();
        let page = match read.await {
            Ok(page) => page,
            Err(error) => {
                // The iterator may have expired: the next one starts behind the checkpoint.
                shard.iterator = None;
                return Err(explain(error));
            }
        };
        let records = page.records.unwrap_or_default();
        let was_empty = records.is_empty();
        if !was_empty {
            self.deliver(records, &mut shard.checkpoint, stop).await;
            if stop.is_set() {
                return Ok(Step::Idle);
            }
        }
        shard.iterator = page.next_shard_iterator;
        Ok(match (&shard.iterator, was_empty) {
            (None, _) => Step::Finished,
            (Some(_), true) => Step::Idle,
            (Some(_), false) => Step::Handled,
        })
    }

    async fn iterator(&self, shard: &str, checkpoint: Option<&str>) -> Result<String, String> {
        let kind = match checkpoint {
            Some(_) => ShardIteratorType::AfterSequenceNumber,
            None => ShardIteratorType::TrimHorizon,
        };
        let iterator = self
            .client
            .get_shard_iterator()
            .stream_arn(&self.stream_arn)
            .shard_id(shard)
            .shard_iterator_type(kind)
            .set_sequence_number(checkpoint.map(str::to_owned))
            .send()
            .await
            .map_err(explain)?;
        iterator.shard_iterator.ok_or_else(|| "the shard has no iterator".to_owned())
    }

    /// Calls the function until all records are handled or the signal to stop comes.
    async fn deliver(&self, records: Vec<Record>, checkpoint: &mut Option<String>, stop: &mut Stop) {
        let arn = &self.stream_arn;
        let mut numbers: Vec<String> = records.iter().map(|record| sequence_number(record).to_owned()).collect();
        let mut records: Vec<Value> = records.iter().map(|record| record_json(record, arn)).collect();
        let mut back_off = BackOff::default();
        while !records.is_empty() {
            let handled = self.call(&records, &numbers).await;
            if let Some(last) = handled.checked_sub(1).and_then(|last| numbers.get(last)) {
                *checkpoint = Some(last.clone());
                back_off = BackOff::default();
            }
            self.counts.records.fetch_add(u64::try_from(handled).unwrap_or(0), Ordering::Relaxed);
            records.drain(..handled);
            numbers.drain(..handled);
            if !records.is_empty() {
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                stop.sleep(back_off.next()).await;
                if stop.is_set() {
                    return;
                }
            }
        }
    }

    /// One call; answers how many records from the first on are done with.
    async fn call(&self, records: &[Value], numbers: &[String]) -> usize {
        let event: Event = match serde_json::from_value(json!({ "Records": records })) {
            Ok(event) => event,
            Err(error) => {
                tracing::error!(%error, "the stream's records are not an event");
                return 0;
            }
        };
        let function = Arc::clone(&self.function);
        match tokio::spawn(async move { function(event).await }).await {
            Ok(answer) => handled(numbers, &answer),
            Err(error) => {
                tracing::error!(%error, "the stream's function panicked: the whole batch is sent again");
                0
            }
        }
    }
}

/// How many records before the first failed one. As Lambda does it, a failure that names no record of
/// the batch fails all of it.
#[must_use]
pub fn handled(numbers: &[String], answer: &DynamoDbEventResponse) -> usize {
    let failed = answer.batch_item_failures.iter().map(|failure| {
        let named = failure.item_identifier.as_deref()?;
        numbers.iter().position(|number| number == named)
    });
    failed.map(|position| position.unwrap_or(0)).min().unwrap_or(numbers.len())
}

/// Pauses that double from the first to the longest.
struct BackOff(Duration);

impl Default for BackOff {
    fn default() -> Self {
        Self(BACK_OFF.0)
    }
}

impl BackOff {
    fn next(&mut self) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(BACK_OFF.1);
        pause
    }
}

fn sequence_number(record: &Record) -> &str {
    record.dynamodb.as_ref().and_then(StreamRecord::sequence_number).unwrap_or("")
}

/// A record as the event source mapping writes it.
fn record_json(record: &Record, stream_arn: &str) -> Value {
    let change = record.dynamodb.as_ref();
    let mut body = Map::new();
    if let Some(change) = change {
        if let Some(time) = change.approximate_creation_date_time {
            body.insert("ApproximateCreationDateTime".to_owned(), json!(time.as_secs_f64()));
        }
        for (name, image) in [("Keys", &change.keys), ("NewImage", &change.new_image), ("OldImage", &change.old_image)] {
            if let Some(image) = image {
                body.insert(name.to_owned(), item_json(image));
            }
        }
        body.insert("SequenceNumber".to_owned(), json!(change.sequence_number));
        body.insert("SizeBytes".to_owned(), json!(change.size_bytes.unwrap_or(0)));
        body.insert("StreamViewType".to_owned(), json!("NEW_AND_OLD_IMAGES"));
    }
    json!({
        "eventID": record.event_id.as_deref().unwrap_or(""),
        "eventName": record.event_name.as_ref().map_or("", |name| name.as_str()),
        "eventVersion": "1.1",
        "eventSource": "aws:dynamodb",
        "awsRegion": record.aws_region.as_deref().unwrap_or("us-east-1"),
        "dynamodb": body,
        "eventSourceARN": stream_arn,
        "userIdentity": record.user_identity.as_ref().map(|user| {
            json!({ "type": user.r#type, "principalId": user.principal_id })
        }),
    })
}

fn item_json(item: &HashMap<String, AttributeValue>) -> Value {
    Value::Object(item.iter().map(|(name, value)| (name.clone(), attribute_json(value))).collect())
}

fn attribute_json(value: &AttributeValue) -> Value {
    let base64 = |blob: &aws_sdk_dynamodbstreams::primitives::Blob| BASE64.encode(blob.as_ref());
    match value {
        AttributeValue::S(text) => json!({ "S": text }),
        AttributeValue::N(number) => json!({ "N": number }),
        AttributeValue::Bool(flag) => json!({ "BOOL": flag }),
        AttributeValue::B(blob) => json!({ "B": base64(blob) }),
        AttributeValue::L(items) => json!({ "L": items.iter().map(attribute_json).collect::<Vec<_>>() }),
        AttributeValue::M(fields) => json!({ "M": item_json(fields) }),
        AttributeValue::Ss(texts) => json!({ "SS": texts }),
        AttributeValue::Ns(numbers) => json!({ "NS": numbers }),
        AttributeValue::Bs(blobs) => json!({ "BS": blobs.iter().map(base64).collect::<Vec<_>>() }),
        _ => json!({ "NULL": true }),
    }
}
