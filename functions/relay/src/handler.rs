//! The table's stream: audit rows and order events. A record that makes no sense goes whole to the
//! dead letters; one that could not be delivered stops the batch there, so that order is kept.

use holdfast::{
    adapters::{
        dynamodb::{Database, Image, read_image, read_trace},
        sqs::Queues,
    },
    app::relay::{Change, MarkedStock, Relay},
    domain::{order::Stored, time::UnixMillis},
    lambda::Wiring,
    ports::{Fault, Messages},
    telemetry::{self, Metric},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub struct Handler {
    use_case: Relay<Database, Queues>,
    dead_letters: Queues,
}

/// A batch as Lambda hands it over, each record unread: one that cannot be read must not fail the
/// others.
#[derive(Debug, Default, Deserialize)]
pub struct StreamEvent {
    #[serde(rename = "Records", default)]
    pub records: Vec<Value>,
}

/// Which record to begin with next time; none when all are done.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamResponse {
    pub batch_item_failures: Vec<ItemFailure>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ItemFailure {
    /// The record's sequence number.
    pub item_identifier: String,
}

/// What a stream record says that matters here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    #[serde(rename = "eventID")]
    event_id: String,
    dynamodb: Images,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Images {
    /// Seconds since 1970, whole or not.
    #[serde(default)]
    approximate_creation_date_time: f64,
    new_image: Option<Value>,
    old_image: Option<Value>,
}

#[must_use]
pub fn handler(wiring: Wiring) -> Handler {
    let Wiring { database, queues, .. } = wiring;
    Handler { use_case: Relay { audit: database, messages: queues.clone() }, dead_letters: queues }
}

impl Handler {
    pub async fn handle(&self, event: StreamEvent) -> StreamResponse {
        let mut response = StreamResponse::default();
        for record in event.records {
            let trace = read_trace(&record["dynamodb"]["NewImage"]);
            if let Err(fault) = telemetry::traced(trace, self.relay(&record)).await {
                let number = sequence_number(&record);
                tracing::warn!(sequence_number = number, fault = fault.chain(), "record_failed");
                response.batch_item_failures.push(ItemFailure { item_identifier: number });
                break;
            }
        }
        response
    }

    async fn relay(&self, record: &Value) -> Result<(), Fault> {
        match read_change(record) {
            Ok(change) => self.use_case.run(change).await,
            Err(problem) => {
                telemetry::count(Metric::DeadRecords, 1);
                tracing::error!(sequence_number = sequence_number(record), problem, alarm = true, "poison_record");
                self.dead_letters.send_dead_letter(&record.to_string()).await
            }
        }
    }
}

fn sequence_number(record: &Value) -> String {
    record["dynamodb"]["SequenceNumber"].as_str().unwrap_or_default().to_owned()
}

/// # Errors
/// Why the record cannot be read.
fn read_change(record: &Value) -> Result<Change, String> {
    let Record { event_id, dynamodb } =
        Deserialize::deserialize(record).map_err(|e: serde_json::Error| e.to_string())?;
    let image = |image: Option<Value>| {
        let image = image.filter(|image| image.as_object().is_some_and(|fields| !fields.is_empty()));
        image.map(|image| read_image(&image)).transpose().map_err(|error| error.to_string())
    };
    let at = UnixMillis::from_seconds(dynamodb.approximate_creation_date_time);
    Ok(match (image(dynamodb.old_image)?, image(dynamodb.new_image)?) {
        (None, None) => return Err("neither image is there".to_owned()),
        (before @ (None | Some(Image::Stock(..))), after @ (None | Some(Image::Stock(..)))) => {
            Change::Stock { before: before.and_then(marked_stock), after: after.and_then(marked_stock), at, event_id }
        }
        (before, Some(Image::Order(after))) => match *after {
            Stored::Order(after) => {
                Change::Order { before: before.and_then(order).map(Box::new), after: Box::new(after) }
            }
            Stored::Aborted(_) => Change::Other,
        },
        (None, Some(Image::Refund(refund))) => Change::Refund(refund),
        _ => Change::Other,
    })
}

fn marked_stock(image: Image) -> Option<MarkedStock> {
    match image {
        Image::Stock(item, mark) => Some(MarkedStock { item, mark }),
        _ => None,
    }
}

fn order(image: Image) -> Option<holdfast::domain::order::Order> {
    match image {
        Image::Order(stored) => match *stored {
            Stored::Order(order) => Some(order),
            Stored::Aborted(_) => None,
        },
        _ => None,
    }
}
