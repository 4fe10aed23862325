//! The event source mapping of the table's stream: batches in order, and a batch that fails is sent
//! again from the failed record on until it succeeds. Each item's changes keep their order; different
//! items are spread over lanes, as Lambda's parallelization factor does it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_sdk_dynamodbstreams::Client;
use aws_sdk_dynamodbstreams::types::{Record, ShardIteratorType};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::explain;
use super::records::{record_json, sequence_number};
use crate::background::Stop;
use crate::functions::StreamFunction;

/// Most records of one batch.
const BATCH_MAX: usize = 100;
/// Batches of one shard that are in work at once.
const LANES: usize = 4;
/// Most records of one read.
const READ_MAX: i32 = 400;
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
        let read = self.client.get_records().set_shard_iterator(shard.iterator.clone()).limit(READ_MAX).send();
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
            let last = records.last().map(|record| sequence_number(record).to_owned());
            self.spread(records, stop).await;
            if stop.is_set() {
                return Ok(Step::Idle);
            }
            shard.checkpoint = last;
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

    /// Hands all records to the function, lane by lane, until they are done or the signal to stop comes.
    async fn spread(&self, records: Vec<Record>, stop: &Stop) {
        let mut lanes: [Vec<Value>; LANES] = Default::default();
        for record in &records {
            let record = record_json(record, &self.stream_arn);
            lanes[lane(&record)].push(record);
        }
        let mut running = JoinSet::new();
        for lane in lanes.into_iter().filter(|lane| !lane.is_empty()) {
            running.spawn(self.clone().deliver(lane, stop.clone()));
        }
        while let Some(ended) = running.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a lane of the stream broke off");
            }
        }
    }

    /// Calls the function until all records of a lane are handled or the signal to stop comes.
    async fn deliver(self, mut records: Vec<Value>, mut stop: Stop) {
        let mut back_off = BackOff::default();
        while !records.is_empty() && !stop.is_set() {
            let batch = &records[..records.len().min(BATCH_MAX)];
            let (asked, handled) = (batch.len(), self.call(batch).await);
            self.counts.records.fetch_add(u64::try_from(handled).unwrap_or(0), Ordering::Relaxed);
            records.drain(..handled);
            if handled > 0 {
                back_off = BackOff::default();
            }
            if handled < asked {
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                stop.sleep(back_off.next()).await;
            }
        }
    }

    /// One call; answers how many records from the first on are done with.
    async fn call(&self, records: &[Value]) -> usize {
        let function = Arc::clone(&self.function);
        let event = json!({ "Records": records });
        match tokio::spawn(async move { function(event).await }).await {
            Ok(answer) => handled(records, &answer),
            Err(error) => {
                tracing::error!(%error, "the stream's function panicked: the whole batch is sent again");
                0
            }
        }
    }
}

/// The same for all changes of one item.
fn lane(record: &Value) -> usize {
    let keys = record["dynamodb"]["Keys"].as_object();
    let mut keys: Vec<String> = keys.into_iter().flatten().map(|(name, value)| format!("{name}={value}")).collect();
    keys.sort_unstable();
    let mut hasher = DefaultHasher::new();
    keys.hash(&mut hasher);
    usize::try_from(hasher.finish() % LANES as u64).unwrap_or(0)
}

/// How many records come before the first failed one. As Lambda does it, a failure that names no record
/// of the batch fails all of it.
#[must_use]
pub fn handled(records: &[Value], answer: &Value) -> usize {
    let number = |record: &Value| record["dynamodb"]["SequenceNumber"].as_str().map(str::to_owned);
    let failures = answer["batchItemFailures"].as_array();
    let failed = failures.into_iter().flatten().map(|failure| {
        let named = failure["itemIdentifier"].as_str()?;
        records.iter().position(|record| number(record).as_deref() == Some(named))
    });
    failed.map(|position| position.unwrap_or(0)).min().unwrap_or(records.len())
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
