//! Orders written straight into both stores, and what is wrong with some of them.

use std::collections::{BTreeMap, HashMap};

use aws_sdk_dynamodb::types::{AttributeValue, PutRequest, WriteRequest};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use harness::{Backend, events, sample};
use holdfast::adapters::redis::keys::{BucketKeys, mark_field};
use holdfast::domain::activity::Activity;
use holdfast::domain::cart::Cart;
use holdfast::domain::ids::{Bucket, BuyerId, Sku};
use holdfast::domain::money::Quantity;
use holdfast::domain::order::{Order, Part, Placement, Status, Take};
use holdfast::domain::order_no::OrderNo;
use holdfast::domain::record::{Record, Side};
use holdfast::domain::repair::Finding;
use holdfast::domain::stock::{ChangeMark, Operation, StockItem};
use holdfast::domain::time::UnixMillis;
use holdfast::domain::token::TokenId;
use holdfast::ports::{
    AuditRow, AuditStore as _, Clock as _, OrderGate as _, OrderStore as _, PlaceCall, StockStore as _, SystemClock,
};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};

use super::Size;
use crate::stack::StartError;

/// Items of one `BatchWriteItem`, by the service.
const BATCH: usize = 25;
/// Batches under way at once.
const PARALLEL: usize = 2;
/// How often a batch is written: the local server may not answer in time when the machine is busy.
const TRIES: usize = 10;
/// How old all of it is, in milliseconds: past every grace.
const AGE_MS: i64 = 600_000;
/// One order in so many has each kind of difference.
const ONE_IN: u32 = 400;
/// By how much the planted counters are off.
const OFF_BY: i64 = 5;

type Planted = BTreeMap<Finding, u64>;
type Item = HashMap<String, AttributeValue>;

/// The activity with this index.
pub fn name(index: u16) -> String {
    format!("size-{index:02}")
}

fn sku() -> Result<Sku, StartError> {
    Ok(Sku::parse("a")?)
}

/// What is wrong with an order.
fn wrong(number: u32) -> Option<Finding> {
    match number % ONE_IN {
        1 => Some(Finding::RecordLost),
        2 => Some(Finding::OrderMissing),
        3 => Some(Finding::NotRestocked),
        4 => Some(Finding::MarkLeft),
        _ => None,
    }
}

/// Opens all activities and writes their orders; answers what was planted.
pub async fn all(backend: &Backend, redis: &mut MultiplexedConnection, size: &Size) -> Result<Planted, StartError> {
    let mut planted = Planted::new();
    for index in 0..size.activities {
        let orders = size.orders / u32::from(size.activities);
        let fields = json!({"buckets": size.buckets});
        let draft = sample::with(sample::activity("a", u64::from(orders) * 2), &fields);
        let activity = events::open(&backend.wiring, &name(index), &draft).await;
        activity_orders(backend, redis, &activity, orders, index, &mut planted).await?;
    }
    Ok(planted)
}

/// Units of one bucket, as each store counts them.
#[derive(Clone, Copy, Default)]
struct Units {
    live: i64,
    deducted: i64,
}

async fn activity_orders(
    backend: &Backend,
    redis: &mut MultiplexedConnection,
    activity: &Activity,
    orders: u32,
    index: u16,
    planted: &mut Planted,
) -> Result<(), StartError> {
    let mut units: BTreeMap<Bucket, Units> = activity.buckets.all().map(|bucket| (bucket, Units::default())).collect();
    let (mut items, mut fields) = (Vec::new(), BTreeMap::<Bucket, Vec<(String, String)>>::new());
    for number in 0..orders {
        let placement = placement(activity, &format!("buyer{number}"), SystemClock.now().plus_ms(-AGE_MS))?;
        let (bucket, kind) = (placement.home, wrong(number));
        if let Some(kind) = kind {
            *planted.entry(kind).or_default() += 1;
        }
        let units = units.entry(bucket).or_default();
        let dead = matches!(kind, Some(Finding::NotRestocked | Finding::MarkLeft));
        if kind != Some(Finding::RecordLost) {
            let side = if kind == Some(Finding::MarkLeft) { Side::Returned } else { Side::Deducted };
            units.deducted += i64::from(side == Side::Deducted);
            let mark = mark_field(&placement.charges[0].scope, &placement.buyer);
            let fields = fields.entry(bucket).or_default();
            fields.push((placement.order_no.to_string(), record(side, &placement)?));
            fields.push((mark, format!("{}=1", placement.order_no)));
        }
        if kind != Some(Finding::OrderMissing) {
            units.live += i64::from(!dead);
            let part = Part { sku: sku()?, bucket, units: 1 };
            let status = if dead { Status::Cancelled } else { Status::PendingPayment };
            items.push(order_item(&Order { status, ..placement.into_order(vec![part]) })?);
        }
    }
    write_items(backend, items).await?;
    for (bucket, fields) in fields {
        let orders = BucketKeys::new(&activity.id, bucket).orders;
        for some in fields.chunks(1_000) {
            redis::cmd("HSET").arg(&orders).arg(some).exec_async(redis).await?;
        }
    }
    for (bucket, units) in units {
        let first = bucket.get() == 0;
        let gate_off = if first && index == 0 { OFF_BY } else { 0 };
        let database_off = if first && index == 1 { OFF_BY } else { 0 };
        if gate_off != 0 {
            *planted.entry(Finding::GateSum).or_default() += 1;
        }
        if database_off != 0 {
            *planted.entry(Finding::DatabaseSum).or_default() += 1;
        }
        let allotted = i64::try_from(stock(backend, activity, bucket).await?.allotted)?;
        let free = allotted - units.deducted - gate_off;
        let text = format!("{free}|{}|1|{allotted}|1", units.deducted);
        redis::cmd("HSET")
            .arg(BucketKeys::new(&activity.id, bucket).bucket)
            .arg("a")
            .arg(text)
            .exec_async(redis)
            .await?;
        set_available(backend, activity, bucket, allotted - units.live - database_off).await?;
    }
    Ok(())
}

/// After the full pass: an order that Redis does not know and a deduction without an order, in each
/// activity.
pub async fn later(backend: &Backend, size: &Size) -> Result<Planted, StartError> {
    let (database, gate) = (&backend.wiring.database, &backend.wiring.gate);
    for index in 0..size.activities {
        let id = holdfast::domain::ids::ActivityId::parse(&name(index))?;
        let activity = backend.wiring.cache.get(&id).await.map_err(|fault| fault.chain())?.ok_or("no activity")?;
        let lost = placement(&activity, "later-lost", SystemClock.now())?;
        let bucket = lost.home;
        let before = stock(backend, &activity, bucket).await?;
        let part = Part { sku: sku()?, bucket, units: 1 };
        let order = lost.into_order(vec![part]);
        let _ = database.commit(&order, 1).await.map_err(|fault| fault.chain())?;
        let after = stock(backend, &activity, bucket).await?;
        let row = row(before, after, order.placement.order_no.as_str());
        database.record(&row).await.map_err(|fault| fault.chain())?;
        let missing = placement(&activity, "later-missing", SystemClock.now())?;
        let call = PlaceCall { activity: &activity, placement: &missing, look: false };
        let _ = gate.place(call).await.map_err(|fault| fault.chain())?;
    }
    let each = u64::from(size.activities);
    Ok(Planted::from([(Finding::RecordLost, each), (Finding::OrderMissing, each)]))
}

async fn stock(backend: &Backend, activity: &Activity, bucket: Bucket) -> Result<StockItem, StartError> {
    let items = backend.wiring.database.bucket_stock(activity, bucket).await.map_err(|fault| fault.chain())?;
    Ok(items.into_iter().next().ok_or("no stock item")?)
}

fn placement(activity: &Activity, buyer: &str, at: UnixMillis) -> Result<Placement, StartError> {
    let buyer = BuyerId::parse(buyer)?;
    let cart = Cart::new([(sku()?, Quantity::new(1)?)])?;
    let lines = cart.priced(activity).map_err(|sku| format!("{sku} is not sold"))?;
    let order_no = OrderNo::derive(&activity.id, &buyer, &TokenId::from_bytes([1; 16]));
    Ok(Placement::admit(activity, order_no, buyer, &cart, lines, at))
}

fn record(side: Side, placement: &Placement) -> Result<String, StartError> {
    let record = Record {
        take: Take::FIRST,
        side,
        at: placement.created_at,
        lines_hash: Some(placement.lines_hash.clone()),
        held: vec![(sku()?, 1)],
        placement: Some(placement.clone()),
    };
    Ok(record.to_string())
}

fn row(before: StockItem, after: StockItem, reference: &str) -> AuditRow {
    AuditRow {
        activity: after.activity.clone(),
        sku: after.sku.clone(),
        bucket: after.bucket,
        version: after.version,
        before: Some(before),
        operation: Some(Operation::Order),
        operator: "place-order".to_owned(),
        reference: reference.to_owned(),
        at: after.changed_at,
        event_id: format!("event {}", after.version),
        before_mark: Some(ChangeMark {
            operation: Operation::Manual,
            operator: "size".to_owned(),
            reference: "preheat".to_owned(),
        }),
        filled: false,
        after: Some(after),
    }
}

/// As the product stores it; see docs/keys.md.
fn order_item(order: &Order) -> Result<Item, StartError> {
    let placement = &order.placement;
    let Value::Object(fields) = serde_json::to_value(order)? else { return Err("an order is an object".into()) };
    let mut item: Item = fields.into_iter().map(|(name, value)| (name, attribute(value))).collect();
    let text = |text: String| AttributeValue::S(text);
    item.insert("pk".to_owned(), text(format!("O#{}", placement.order_no)));
    item.insert("sk".to_owned(), text("O".to_owned()));
    item.insert("home".to_owned(), text(format!("{}#{}", placement.activity, placement.home)));
    item.insert("due".to_owned(), text(format!("{:.3}#{}", placement.pay_before, placement.order_no)));
    item.insert("format".to_owned(), AttributeValue::N("1".to_owned()));
    Ok(item)
}

fn attribute(value: Value) -> AttributeValue {
    match value {
        Value::String(text) => AttributeValue::S(text),
        Value::Number(number) => AttributeValue::N(number.to_string()),
        Value::Bool(truth) => AttributeValue::Bool(truth),
        Value::Null => AttributeValue::Null(true),
        Value::Array(values) => AttributeValue::L(values.into_iter().map(attribute).collect()),
        Value::Object(fields) => {
            AttributeValue::M(fields.into_iter().map(|(name, value)| (name, attribute(value))).collect())
        }
    }
}

async fn write_items(backend: &Backend, items: Vec<Item>) -> Result<(), StartError> {
    let client = &backend.sdk.dynamodb;
    let batches: Vec<Vec<Item>> = items.chunks(BATCH).map(<[Item]>::to_vec).collect();
    stream::iter(batches)
        .map(|batch| async move {
            let puts = batch.into_iter().map(|item| {
                let put = PutRequest::builder().set_item(Some(item)).build()?;
                Ok(WriteRequest::builder().put_request(put).build())
            });
            let puts = puts.collect::<Result<Vec<_>, aws_sdk_dynamodb::error::BuildError>>()?;
            let mut tried = 0;
            loop {
                tried += 1;
                let request = client.batch_write_item().request_items(&backend.sdk.tables.table, puts.clone());
                match request.send().await {
                    Ok(wrote) if wrote.unprocessed_items().is_none_or(std::collections::HashMap::is_empty) => {
                        return Ok::<_, StartError>(());
                    }
                    Err(error) if tried == TRIES => return Err(error.into()),
                    _ if tried == TRIES => return Err("not all items were written".into()),
                    _ => {}
                }
            }
        })
        .buffer_unordered(PARALLEL)
        .try_collect::<Vec<()>>()
        .await
        .map(drop)
}

async fn set_available(
    backend: &Backend,
    activity: &Activity,
    bucket: Bucket,
    available: i64,
) -> Result<(), StartError> {
    let changed_at = SystemClock.now().plus_ms(-AGE_MS).to_string();
    let update = backend.sdk.dynamodb.update_item().table_name(&backend.sdk.tables.table);
    let update = update.key("pk", AttributeValue::S(format!("S#{}#a#{bucket}", activity.id)));
    let update = update.key("sk", AttributeValue::S("S".to_owned()));
    let update = update.update_expression("SET available = :available, changed_at = :changed_at");
    let update = update.expression_attribute_values(":available", AttributeValue::N(available.to_string()));
    update.expression_attribute_values(":changed_at", AttributeValue::S(changed_at)).send().await?;
    Ok(())
}
