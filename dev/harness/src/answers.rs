//! Answers against what a file of `events/` expects: of a handler in this process, or of a function that
//! a runtime ran.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use lambda_http::{Body, Response};
use serde_json::{Value, json};

use crate::{Backend, contract::Contract, events::Case};

/// Why an answer is not the expected one.
pub type Wrong = String;

/// What an HTTP function answered.
#[derive(Clone, Debug)]
pub struct HttpAnswer {
    pub status: u16,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

impl From<&Response<Body>> for HttpAnswer {
    fn from(response: &Response<Body>) -> Self {
        let text = |value: &lambda_http::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        Self {
            status: response.status().as_u16(),
            headers: response.headers().iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
            body: AsRef::<[u8]>::as_ref(response.body()).to_vec(),
        }
    }
}

impl HttpAnswer {
    /// From what the runtime hands to an HTTP API.
    ///
    /// # Errors
    /// When it is not of that form: a function that failed answers otherwise.
    pub fn read(answer: &Value) -> Result<Self, Wrong> {
        let status = answer["statusCode"].as_u64().and_then(|status| u16::try_from(status).ok());
        let status = status.ok_or_else(|| format!("not an answer to HTTP: {answer}"))?;
        // The contract knows none that is not text.
        if answer["isBase64Encoded"] == true {
            return Err("the body is not text".to_owned());
        }
        let headers = answer["headers"].as_object().into_iter().flatten();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Self {
            status,
            headers: headers.map(|(name, value)| (name.to_lowercase(), text(value))).collect(),
            body: text(&answer["body"]).into_bytes(),
        })
    }
}

/// The answer of a handler or function that must be as the file expects, and what it left in the backend.
///
/// # Errors
/// What is not.
pub async fn check(contract: &Contract, case: &Case, backend: &Backend, answer: &Value) -> Result<(), Wrong> {
    let expected = &case.expected;
    if expected.get("statusCode").is_some() {
        return check_http(contract, case, &HttpAnswer::read(answer)?);
    }
    let succeeds = answer.get("errorMessage").is_none();
    if let Some(asked) = expected.get("succeeds") {
        if *asked != succeeds {
            return Err(format!("succeeds: {succeeds}; it answered {answer}"));
        }
        return at_least(answer, expected.get("report").unwrap_or(&Value::Null));
    }
    if expected.get("batchItemFailures").is_none() {
        return Err("the file expects nothing that is known here".to_owned());
    }
    if answer["batchItemFailures"] != expected["batchItemFailures"] {
        return Err(format!("it answered {answer}, not {}", expected["batchItemFailures"]));
    }
    match expected.get("audit") {
        Some(rows) => check_relayed(expected, rows, backend).await,
        None => Ok(()),
    }
}

/// Status, code and the fields of the body that are expected, and the answer as a whole against the contract.
///
/// # Errors
/// What of it is another.
pub fn check_http(contract: &Contract, case: &Case, answer: &HttpAnswer) -> Result<(), Wrong> {
    let text = String::from_utf8_lossy(&answer.body);
    let body: Value = serde_json::from_str(&text).unwrap_or_else(|_| json!(text));
    let expected = &case.expected;
    if json!(answer.status) != expected["statusCode"] {
        return Err(format!("{}, not {}: {body}", answer.status, expected["statusCode"]));
    }
    if let Some(code) = expected.get("code").filter(|code| body["code"] != **code) {
        return Err(format!("{}, not {code}: {body}", body["code"]));
    }
    at_least(&body, expected.get("body").unwrap_or(&Value::Null))?;
    let route = case.event["routeKey"].as_str().ok_or("the event has no route")?;
    let header = |name: &str| answer.headers.get(&name.to_lowercase()).cloned();
    contract.check_parts(route, answer.status, &header, &answer.body)
}

fn at_least(value: &Value, expected: &Value) -> Result<(), Wrong> {
    if expected.is_null() || contains(value, expected) {
        return Ok(());
    }
    Err(format!("{value} lacks some of {expected}"))
}

/// Whether a value has at least these fields with these values; lists must be the same length, and where no
/// field at all is expected there must be none.
#[must_use]
pub fn contains(value: &Value, expected: &Value) -> bool {
    match (value, expected) {
        (Value::Object(fields), Value::Object(expected)) => {
            expected.is_empty() == fields.is_empty()
                && expected
                    .iter()
                    .all(|(name, expected)| fields.get(name).is_some_and(|value| contains(value, expected)))
        }
        (Value::Array(values), Value::Array(expected)) => {
            values.len() == expected.len() && values.iter().zip(expected).all(|(value, other)| contains(value, other))
        }
        _ => value == expected,
    }
}

/// Audit rows, order events and dead letters, looked up where they must have landed.
async fn check_relayed(expected: &Value, rows: &Value, backend: &Backend) -> Result<(), Wrong> {
    let found = audit_rows(backend).await?;
    let rows = rows.as_array().ok_or("audit is not a list")?;
    if found.len() != rows.len() || !rows.iter().all(|row| found.iter().any(|found| contains(found, row))) {
        return Err(format!("audit rows: {found:?}, not {rows:?}"));
    }
    let queues = &backend.queues;
    for (what, url, pointer) in [
        ("events", &queues.fulfilment_url, "/event_id"),
        ("deadLetters", &queues.dead_letter_url, "/dynamodb/SequenceNumber"),
    ] {
        let bodies = bodies(backend, url.as_deref().unwrap_or_default()).await?;
        let found = bodies.iter().map(|body| body.pointer(pointer).cloned().unwrap_or_default());
        let (found, asked) = (sorted(found), sorted(expected[what].as_array().cloned().unwrap_or_default()));
        if found != asked {
            return Err(format!("{what}: {found:?}, not {asked:?}"));
        }
    }
    Ok(())
}

fn sorted(values: impl IntoIterator<Item = Value>) -> Vec<String> {
    let mut texts: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    texts.sort();
    texts
}

/// The audit table as the files describe its rows.
async fn audit_rows(backend: &Backend) -> Result<Vec<Value>, Wrong> {
    let scan = backend.sdk.dynamodb.scan().table_name(&backend.sdk.tables.audit_table).consistent_read(true);
    let items = scan.send().await.map_err(|error| format!("the audit table: {error}"))?.items.unwrap_or_default();
    let text = |value: Option<&AttributeValue>| value.and_then(|value| value.as_s().ok()).cloned();
    let number = |value: Option<&AttributeValue>| value.and_then(|value| value.as_n().ok()?.parse::<u64>().ok());
    let rows = items.iter().map(|item| {
        let available = |name: &str| {
            let image = item.get(name).and_then(|value| value.as_m().ok());
            image.and_then(|image| number(image.get("available")))
        };
        json!({
            "sku": text(item.get("sku")), "bucket": number(item.get("bucket")), "version": number(item.get("version")),
            "operation": text(item.get("operation")), "before": available("before"), "after": available("after")
        })
    });
    Ok(rows.collect())
}

/// Every message of a queue, read once: all are there when the function has answered.
async fn bodies(backend: &Backend, url: &str) -> Result<Vec<Value>, Wrong> {
    let mut bodies = Vec::new();
    loop {
        let receive = backend.sdk.sqs.receive_message().queue_url(url).max_number_of_messages(10);
        let answer = receive.send().await.map_err(|error| format!("{url}: {error}"))?;
        let messages = answer.messages.unwrap_or_default();
        if messages.is_empty() {
            return Ok(bodies);
        }
        for message in messages {
            let body = serde_json::from_str(message.body().unwrap_or_default());
            bodies.push(body.map_err(|error| format!("{url} has a message that is not JSON: {error}"))?);
        }
    }
}
