//! What calls of the database cost, as dynoxide counts it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use serde_json::{Value, json};

/// Capacity units by operation, once it is started: every call is asked what it cost.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    on: AtomicBool,
    units: Mutex<BTreeMap<String, f64>>,
}

impl Meter {
    pub fn start(&self) {
        self.on.store(true, Ordering::Relaxed);
    }

    /// The request, with the question what it costs.
    pub fn ask(&self, operation: &str, body: Bytes) -> Bytes {
        const METERED: [&str; 9] = [
            "BatchGetItem",
            "BatchWriteItem",
            "DeleteItem",
            "GetItem",
            "PutItem",
            "Query",
            "Scan",
            "TransactWriteItems",
            "UpdateItem",
        ];
        if !self.on.load(Ordering::Relaxed) || !METERED.contains(&operation) {
            return body;
        }
        let Ok(Value::Object(mut request)) = serde_json::from_slice(&body) else { return body };
        request.insert("ReturnConsumedCapacity".to_owned(), json!("TOTAL"));
        Value::Object(request).to_string().into()
    }

    /// Adds up what the answer says.
    pub fn note(&self, operation: &str, answer: &Bytes) {
        if !self.on.load(Ordering::Relaxed) {
            return;
        }
        let Ok(answer) = serde_json::from_slice::<Value>(answer) else { return };
        let tables = match &answer["ConsumedCapacity"] {
            Value::Array(tables) => tables.clone(),
            Value::Null => return,
            one => vec![one.clone()],
        };
        let units: f64 = tables.iter().filter_map(|table| table["CapacityUnits"].as_f64()).sum();
        *self.lock().entry(operation.to_owned()).or_default() += units;
    }

    pub fn units(&self) -> BTreeMap<String, f64> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, f64>> {
        self.units.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
