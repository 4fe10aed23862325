//! Conflicts between transactions, which dynoxide does not know.
//!
//! Rules: <https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html>,
//! "Transaction conflict handling". A transaction locks its items from its arrival until it has
//! been applied; whoever comes meanwhile is refused and locks nothing.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use serde_json::{Value, json};

use crate::front::{Refusal, Reply, json_reply};

/// Finds the names of a table's key attributes; `None` for a table that does not exist.
pub(crate) type KeyNames = Box<dyn Fn(&str) -> Option<Vec<String>> + Send + Sync>;

/// A table and the primary key of an item. Numbers are compared as they are written.
type Item = (String, Vec<String>);

/// The items that transactions in flight have locked.
pub(crate) struct Conflicts {
    key_names: KeyNames,
    known: Mutex<HashMap<String, Vec<String>>>,
    locked: Arc<Mutex<Locked>>,
}

#[derive(Default)]
struct Locked {
    items: HashSet<Item>,
    tokens: HashSet<String>,
}

/// The locks of one call, released on drop. A call that locks nothing has an empty one.
#[derive(Default)]
pub(crate) struct Admission {
    items: Vec<Item>,
    token: Option<String>,
    locked: Option<Arc<Mutex<Locked>>>,
}

impl Drop for Admission {
    fn drop(&mut self) {
        let Some(locked) = &self.locked else { return };
        let mut locked = lock(locked);
        for item in &self.items {
            locked.items.remove(item);
        }
        if let Some(token) = &self.token {
            locked.tokens.remove(token);
        }
    }
}

impl Conflicts {
    pub fn new(key_names: KeyNames) -> Self {
        Self { key_names, known: Mutex::default(), locked: Arc::default() }
    }

    /// Whether an operation can be refused for a conflict.
    pub fn concern(operation: &str) -> bool {
        matches!(operation, "TransactWriteItems" | "TransactGetItems" | "PutItem" | "UpdateItem" | "DeleteItem")
    }

    /// Locks the items of a transaction, or refuses a call that touches a locked item. A body
    /// that cannot be read is admitted: dynoxide has the right answer for it.
    pub fn admit(&self, operation: &str, body: &[u8]) -> Result<Admission, Refusal> {
        if operation == "DeleteTable" {
            // A table of that name may come back with other keys.
            lock(&self.known).clear();
        }
        if !Self::concern(operation) {
            return Ok(Admission::default());
        }
        let Ok(body) = serde_json::from_slice::<Value>(body) else {
            return Ok(Admission::default());
        };
        match operation {
            "TransactWriteItems" => self.admit_transaction(&body),
            "TransactGetItems" => {
                let items = self.items(&body);
                let overlaps = overlaps(&lock(&self.locked), &items);
                refuse_overlaps(&overlaps).map_or_else(|| Ok(Admission::default()), Err)
            }
            _ => match self.item(&body) {
                Some(item) if lock(&self.locked).items.contains(&item) => Err(Box::new(conflict())),
                _ => Ok(Admission::default()),
            },
        }
    }

    fn admit_transaction(&self, body: &Value) -> Result<Admission, Refusal> {
        let items = self.items(body);
        let token = body["ClientRequestToken"].as_str().map(str::to_owned);
        let mut locked = lock(&self.locked);
        if token.as_ref().is_some_and(|token| locked.tokens.contains(token)) {
            return Err(Box::new(in_progress()));
        }
        if let Some(refusal) = refuse_overlaps(&overlaps(&locked, &items)) {
            return Err(refusal);
        }
        let items: Vec<Item> = items.into_iter().flatten().collect();
        locked.items.extend(items.iter().cloned());
        locked.tokens.extend(token.clone());
        Ok(Admission { items, token, locked: Some(Arc::clone(&self.locked)) })
    }

    /// The items of a transaction in the order of its actions.
    fn items(&self, body: &Value) -> Vec<Option<Item>> {
        actions(body).map(|action| self.item(action)).collect()
    }

    /// The item that an action or a plain write is about.
    fn item(&self, action: &Value) -> Option<Item> {
        // A table may be named by its ARN, which ends in `table/<name>`.
        let table = action["TableName"].as_str()?.rsplit('/').next()?;
        let attributes = action.get("Key").or_else(|| action.get("Item"))?;
        let key = self
            .names(table)?
            .iter()
            .map(|name| attributes.get(name).map(Value::to_string))
            .collect::<Option<Vec<_>>>()?;
        Some((table.to_owned(), key))
    }

    fn names(&self, table: &str) -> Option<Vec<String>> {
        if let Some(names) = lock(&self.known).get(table) {
            return Some(names.clone());
        }
        let names = (self.key_names)(table)?;
        lock(&self.known).insert(table.to_owned(), names.clone());
        Some(names)
    }
}

/// The answer to a call as if each of its items was locked by another transaction.
pub(crate) fn refuse_all(operation: &str, body: &[u8]) -> Reply {
    if !operation.starts_with("Transact") {
        return conflict();
    }
    let body = serde_json::from_slice::<Value>(body).unwrap_or_default();
    // A transaction that cannot be read has at least one action as far as a client can tell.
    let count = actions(&body).count().max(1);
    canceled(&vec![true; count])
}

/// The content of each action: `{"Put": {…}}` is one, and so is `{"Get": {…}}`.
fn actions(body: &Value) -> impl Iterator<Item = &Value> {
    static NULL: Value = Value::Null;
    let actions = body["TransactItems"].as_array();
    actions.into_iter().flatten().map(|action| {
        let only = action.as_object().and_then(|fields| fields.values().next());
        only.unwrap_or(&NULL)
    })
}

fn overlaps(locked: &Locked, items: &[Option<Item>]) -> Vec<bool> {
    let is_locked = |item: &Option<Item>| item.as_ref().is_some_and(|i| locked.items.contains(i));
    items.iter().map(is_locked).collect()
}

fn refuse_overlaps(overlaps: &[bool]) -> Option<Refusal> {
    let refused = overlaps.contains(&true);
    refused.then(|| Box::new(canceled(overlaps)))
}

/// What AWS answers to a transaction of which the marked actions overlap with another one.
fn canceled(overlaps: &[bool]) -> Reply {
    let code = |overlap: bool| if overlap { "TransactionConflict" } else { "None" };
    let codes: Vec<_> = overlaps.iter().map(|overlap| code(*overlap)).collect();
    let reasons: Vec<_> = overlaps
        .iter()
        .map(|overlap| {
            let mut reason = BTreeMap::from([("Code", code(*overlap))]);
            if *overlap {
                reason.insert("Message", "Transaction is ongoing for the item");
            }
            reason
        })
        .collect();
    let message =
        format!("Transaction cancelled, please refer cancellation reasons for specific reasons [{}]", codes.join(", "));
    json_reply(
        StatusCode::BAD_REQUEST,
        &json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "message": message,
            "CancellationReasons": reasons,
        }),
    )
}

/// What AWS answers to a plain write of an item in a transaction.
fn conflict() -> Reply {
    json_reply(
        StatusCode::BAD_REQUEST,
        &json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionConflictException",
            "message": "Transaction is ongoing for the item",
        }),
    )
}

/// What AWS answers to a transaction that is sent again while it is in flight. That happens when
/// a client gives up waiting and tries again with the same client request token.
fn in_progress() -> Reply {
    json_reply(
        StatusCode::BAD_REQUEST,
        &json!({
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionInProgressException",
            "Message": "The transaction with the given request token is already in progress.",
        }),
    )
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is complete before anything can panic, so a poisoned state is sound.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
