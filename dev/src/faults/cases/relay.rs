//! Faults of the stream's function.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use holdfast::app::reconcile::GAP_GRACE_MS;
use serde_json::Value;
use servers::{Fault, FaultKind};

use super::super::FaultCase;
use super::super::scene::Scene;
use super::super::skew::Skewed;
use super::{case, operations};
use crate::functions::Functions;
use crate::sale::settle::drain;
use crate::stack::StartError;
use crate::stores::snapshot::Snapshot;

/// Accepted orders during a fault.
const ORDERS: u64 = 60;
/// Records of versions with this remainder are lost.
const LOST: (u64, u64) = (5, 3);
const PHASE: Duration = Duration::from_secs(2);

pub(super) fn cases() -> Vec<FaultCase> {
    vec![
        case!(Relay, "down", "the stream is not read for the whole sale, then caught up", down),
        case!(Relay, "duplicates", "every batch is delivered twice, the second in reverse and at once", duplicates)
            .with(|setup| setup.wrap = Some(twice)),
        case!(Relay, "poison", "records that nobody can read, between others", poison),
        case!(Relay, "retries-exhausted", "every fifth stock record of an order is given up: gaps", exhausted)
            .with(|setup| setup.wrap = Some(lossy)),
        case!(Relay, "audit-fails", "audit rows cannot be written for 2 s", audit_fails),
        case!(Relay, "queue-fails", "events cannot be sent for 2 s", queue_fails),
    ]
}

fn twice(functions: Functions) -> Functions {
    let function = Arc::clone(&functions.relay);
    let relay = move |event: Value| {
        let mut reversed = event.clone();
        if let Some(records) = reversed["Records"].as_array_mut() {
            records.reverse();
        }
        let (one, other) = (function(event), function(reversed));
        let both = async move {
            let (answer, _) = tokio::join!(one, other);
            answer
        };
        Box::pin(both) as crate::functions::Later<_>
    };
    Functions { relay: Arc::new(relay), ..functions }
}

/// Audit rows, once the relay has finished what it had read.
async fn settled_rows(scene: &Scene) -> Result<usize, StartError> {
    let (mut rows, mut same) = (0, 0);
    while same < 3 {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let now = scene.snapshot().await?.audit.values().map(Vec::len).sum::<usize>();
        same = if now == rows { same + 1 } else { 0 };
        rows = now;
    }
    Ok(rows)
}

async fn down(scene: &mut Scene) -> Result<(), StartError> {
    let control = scene.stage.stack.backend.dynamodb.control().clone();
    control.inject(Fault::standing("GetRecords", FaultKind::Error500));
    scene.under_way().await?;
    let before = settled_rows(scene).await?;
    scene.until_seen("201", ORDERS).await?;
    scene.load.finish().await;
    let after = scene.snapshot().await?.audit.values().map(Vec::len).sum::<usize>();
    scene.claim("nothing was relayed meanwhile", before == after, format!("{before} rows, then {after}"));
    scene.struck(control.strikes());
    control.clear();
    Ok(())
}

async fn duplicates(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.until_seen("201", ORDERS).await?;
    scene.end().await?;
    let repeated = scene.stage.stack.fulfilment.arrived().repeated;
    scene.struck(repeated);
    scene.figure("events repeated", &repeated);
    Ok(())
}

/// Items under the names of a stock item and an order, without what these have.
async fn poison(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let sdk = &scene.stage.stack.backend.sdk;
    for (pk, sk) in [("S#sale#ghost#0", "S"), ("O#ghost", "O")] {
        let text = |value: &str| AttributeValue::S(value.to_owned());
        let put = sdk.dynamodb.put_item().table_name(&sdk.tables.table).item("pk", text(pk)).item("sk", text(sk));
        put.item("format", AttributeValue::N("1".to_owned())).send().await?;
        let delete = sdk.dynamodb.delete_item().table_name(&sdk.tables.table).key("pk", text(pk)).key("sk", text(sk));
        delete.send().await?;
    }
    scene.until_seen("201", ORDERS).await?;
    scene.end().await?;
    let [_, dead] = scene.stage.stack.dead_letters().await?;
    scene.struck(dead);
    scene.figure("dead letters", &dead);
    Ok(())
}

/// Loses single stock records of orders, whose neighbours come through: as when a batch's retries are
/// used up.
fn lossy(functions: Functions) -> Functions {
    let function = Arc::clone(&functions.relay);
    let relay = move |mut event: Value| {
        if let Some(records) = event["Records"].as_array_mut() {
            records.retain(|record| {
                let image = &record["dynamodb"]["NewImage"];
                let version = image["version"]["N"].as_str().and_then(|digits| digits.parse::<u64>().ok());
                let lost = image["op"]["S"] == "order" && version.is_some_and(|version| version % LOST.0 == LOST.1);
                !lost
            });
        }
        function(event)
    };
    Functions { relay: Arc::new(relay), ..functions }
}

async fn exhausted(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.until_seen("201", ORDERS).await?;
    scene.load.finish().await;
    scene.stage.stop_schedule().await;
    // A gap shows when a later row is there.
    operations::freeze(scene).await?;
    operations::unfreeze(scene).await?;
    drain(&scene.stage.stack).await?;
    let missing = missing_rows(&scene.snapshot().await?);
    scene.struck(missing);
    scene.reconcile(Skewed(|_| 2 * GAP_GRACE_MS)).await?;
    let left = missing_rows(&scene.snapshot().await?);
    scene.claim("every gap is filled", missing > 0 && left == 0, format!("{missing} rows missing, {left} left"));
    Ok(())
}

fn missing_rows(snapshot: &Snapshot) -> u64 {
    let changes: u64 = snapshot.stock.values().map(|item| item.version).sum();
    let rows: usize = snapshot.audit.values().map(Vec::len).sum();
    changes.saturating_sub(u64::try_from(rows).unwrap_or(u64::MAX))
}

async fn audit_fails(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let control = scene.stage.stack.backend.dynamodb.control().clone();
    control.inject(Fault::standing("PutItem", FaultKind::Error500));
    tokio::time::sleep(PHASE).await;
    scene.struck(control.strikes());
    control.clear();
    failed_batches(scene);
    Ok(())
}

async fn queue_fails(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let control = scene.stage.stack.backend.sqs.control().clone();
    control.inject(Fault::standing("SendMessage", FaultKind::Error500));
    tokio::time::sleep(PHASE).await;
    scene.struck(control.strikes());
    control.clear();
    failed_batches(scene);
    Ok(())
}

fn failed_batches(scene: &mut Scene) {
    let failures = scene.stage.stack.stream.failures.load(Ordering::Relaxed);
    scene.claim("batches failed and came again", failures > 0, format!("{failures} batches"));
}
