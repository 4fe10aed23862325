//! Stream records in the form that a function gets them.

use std::collections::HashMap;

use aws_sdk_dynamodbstreams::primitives::Blob;
use aws_sdk_dynamodbstreams::types::{AttributeValue, Record, StreamRecord};
use data_encoding::BASE64;
use serde_json::{Map, Value, json};

/// The number by which a record is named in an answer.
#[must_use]
pub fn sequence_number(record: &Record) -> &str {
    record.dynamodb.as_ref().and_then(StreamRecord::sequence_number).unwrap_or("")
}

/// A record as the event source mapping writes it.
#[must_use]
pub fn record_json(record: &Record, stream_arn: &str) -> Value {
    let change = record.dynamodb.as_ref();
    let mut body = Map::new();
    if let Some(change) = change {
        if let Some(time) = change.approximate_creation_date_time {
            body.insert("ApproximateCreationDateTime".to_owned(), json!(time.as_secs_f64()));
        }
        for (name, image) in [("Keys", &change.keys), ("NewImage", &change.new_image), ("OldImage", &change.old_image)]
        {
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
    let base64 = |blob: &Blob| BASE64.encode(blob.as_ref());
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
