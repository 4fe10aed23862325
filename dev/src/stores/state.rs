//! `GET /dev/state`: both stores side by side, bucket by bucket.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::snapshot::{GateBucket, GateRecord, Snapshot, Stock, StoredOrder};
use crate::checks;

/// The answer's body.
#[must_use]
pub fn document(snapshot: &Snapshot) -> Value {
    let differences = checks::agreement::differences(snapshot);
    let buckets: Vec<Value> = (0..snapshot.activity.buckets)
        .map(|bucket| {
            let gate = snapshot.gate.as_ref().and_then(|gate| gate.get(&bucket));
            json!({
                "bucket": bucket,
                "redis": gate.map(redis),
                "dynamodb": dynamodb(snapshot, bucket),
            })
        })
        .collect();
    json!({
        "activity": snapshot.activity.id,
        "buckets": buckets,
        "agree": differences.is_empty(),
        "differences": differences,
    })
}

fn redis(bucket: &GateBucket) -> Value {
    let per_sku = |value: fn(&super::snapshot::GateSku) -> i64| -> BTreeMap<&String, i64> {
        bucket.skus.iter().map(|(sku, counters)| (sku, value(counters))).collect()
    };
    let mut buyers: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
    for mark in &bucket.marks {
        buyers.entry(&mark.buyer).or_default().push(&mark.order_no);
    }
    let records: Map<String, Value> =
        bucket.records.iter().map(|(order_no, record)| (order_no.clone(), record_document(record))).collect();
    json!({
        "stock": per_sku(|counters| counters.free),
        "sold": per_sku(|counters| counters.sold),
        "records": records,
        "buyers": buyers,
    })
}

fn record_document(record: &GateRecord) -> Value {
    let side = if record.deducted { "D" } else { "R" };
    json!({ "state": format!("{side}{}", record.take), "lines": record.units })
}

/// Orders are shown in the bucket that is their buyer's home, tombstones in the first.
fn dynamodb(snapshot: &Snapshot, bucket: u16) -> Value {
    let stock = || snapshot.stock.iter().filter(|((_, at), _)| *at == bucket);
    let per_sku = |value: fn(&Stock) -> i64| -> BTreeMap<&String, i64> {
        stock().map(|((sku, _), item)| (sku, value(item))).collect()
    };
    let orders: Map<String, Value> = snapshot
        .orders
        .iter()
        .filter(|(_, order)| order.home.unwrap_or(0) == bucket)
        .map(|(order_no, order)| (order_no.clone(), order_document(order)))
        .collect();
    json!({
        "allotted": per_sku(|item| i64::try_from(item.allotted).unwrap_or(i64::MAX)),
        "available": per_sku(|item| item.available),
        "orders": orders,
    })
}

fn order_document(order: &StoredOrder) -> Value {
    json!({ "status": order.status, "lines": order.lines })
}
