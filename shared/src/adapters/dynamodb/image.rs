//! Items as the table's stream shows them.

use aws_sdk_dynamodb::types::AttributeValue;
use serde_json::{Map, Value};

use super::{
    codec::{BadItem, Item, decode, text_of},
    keys,
    orders::read_stored,
    stock::read_mark,
};
use crate::domain::{
    order::Stored,
    payment::RefundDue,
    stock::{ChangeMark, StockItem},
};
use crate::telemetry::Trace;

/// What one image of a stream record shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Image {
    Order(Box<Stored>),
    /// With the mark of the last change that the system made. Whether it is the mark of *this* change
    /// shows only in its version: a change behind the system's back leaves the old mark there.
    Stock(StockItem, Option<ChangeMark>),
    Refund(RefundDue),
    /// A guard, an activity, a job's progress: nothing that the relay follows.
    Other,
}

/// Reads an image in the stream's own form, `{"pk": {"S": "…"}, …}`.
///
/// # Errors
/// When it is of another format, or not what its key says.
pub fn read_image(image: &Value) -> Result<Image, BadItem> {
    let item = image.as_object().ok_or(BadItem::Type).and_then(untagged_map)?;
    match text_of(&item, keys::PK)?.split_once('#').map(|(kind, _)| kind) {
        Some("O") => read_stored(item).map(Box::new).map(Image::Order),
        Some("S") => {
            let mark = read_mark(&item);
            Ok(Image::Stock(decode(item)?, mark))
        }
        Some("F") => decode(item).map(Image::Refund),
        _ => Ok(Image::Other),
    }
}

/// The trace that the last write of this image's item belongs to, if it left one.
#[must_use]
pub fn read_trace(image: &Value) -> Option<Trace> {
    Trace::of_id(image[keys::TRACE]["S"].as_str()?)
}

fn untagged_map(fields: &Map<String, Value>) -> Result<Item, BadItem> {
    fields.iter().map(|(name, value)| Ok((name.clone(), untagged(value)?))).collect()
}

fn untagged(value: &Value) -> Result<AttributeValue, BadItem> {
    let (tag, value) = value.as_object().and_then(|tagged| tagged.iter().next()).ok_or(BadItem::Type)?;
    Ok(match (tag.as_str(), value) {
        ("S", Value::String(text)) => AttributeValue::S(text.clone()),
        ("N", Value::String(digits)) => AttributeValue::N(digits.clone()),
        ("BOOL", Value::Bool(truth)) => AttributeValue::Bool(*truth),
        ("L", Value::Array(values)) => AttributeValue::L(values.iter().map(untagged).collect::<Result<_, _>>()?),
        ("M", Value::Object(fields)) => AttributeValue::M(untagged_map(fields)?),
        _ => return Err(BadItem::Type),
    })
}
