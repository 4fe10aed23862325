//! One empty local server with the tables, and what the tests put there.

use std::collections::HashMap;

use aws_config::{Region, SdkConfig};
use aws_sdk_dynamodb::{Client, config::Credentials, types::AttributeValue};
use holdfast::{
    adapters::{aws, dynamodb::Database},
    config::TableConfig,
    domain::{
        activity::{Activity, ActivityDraft},
        cart::Cart,
        ids::{ActivityId, Bucket, BuyerId, Sku},
        limit::LimitScope,
        money::Quantity,
        order::{Order, Part, Placement},
        order_no::OrderNo,
        stock::{ChangeMark, Operation, StockItem},
        time::UnixMillis,
        token::TokenId,
    },
    ports::StockStore,
};
use serde_json::json;
use servers::{Control, Dynamodb, DynamodbOptions};

pub const TABLE: &str = "holdfast";
pub const AUDIT_TABLE: &str = "holdfast-audit";

pub struct World {
    pub server: Dynamodb,
    pub config: SdkConfig,
    pub client: Client,
    pub database: Database,
}

impl World {
    /// A server that refuses colliding transactions, as AWS does.
    pub async fn start() -> Self {
        Self::with(DynamodbOptions::default()).await
    }

    /// A server that takes colliding transactions one after another.
    pub async fn patient() -> Self {
        Self::with(DynamodbOptions { conflicts: false, ..DynamodbOptions::default() }).await
    }

    pub async fn with(options: DynamodbOptions) -> Self {
        let server = Dynamodb::start(options).await.unwrap();
        let config = config(server.endpoint()).await;
        let client = Client::new(&config);
        let database = database(client.clone());
        database.create_tables().await.unwrap();
        Self { server, config, client, database }
    }

    pub fn control(&self) -> &Control {
        self.server.control()
    }

    /// Puts units of a SKU on sale in a bucket.
    pub async fn open(&self, name: &str, bucket: u16, units: u64) -> StockItem {
        self.database.open_stock(&stock(name, bucket, units), &mark("open")).await.unwrap()
    }

    /// What is left of a SKU in a bucket, and its version.
    pub async fn left(&self, name: &str, bucket: u16) -> (u64, u64) {
        let items = self.database.bucket_stock(&sale(&[name]), Bucket::new(bucket).unwrap()).await.unwrap();
        (items[0].available, items[0].version)
    }

    /// Every item of the main table, by key.
    pub async fn all(&self) -> Vec<HashMap<String, AttributeValue>> {
        let mut pages = self.client.scan().table_name(TABLE).consistent_read(true).into_paginator().items().send();
        let mut items = Vec::new();
        while let Some(item) = pages.next().await {
            items.push(item.unwrap());
        }
        items.sort_by_key(|item| format!("{:?}{:?}", item["pk"], item["sk"]));
        items
    }

    /// The item under this key, as it is stored.
    pub async fn raw(&self, pk: &str, sk: &str) -> Option<HashMap<String, AttributeValue>> {
        let get = self.client.get_item().table_name(TABLE).consistent_read(true);
        get.key("pk", text(pk)).key("sk", text(sk)).send().await.unwrap().item
    }

    /// How many transactions were sent.
    pub fn transactions(&self) -> u64 {
        self.control().count("TransactWriteItems")
    }
}

/// When the first order of these tests is placed.
pub fn now() -> UnixMillis {
    UnixMillis::parse("now", "2026-11-29T20:00:00Z").unwrap()
}

/// What the functions use, at a local endpoint; its connections are its own.
pub async fn config(endpoint: &str) -> SdkConfig {
    aws::loader()
        .region(Region::from_static("eu-west-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "tests"))
        .endpoint_url(endpoint)
        .load()
        .await
}

pub fn database(client: Client) -> Database {
    Database::new(client, TableConfig { table: TABLE.to_owned(), audit_table: AUDIT_TABLE.to_owned() })
}

pub fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

pub fn activity_id() -> ActivityId {
    ActivityId::parse("sale").unwrap()
}

pub fn sku(name: &str) -> Sku {
    Sku::parse(name).unwrap()
}

pub fn bucket(index: u16) -> Bucket {
    Bucket::new(index).unwrap()
}

pub fn buyer(name: &str) -> BuyerId {
    BuyerId::parse(name).unwrap()
}

pub fn mark(reference: &str) -> ChangeMark {
    ChangeMark { operation: Operation::Manual, operator: "tests".to_owned(), reference: reference.to_owned() }
}

pub fn stock(name: &str, index: u16, units: u64) -> StockItem {
    StockItem {
        activity: activity_id(),
        sku: sku(name),
        bucket: bucket(index),
        allotted: units,
        available: units,
        version: 1,
        on_sale: true,
        changed_at: now(),
    }
}

/// An activity with 8 buckets and a limit per activity that sells these SKUs.
pub fn sale(names: &[&str]) -> Activity {
    let skus: Vec<_> = names.iter().map(|name| json!({"sku": name, "stock": 100, "price": 49_900})).collect();
    let draft: ActivityDraft = serde_json::from_value(json!({
        "name": "Phones", "starts_at": "2026-11-29T20:00:00Z", "ends_at": "2026-11-29T21:00:00Z",
        "time_zone": "Europe/Berlin", "strategy": "prededuct", "buckets": 8,
        "limit": {"scope": "activity", "max": 1}, "on_cancel": "release", "payment_minutes": 15,
        "currency": "EUR", "skus": skus
    }))
    .unwrap();
    Activity::create(activity_id(), draft).unwrap()
}

/// A buyer's submission number `submission`, of these SKUs, buckets and units.
pub fn order(buyer_name: &str, submission: u32, parts: &[(&str, u16, u32)]) -> Order {
    order_within(LimitScope::Activity, buyer_name, submission, parts)
}

pub fn order_within(scope: LimitScope, buyer_name: &str, submission: u32, parts: &[(&str, u16, u32)]) -> Order {
    let mut names: Vec<&str> = parts.iter().map(|(name, ..)| *name).collect();
    names.sort_unstable();
    names.dedup();
    let mut activity = sale(&names);
    activity.limit.scope = scope;
    let units = |name: &str| parts.iter().filter(|part| part.0 == name).map(|part| part.2).sum();
    let cart = Cart::new(names.iter().map(|name| (sku(name), Quantity::new(units(name)).unwrap()))).unwrap();
    let lines = cart.priced(&activity).unwrap();
    let mut id = [0; 16];
    id[..4].copy_from_slice(&submission.to_be_bytes());
    let number = OrderNo::derive(&activity.id, &buyer(buyer_name), &TokenId::from_bytes(id));
    let now = now().plus_ms(i64::from(submission));
    let placement = Placement::admit(&activity, number, buyer(buyer_name), &cart, lines, now);
    let part = |part: &(&str, u16, u32)| Part { sku: sku(part.0), bucket: bucket(part.1), units: part.2 };
    placement.into_order(parts.iter().map(part).collect())
}
