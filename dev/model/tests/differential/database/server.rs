//! The local database, through the product's adapter and around it.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

use aws_config::Region;
use aws_sdk_dynamodb::{
    Client,
    config::Credentials,
    types::{AttributeValue, KeysAndAttributes, Select},
};
use holdfast::{
    adapters::{aws, dynamodb::Database},
    config::TableConfig,
    domain::order::{Status, Stored},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use servers::{Dynamodb, DynamodbOptions};

use crate::run::Met;

const TABLE: &str = "holdfast";
/// Long enough for calls that run at once to meet.
const LATENCY: Duration = Duration::from_millis(1);
/// Most keys of one read, by the service.
const KEYS_MAX: usize = 100;
/// Processes that call at once.
const OTHERS: usize = 4;

pub type Item = HashMap<String, AttributeValue>;
/// Partition and sort key.
pub type Key = (String, String);

pub struct Server {
    pub database: Database,
    client: Client,
    /// Of other processes, with connections of their own.
    pub others: Vec<Database>,
    pub met: Met,
    /// Runs as long as it is kept.
    _kept: Dynamodb,
}

async fn client(endpoint: &str) -> Client {
    let config = aws::loader()
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "tests"))
        .endpoint_url(endpoint)
        .load()
        .await;
    Client::new(&config)
}

fn database(client: Client) -> Database {
    Database::new(client, TableConfig { table: TABLE.to_owned(), audit_table: "holdfast-audit".to_owned() })
}

impl Server {
    /// A database; with conflicts it refuses transactions that meet, as AWS does, and takes some time.
    pub async fn start(conflicts: bool) -> Self {
        let server = Dynamodb::start(DynamodbOptions { latency: Duration::ZERO, conflicts }).await.unwrap();
        let client_of = client(server.endpoint()).await;
        let of_this = database(client_of.clone());
        of_this.create_tables().await.unwrap();
        let mut others = Vec::new();
        for _ in 0..OTHERS {
            others.push(database(client(server.endpoint()).await));
        }
        if conflicts {
            server.set_latency(LATENCY);
        }
        Self { database: of_this, client: client_of, others, met: Met::default(), _kept: server }
    }

    /// The items under these keys, as they are stored.
    pub async fn items(&self, keys: &BTreeSet<Key>) -> BTreeMap<Key, Item> {
        assert!(keys.len() <= KEYS_MAX);
        let key = |(pk, sk): &Key| Item::from([("pk".to_owned(), text(pk)), ("sk".to_owned(), text(sk))]);
        let wanted = KeysAndAttributes::builder().set_keys(Some(keys.iter().map(key).collect()));
        let wanted = wanted.consistent_read(true).build().unwrap();
        let got = self.client.batch_get_item().request_items(TABLE, wanted).send().await.unwrap();
        assert!(got.unprocessed_keys.is_none_or(|left| left.is_empty()));
        let found = got.responses.into_iter().flatten().flat_map(|(_, items)| items);
        found.map(|item| ((of(&item, "pk"), of(&item, "sk")), item)).collect()
    }

    pub async fn put(&self, item: Item) {
        self.client.put_item().table_name(TABLE).set_item(Some(item)).send().await.unwrap();
    }

    /// How many items the table has.
    pub async fn count(&self) -> usize {
        let scan = self.client.scan().table_name(TABLE).select(Select::Count).consistent_read(true);
        let (mut count, mut after) = (0, None);
        loop {
            let page = scan.clone().set_exclusive_start_key(after).send().await.unwrap();
            count += usize::try_from(page.count).unwrap();
            match page.last_evaluated_key.filter(|key| !key.is_empty()) {
                None => return count,
                Some(key) => after = Some(key),
            }
        }
    }
}

pub fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

pub fn number(number: impl Into<i64>) -> AttributeValue {
    AttributeValue::N(number.into().to_string())
}

/// A text, or the digits of a number; empty where there is neither.
pub fn of(item: &Item, name: &str) -> String {
    match item.get(name) {
        Some(AttributeValue::S(text) | AttributeValue::N(text)) => text.clone(),
        Some(AttributeValue::Bool(truth)) => truth.to_string(),
        _ => String::new(),
    }
}

fn plain(value: &AttributeValue) -> Value {
    match value {
        AttributeValue::S(text) => Value::String(text.clone()),
        AttributeValue::N(digits) => digits.parse::<i64>().map_or(Value::Null, Value::from),
        AttributeValue::Bool(truth) => Value::Bool(*truth),
        AttributeValue::L(values) => values.iter().map(plain).collect(),
        AttributeValue::M(fields) => fields.iter().map(|(name, value)| (name.clone(), plain(value))).collect(),
        _ => Value::Null,
    }
}

fn fields(item: &Item) -> Map<String, Value> {
    item.iter().map(|(name, value)| (name.clone(), plain(value))).collect()
}

fn read_as<T: DeserializeOwned>(item: &Item, fields: Map<String, Value>) -> Result<T, String> {
    if fields.get("format") != Some(&Value::from(1)) {
        return Err(format!("the format of {item:?}"));
    }
    serde_json::from_value(Value::Object(fields)).map_err(|error| format!("{error}: {item:?}"))
}

pub fn read<T: DeserializeOwned>(item: &Item) -> Result<T, String> {
    read_as(item, fields(item))
}

/// The order or tombstone that an item is.
pub fn read_order(item: &Item) -> Result<Stored, String> {
    if of(item, "status") == Status::Aborted.as_str() {
        return read(item).map(Stored::Aborted);
    }
    let home = of(item, "home").rsplit_once('#').and_then(|(_, home)| home.parse::<u16>().ok());
    let mut fields = fields(item);
    fields.insert("home".to_owned(), Value::from(home));
    read_as(item, fields).map(Stored::Order)
}
