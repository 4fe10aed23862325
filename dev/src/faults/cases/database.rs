//! Faults of DynamoDB.

use std::time::Duration;

use servers::{Fault, FaultKind};

use super::super::FaultCase;
use super::super::scene::Scene;
use super::super::setup::Setup;
use super::case;
use crate::stack::StartError;

/// How long a fault lasts that is over after a time.
const PHASE: Duration = Duration::from_secs(2);
/// How long the database is gone in the case that shows a long outage.
const OUTAGE: Duration = Duration::from_secs(20);
/// Longer than one attempt of a call: it is given up, and applied all the same.
const TOO_SLOW: Duration = Duration::from_millis(1_300);
/// Longer than all attempts of a call together.
const VERY_SLOW: Duration = Duration::from_secs(4);
/// Attempts that are applied and not answered.
const AMBIGUOUS: u32 = 60;
/// Transactions that are refused for a conflict.
const CONFLICTS: u32 = 200;
const TRANSACTION: &str = "TransactWriteItems";

pub(super) fn cases() -> Vec<FaultCase> {
    vec![
        case!(Database, "unavailable", "unavailable for 2 s: every connection is closed", unavailable),
        case!(Database, "outage", "unavailable for 20 s", outage),
        case!(Database, "throttled", "every call throttled for 2 s", throttled),
        case!(Database, "transactions-throttled", "transactions throttled for 2 s", transactions_throttled),
        case!(Database, "errors", "every call answered 500 for 2 s", errors),
        case!(Database, "reads-fail", "reads answered 500 for 2 s", reads_fail),
        case!(Database, "claims-fail", "sold out in the database, and claims answered 500", claims_fail).with(
            |setup| {
                setup.breaks_sums = true;
                setup.units = 60;
                setup.reconcile_every = None;
            },
        ),
        case!(Database, "conflicts", "200 transactions refused for conflicts", conflicts),
        case!(Database, "hot-bucket", "40 buyers at one bucket, 25 ms a call: real conflicts", hot_bucket).with(
            |setup| {
                setup.buckets = 1;
                setup.buyers = 40;
                setup.latency = Duration::from_millis(25);
            },
        ),
        case!(Database, "ambiguous", "60 transactions applied and never answered", ambiguous),
        case!(Database, "ambiguous-impatient", "the same, and buyers do not come back", ambiguous).with(impatient),
        case!(Database, "slow", "transactions take 1.3 s: given up and applied", slow),
        case!(Database, "very-slow", "transactions take 4 s: told to wait, then committed", very_slow),
        case!(Database, "very-slow-impatient", "the same, and buyers do not come back", very_slow).with(impatient),
    ]
}

/// Buyers who leave after their first answer.
pub(super) fn impatient(setup: &mut Setup) {
    setup.patience = Duration::ZERO;
}

/// Strikes calls of an operation, or all, for a time.
async fn strike(
    scene: &mut Scene,
    operation: Option<&'static str>,
    kind: FaultKind,
    phase: Duration,
) -> Result<(), StartError> {
    scene.under_way().await?;
    let control = scene.stage.stack.backend.dynamodb.control().clone();
    let before = control.strikes();
    control.inject(Fault { operation, kind, times: None });
    tokio::time::sleep(phase).await;
    control.clear();
    scene.struck(control.strikes() - before);
    Ok(())
}

async fn unavailable(scene: &mut Scene) -> Result<(), StartError> {
    strike(scene, None, FaultKind::DropBefore, PHASE).await
}

async fn outage(scene: &mut Scene) -> Result<(), StartError> {
    strike(scene, None, FaultKind::DropBefore, OUTAGE).await
}

async fn throttled(scene: &mut Scene) -> Result<(), StartError> {
    strike(scene, None, FaultKind::Throttled, PHASE).await
}

async fn transactions_throttled(scene: &mut Scene) -> Result<(), StartError> {
    strike(scene, Some(TRANSACTION), FaultKind::Throttled, PHASE).await
}

async fn errors(scene: &mut Scene) -> Result<(), StartError> {
    strike(scene, None, FaultKind::Error500, PHASE).await
}

async fn reads_fail(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let control = scene.stage.stack.backend.dynamodb.control().clone();
    for operation in ["GetItem", "BatchGetItem", "TransactGetItems", "Query"] {
        control.inject(Fault::standing(operation, FaultKind::Error500));
    }
    tokio::time::sleep(PHASE).await;
    scene.struck(control.strikes());
    control.clear();
    Ok(())
}

async fn slow(scene: &mut Scene) -> Result<(), StartError> {
    strike(scene, Some(TRANSACTION), FaultKind::Delay(TOO_SLOW), PHASE).await
}

async fn very_slow(scene: &mut Scene) -> Result<(), StartError> {
    strike(scene, Some(TRANSACTION), FaultKind::Delay(VERY_SLOW), 2 * PHASE).await?;
    let confirming = scene.load.crowd.orders.count("202");
    scene.claim("outcomes were unknown", confirming > 0, format!("{confirming} answers 202"));
    Ok(())
}

/// Strikes so many calls of the transaction.
pub(super) async fn strike_times(scene: &mut Scene, kind: FaultKind, times: u32) -> Result<(), StartError> {
    let control = scene.stage.stack.backend.dynamodb.control().clone();
    let before = control.strikes();
    control.inject(Fault { operation: Some(TRANSACTION), kind, times: Some(times) });
    scene.until("the fault is used up", |_| control.strikes() - before >= u64::from(times)).await?;
    scene.struck(u64::from(times));
    Ok(())
}

async fn conflicts(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    strike_times(scene, FaultKind::Conflict, CONFLICTS).await
}

async fn ambiguous(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    strike_times(scene, FaultKind::DropAfter, AMBIGUOUS).await
}

/// Redis shows more than there is, so that the database refuses; and the claim that has to come before
/// the refusal does not get through.
async fn claims_fail(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    super::show_too_much(scene).await?;
    scene.until_seen("409 sold_out", 5).await?;
    let control = scene.stage.stack.backend.dynamodb.control().clone();
    control.inject(Fault::standing("PutItem", FaultKind::Error500));
    scene.until_seen("202", 10).await?;
    scene.struck(control.strikes());
    control.clear();
    Ok(())
}

/// Real contention: the calls of the database that were refused for it are counted by their repeats.
async fn hot_bucket(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.until_seen("201", 60).await?;
    let transactions = scene.stage.stack.backend.dynamodb.control().count(TRANSACTION);
    let accepted = scene.load.crowd.accepted();
    scene.struck(transactions.saturating_sub(accepted));
    scene.figure("transactions tried", &transactions);
    scene.figure("orders accepted then", &accepted);
    Ok(())
}
