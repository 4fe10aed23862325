//! Values as attributes and back. Attributes are named as the domain names its fields and hold plain
//! text, whole numbers, lists and maps, so that an item can be read by a person.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Number, Value};

use super::keys;
use crate::domain::{FORMAT, readable};

/// An item as the SDK has it.
pub type Item = HashMap<String, AttributeValue>;

/// An item that this version cannot read or write. A person is needed.
#[derive(Debug, thiserror::Error)]
pub enum BadItem {
    #[error("the attribute {0} is missing or is of another type")]
    Attribute(&'static str),
    #[error("the format {0} is not one that this version reads")]
    Format(u64),
    #[error("a value is neither text, whole number, truth value, list nor map")]
    Type,
    #[error("the attributes do not make what they should")]
    Content(#[source] serde_json::Error),
    #[error("a request cannot be built of it")]
    Request(#[from] aws_sdk_dynamodb::error::BuildError),
}

/// The value's fields as attributes, with the format that this version writes.
pub fn encode<T: Serialize>(value: &T) -> Result<Item, BadItem> {
    let Value::Object(fields) = serde_json::to_value(value).map_err(BadItem::Content)? else {
        return Err(BadItem::Type);
    };
    let mut item = attributes(fields)?;
    item.insert(keys::FORMAT.to_owned(), number(FORMAT));
    Ok(item)
}

/// The value whose fields these attributes are; others are ignored.
pub fn decode<T: DeserializeOwned>(item: Item) -> Result<T, BadItem> {
    check_format(&item)?;
    serde_json::from_value(plain_fields(item)?).map_err(BadItem::Content)
}

/// Refuses an item that was written in another format: what its attributes mean is not known then.
pub fn check_format(item: &Item) -> Result<(), BadItem> {
    let format = whole(item, keys::FORMAT)?;
    if u32::try_from(format).is_ok_and(readable) { Ok(()) } else { Err(BadItem::Format(format)) }
}

/// One value as an attribute.
pub fn attribute_of<T: Serialize>(value: &T) -> Result<AttributeValue, BadItem> {
    attribute(serde_json::to_value(value).map_err(BadItem::Content)?)
}

pub fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub fn number(value: impl Into<i128>) -> AttributeValue {
    AttributeValue::N(value.into().to_string())
}

pub fn text_of<'a>(item: &'a Item, name: &'static str) -> Result<&'a str, BadItem> {
    item.get(name).and_then(|value| value.as_s().ok()).map(String::as_str).ok_or(BadItem::Attribute(name))
}

pub fn whole(item: &Item, name: &'static str) -> Result<u64, BadItem> {
    let digits = item.get(name).and_then(|value| value.as_n().ok());
    digits.and_then(|digits| digits.parse().ok()).ok_or(BadItem::Attribute(name))
}

pub fn truth(item: &Item, name: &'static str) -> Result<bool, BadItem> {
    item.get(name).and_then(|value| value.as_bool().ok()).copied().ok_or(BadItem::Attribute(name))
}

fn attributes(fields: Map<String, Value>) -> Result<Item, BadItem> {
    fields
        .into_iter()
        // What is not known is left out, not stored as null.
        .filter(|(_, value)| !value.is_null())
        .map(|(name, value)| Ok((name, attribute(value)?)))
        .collect()
}

fn attribute(value: Value) -> Result<AttributeValue, BadItem> {
    Ok(match value {
        Value::String(text) => AttributeValue::S(text),
        Value::Number(number) if !number.is_f64() => AttributeValue::N(number.to_string()),
        Value::Bool(truth) => AttributeValue::Bool(truth),
        Value::Array(values) => AttributeValue::L(values.into_iter().map(attribute).collect::<Result<_, _>>()?),
        Value::Object(fields) => AttributeValue::M(attributes(fields)?),
        Value::Number(_) | Value::Null => return Err(BadItem::Type),
    })
}

fn plain_fields(fields: Item) -> Result<Value, BadItem> {
    let fields = fields.into_iter().map(|(name, value)| Ok((name, plain(value)?)));
    fields.collect::<Result<_, BadItem>>().map(Value::Object)
}

fn plain(value: AttributeValue) -> Result<Value, BadItem> {
    Ok(match value {
        AttributeValue::S(text) => Value::String(text),
        AttributeValue::N(digits) => {
            let unsigned = digits.parse::<u64>().map(Number::from);
            let number = unsigned.or_else(|_| digits.parse::<i64>().map(Number::from));
            Value::Number(number.map_err(|_| BadItem::Type)?)
        }
        AttributeValue::Bool(truth) => Value::Bool(truth),
        AttributeValue::L(values) => Value::Array(values.into_iter().map(plain).collect::<Result<_, _>>()?),
        AttributeValue::M(fields) => plain_fields(fields)?,
        _ => return Err(BadItem::Type),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn plain_values_survive_and_floats_and_nulls_are_not_stored() {
        let value = json!({"text": "ü", "most": u64::MAX, "least": i64::MIN, "yes": true, "list": [1, {"a": "b"}, []]});
        let item = encode(&value).unwrap();
        assert_eq!(item["most"], AttributeValue::N("18446744073709551615".to_owned()));
        let mut expected = value;
        expected["format"] = json!(1);
        assert_eq!(decode::<Value>(item).unwrap(), expected);
        assert!(matches!(encode(&json!({"price": 1.5})), Err(BadItem::Type)));
        assert!(!encode(&json!({"none": null})).unwrap().contains_key("none"));
        assert!(matches!(encode(&json!([])), Err(BadItem::Type)));
    }

    #[test]
    fn another_format_is_refused_before_anything_is_read() {
        for format in [number(2), number(0), number(-1), text("1"), AttributeValue::N("1.5".to_owned())] {
            let item = Item::from([("format".to_owned(), format)]);
            assert!(decode::<Value>(item).is_err());
        }
        assert!(matches!(decode::<Value>(Item::new()), Err(BadItem::Attribute("format"))));
        let float = Item::from([("format".to_owned(), number(1)), ("x".to_owned(), AttributeValue::N("1.5".into()))]);
        assert!(matches!(decode::<Value>(float), Err(BadItem::Type)));
    }
}
