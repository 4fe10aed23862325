//! The tables, scanned whole.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::AttributeValue;
use harness::Clients;
use holdfast::domain::order::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::snapshot::{ActivityFacts, AuditRow, Guard, Snapshot, Stock, StockKey, StoredOrder};
use crate::pollers::explain;

type Item = HashMap<String, AttributeValue>;

#[derive(Deserialize)]
struct ActivityItem {
    id: String,
    buckets: u16,
    strategy: String,
    on_cancel: String,
    limit: LimitItem,
    #[serde(default = "exact")]
    admission_ratio: u64,
    skus: Vec<OfferItem>,
}

const fn exact() -> u64 {
    1_000
}

#[derive(Deserialize)]
struct LimitItem {
    max: u64,
}

#[derive(Deserialize)]
struct OfferItem {
    sku: String,
    stock: u64,
}

#[derive(Deserialize)]
struct OrderItem {
    order_no: String,
    activity: String,
    status: Status,
    buyer: Option<String>,
    take: Option<u8>,
    /// `activity#bucket`.
    home: Option<String>,
    #[serde(default)]
    lines: Vec<LineItem>,
    #[serde(default)]
    parts: Vec<PartItem>,
    #[serde(default)]
    charges: Vec<ChargeItem>,
    coupon: Option<CouponItem>,
    ended_by: Option<EndedBy>,
}

#[derive(Deserialize)]
struct EndedBy {
    quota_kept: bool,
}

#[derive(Deserialize)]
struct CouponItem {
    code: String,
}

#[derive(Deserialize)]
struct CouponUse {
    order_no: Option<String>,
}

#[derive(Deserialize)]
struct LineItem {
    sku: String,
    quantity: u32,
}

#[derive(Deserialize)]
struct PartItem {
    sku: String,
    bucket: u16,
    units: u32,
}

#[derive(Deserialize)]
struct ChargeItem {
    scope: String,
    units: u32,
}

#[derive(Deserialize)]
struct GuardItem {
    units: u64,
    orders: Vec<GuardedItem>,
}

#[derive(Deserialize)]
struct GuardedItem {
    order_no: String,
}

#[derive(Deserialize)]
struct StockItem {
    activity: String,
    sku: String,
    bucket: u16,
    allotted: u64,
    available: i64,
    version: u64,
}

#[derive(Deserialize)]
struct AuditItem {
    activity: String,
    sku: String,
    bucket: u16,
    version: u64,
    before: Option<StockItem>,
    after: Option<StockItem>,
    operation: Option<String>,
    #[serde(default)]
    reference: String,
}

impl StockItem {
    fn stock(&self) -> Stock {
        Stock { allotted: self.allotted, available: self.available, version: self.version }
    }
}

/// Everything but the gate; `None` when there is no such activity.
pub(super) async fn read(sdk: &Clients, activity: &str) -> Result<Option<Snapshot>, String> {
    let (mut snapshot, mut found) = (Snapshot::default(), false);
    let (guards, coupons) = (format!("B#{activity}#"), format!("C#{activity}#"));
    for item in scan(sdk, &sdk.tables.table).await? {
        let (pk, sk) = (key(&item, "pk")?, key(&item, "sk")?);
        if pk == "A" && sk == activity {
            snapshot.activity = facts(decode(&pk, item)?);
            found = true;
        } else if pk.starts_with("O#") {
            let order: OrderItem = decode(&pk, item)?;
            if order.activity == activity {
                snapshot.orders.insert(order.order_no.clone(), stored(order));
            }
        } else if pk.starts_with("S#") {
            let stock: StockItem = decode(&pk, item)?;
            if stock.activity == activity {
                snapshot.stock.insert((stock.sku.clone(), stock.bucket), stock.stock());
            }
        } else if let Some(buyer) = pk.strip_prefix(&guards) {
            let guard: GuardItem = decode(&pk, item)?;
            snapshot.guards.push(Guard {
                buyer: buyer.to_owned(),
                scope: sk.strip_prefix("G#").unwrap_or(&sk).to_owned(),
                units: guard.units,
                orders: guard.orders.into_iter().map(|guarded| guarded.order_no).collect(),
            });
        } else if let Some(code) = pk.strip_prefix(&coupons) {
            let used: CouponUse = decode(&pk, item)?;
            snapshot.coupons.insert(code.to_owned(), used.order_no);
        }
    }
    if !found {
        return Ok(None);
    }
    snapshot.audit = audit(sdk, activity).await?;
    Ok(Some(snapshot))
}

/// What is left per stock item.
pub(super) async fn available(sdk: &Clients, activity: &str) -> Result<BTreeMap<StockKey, i64>, String> {
    let items = scan(sdk, &sdk.tables.table).await?;
    let prefix = format!("S#{activity}#");
    let mut available = BTreeMap::new();
    for item in items {
        let pk = key(&item, "pk")?;
        if pk.starts_with(&prefix) {
            let stock: StockItem = decode(&pk, item)?;
            available.insert((stock.sku, stock.bucket), stock.available);
        }
    }
    Ok(available)
}

async fn audit(sdk: &Clients, activity: &str) -> Result<BTreeMap<StockKey, Vec<AuditRow>>, String> {
    let mut rows: BTreeMap<StockKey, Vec<AuditRow>> = BTreeMap::new();
    for item in scan(sdk, &sdk.tables.audit_table).await? {
        let row: AuditItem = decode(&key(&item, "pk")?, item)?;
        if row.activity == activity {
            rows.entry((row.sku, row.bucket)).or_default().push(AuditRow {
                version: row.version,
                before: row.before.as_ref().map(StockItem::stock),
                after: row.after.as_ref().map(StockItem::stock),
                operation: row.operation,
                reference: row.reference,
            });
        }
    }
    for rows in rows.values_mut() {
        rows.sort_by_key(|row| row.version);
    }
    Ok(rows)
}

fn facts(item: ActivityItem) -> ActivityFacts {
    ActivityFacts {
        id: item.id,
        buckets: item.buckets,
        uses_gate: item.strategy != "cas",
        limit_max: item.limit.max,
        admission_ratio: item.admission_ratio,
        keeps_quota: item.on_cancel == "keep",
        offered: item.skus.into_iter().map(|offer| (offer.sku, offer.stock)).collect(),
    }
}

fn stored(item: OrderItem) -> StoredOrder {
    let mut parts: BTreeMap<StockKey, u32> = BTreeMap::new();
    for part in item.parts {
        *parts.entry((part.sku, part.bucket)).or_default() += part.units;
    }
    StoredOrder {
        status: item.status,
        take: item.take.unwrap_or(0),
        buyer: item.buyer,
        home: item.home.and_then(|home| home.rsplit_once('#')?.1.parse().ok()),
        lines: item.lines.into_iter().map(|line| (line.sku, line.quantity)).collect(),
        parts,
        charges: item.charges.into_iter().map(|charge| (charge.scope, charge.units)).collect(),
        coupon: item.coupon.map(|coupon| coupon.code),
        quota_kept: item.ended_by.map(|ended| ended.quota_kept),
    }
}

async fn scan(sdk: &Clients, table: &str) -> Result<Vec<Item>, String> {
    let mut items = Vec::new();
    let mut after = None;
    loop {
        let scan = sdk.dynamodb.scan().table_name(table).consistent_read(true).set_exclusive_start_key(after);
        let page = scan.send().await.map_err(explain)?;
        items.extend(page.items.unwrap_or_default());
        after = page.last_evaluated_key;
        if after.is_none() {
            return Ok(items);
        }
    }
}

fn key(item: &Item, name: &str) -> Result<String, String> {
    let text = item.get(name).and_then(|value| value.as_s().ok());
    text.cloned().ok_or_else(|| format!("an item has no {name}"))
}

fn decode<T: DeserializeOwned>(pk: &str, item: Item) -> Result<T, String> {
    let fields = item.into_iter().map(|(name, value)| Some((name, plain(value)?)));
    let fields: Option<serde_json::Map<String, Value>> = fields.collect();
    let fields = fields.ok_or_else(|| format!("{pk} has an attribute of a strange type"))?;
    serde_json::from_value(Value::Object(fields)).map_err(|error| format!("{pk} cannot be read: {error}"))
}

fn plain(value: AttributeValue) -> Option<Value> {
    Some(match value {
        AttributeValue::S(text) => Value::String(text),
        AttributeValue::N(digits) => Value::Number(digits.parse().ok()?),
        AttributeValue::Bool(truth) => Value::Bool(truth),
        AttributeValue::Null(_) => Value::Null,
        AttributeValue::L(values) => Value::Array(values.into_iter().map(plain).collect::<Option<_>>()?),
        AttributeValue::M(fields) => {
            let fields = fields.into_iter().map(|(name, value)| Some((name, plain(value)?)));
            Value::Object(fields.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
