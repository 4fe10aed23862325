//! What changed, and when that does not tell everything.

use harness::faulty::{Faulty, Saboteur, Strike};
use holdfast::{
    app::reconcile::{OVERLAP_MS, Reconcile},
    domain::{lease::Fence, order::Part, repair::Finding, stock::StockItem},
    ports::{Claim, Commit, Cursor, OrderStore, ProgressStore, Saved, SystemClock},
};
use serde_json::json;
use tokio::time::{Duration, Instant};

use crate::world::{Ahead, LATER, NOW, World, found, row, sku};

/// The bucket at once, then all four of the activity.
const THEN_ALL: u32 = 5;
/// What changed before is not looked at again.
const AFTER_THE_OVERLAP: Ahead = Ahead(2 * OVERLAP_MS);

#[tokio::test]
async fn what_changed_is_found_without_comparing_everything() {
    let world = World::start().await;
    let mut whole = Vec::new();
    for n in 0..20 {
        whole.push(world.order(&format!("whole{n}")).await);
    }
    let lost = world.commit(world.placement("lost")).await;
    let missing = world.deduct("missing").await;
    let aborted = world.deduct("aborted").await;
    let tombstone = aborted.clone().into_tombstone(holdfast::ports::Clock::now(&SystemClock));
    assert_eq!(world.database.claim(&tombstone).await.unwrap(), Claim::Aborted);
    let report = world.reconcile(LATER).await;
    let expected = [(Finding::RecordLost, 1), (Finding::OrderMissing, 1), (Finding::NotRestocked, 1)];
    assert_eq!(found(&report), expected);
    assert_eq!((report.full_buckets, report.buckets, report.complete), (0, 4, true));
    assert!(world.holds(&lost.placement).await && !world.holds(&missing).await && !world.holds(&aborted).await);
    world.assert_sums().await;
    // Everything is settled: nothing is compared but what the overlap brings again.
    let again = world.reconcile(LATER).await;
    assert!(again.findings.is_empty() && again.full_buckets == 0, "{again:?}");
}

#[tokio::test]
async fn a_deduction_that_was_on_its_way_is_looked_at_again() {
    let world = World::start().await;
    let missing = world.deduct("missing").await;
    world.order(&world.neighbour(&missing)).await;
    let report = world.reconcile(NOW).await;
    assert!(report.findings.is_empty() && report.full_buckets == 0, "{report:?}");
    let report = world.reconcile(LATER).await;
    assert_eq!((found(&report), report.full_buckets), (vec![(Finding::OrderMissing, 1)], 0));
    assert!(!world.holds(&missing).await);
    world.assert_sums().await;
}

#[tokio::test]
async fn the_overlap_brings_what_a_replica_did_not_have() {
    let world = World::start().await;
    let order = world.order("alice").await;
    assert!(world.reconcile(NOW).await.findings.is_empty(), "compared, and found to agree");
    world.lose(&order.placement).await;
    let report = world.reconcile(NOW).await;
    assert_eq!((found(&report), report.full_buckets), (vec![(Finding::RecordLost, 1)], 0));
    assert!(world.holds(&order.placement).await);
    world.assert_sums().await;
}

#[tokio::test]
async fn f12_another_redis_server_makes_the_bucket_compared_wholly() {
    let world = World::start().await;
    let order = world.order("alice").await;
    assert!(world.reconcile(NOW).await.findings.is_empty());
    let job = format!("reconcile#sale#{}", order.placement.home);
    let Cursor(seen) = world.database.progress(&job).await.unwrap().unwrap();
    let node = seen.split('"').nth(3).unwrap().to_owned();
    assert_eq!(node.len(), 40, "a run id: {seen}");
    let other = Cursor(seen.replace(&node, &"0".repeat(40)));
    assert_eq!(world.database.save_progress(&job, Fence::new(99), Some(&other), None).await.unwrap(), Saved::Done);
    assert_eq!(world.reconcile(NOW).await.full_buckets, THEN_ALL);
}

#[tokio::test]
async fn counters_that_differ_make_the_bucket_compared_wholly() {
    let world = World::start().await;
    let order = world.order("alice").await;
    assert!(world.reconcile(NOW).await.findings.is_empty());
    let keys = world.keys(order.placement.home);
    world.redis::<()>(redis::cmd("HSET").arg(&keys.bucket).arg("a").arg("2490|1|1|2500|2")).await;
    let report = world.reconcile(NOW).await;
    assert_eq!((found(&report), report.full_buckets), (vec![(Finding::GateSum, 1)], THEN_ALL));
    world.assert_sums().await;
}

#[tokio::test]
async fn a_ledger_that_does_not_reach_back_makes_the_bucket_compared_wholly() {
    let world = World::start().await;
    let missing = world.deduct("missing").await;
    let keys = world.keys(missing.home);
    world.redis::<()>(redis::cmd("DEL").arg(&keys.ledger)).await;
    // It makes a new ledger.
    world.order(&world.neighbour(&missing)).await;
    let report = world.reconcile(LATER).await;
    assert_eq!((found(&report), report.full_buckets), (vec![(Finding::OrderMissing, 1)], THEN_ALL));
}

#[tokio::test]
async fn memory_that_was_lost_is_loaded_again_and_restored_order_by_order() {
    let world = World::start().await;
    let orders = [world.order("alice").await, world.order("bob").await, world.order("carol").await];
    assert!(world.reconcile(NOW).await.findings.is_empty());
    world.redis::<()>(&mut redis::cmd("FLUSHALL")).await;
    let report = world.reconcile(NOW).await;
    assert_eq!(found(&report), [(Finding::RecordLost, 3), (Finding::GateEmpty, 4)]);
    for order in &orders {
        assert!(world.holds(&order.placement).await);
    }
    world.assert_sums().await;
}

/// An order has a part in a bucket that is not its home. That bucket's own listing does not bring it.
#[tokio::test]
async fn f23_a_part_away_from_home_comes_back_when_its_bucket_is_lost() {
    let world = World::fresh(&json!({"limit": {"scope": "activity", "max": 2}})).await;
    let placement = world.placement_of("alice", 2);
    let home = placement.home;
    let away = world.activity.buckets.all().find(|bucket| *bucket != home).unwrap();
    let part = |bucket| Part { sku: sku(), bucket, units: 1 };
    let order = placement.into_order(vec![part(home), part(away)]);
    assert_eq!(world.database.commit(&order, 2).await.unwrap(), Commit::Committed);
    for bucket in [home, away] {
        let opened = StockItem { available: world.item(bucket).await.available + 1, ..world.item(bucket).await };
        world.record(Some(opened), &world.item(bucket).await, order.placement.order_no.as_str()).await;
    }
    let report = world.reconcile(NOW).await;
    assert_eq!(found(&report), [(Finding::RecordLost, 2)]);
    // Long ago: no change brings it any more.
    assert!(world.reconcile(AFTER_THE_OVERLAP).await.complete);
    let keys = world.keys(away);
    world.redis::<()>(redis::cmd("DEL").arg(&keys.bucket).arg(&keys.orders).arg(&keys.ledger)).await;
    let report = world.reconcile(AFTER_THE_OVERLAP).await;
    assert_eq!(found(&report), [(Finding::RecordLost, 1), (Finding::GateEmpty, 1)]);
    world.assert_sums().await;
    assert!(world.reconcile(AFTER_THE_OVERLAP).await.findings.is_empty());
}

/// The same, while one call fails: wherever it is, the next run makes up for it.
#[tokio::test]
async fn a_pass_that_missed_something_is_made_up_for_by_the_next() {
    for step in (1..60).step_by(3) {
        let world = World::fresh(&json!({"limit": {"scope": "activity", "max": 2}})).await;
        let placement = world.placement_of("alice", 2);
        let home = placement.home;
        let away = world.activity.buckets.all().find(|bucket| *bucket != home).unwrap();
        let part = |bucket| Part { sku: sku(), bucket, units: 1 };
        let order = placement.into_order(vec![part(home), part(away)]);
        assert_eq!(world.database.commit(&order, 2).await.unwrap(), Commit::Committed);
        for bucket in [home, away] {
            let opened = StockItem { available: world.item(bucket).await.available + 1, ..world.item(bucket).await };
            world.record(Some(opened), &world.item(bucket).await, order.placement.order_no.as_str()).await;
        }
        for _ in 0..2 {
            assert!(world.reconcile(AFTER_THE_OVERLAP).await.complete);
        }
        let keys = world.keys(away);
        world.redis::<()>(redis::cmd("DEL").arg(&keys.bucket).arg(&keys.orders).arg(&keys.ledger)).await;
        let gate = Faulty { inner: world.gate.clone(), saboteur: Saboteur::at(step, Strike::Refused) };
        let run = Reconcile { store: world.database.clone(), gate, clock: AFTER_THE_OVERLAP };
        let _ = run.run(Instant::now() + Duration::from_mins(1)).await.unwrap();
        let report = world.reconcile(AFTER_THE_OVERLAP).await;
        assert!(report.complete && report.faults == 0, "step {step}: {report:?}");
        world.assert_sums().await;
    }
}

/// A pass that was meant to compare everything, and could not: it is due again at once, not in an hour.
#[tokio::test]
async fn a_full_pass_that_missed_something_is_due_again_at_the_next_run() {
    let world = World::start().await;
    let order = world.order("alice").await;
    assert!(world.reconcile(AFTER_THE_OVERLAP).await.complete);
    let record = world.keys(order.placement.home).orders;
    let mut missed = 0;
    for step in 0..20 {
        // No entry of the ledger tells of it, nor does a counter.
        world.redis::<()>(redis::cmd("HDEL").arg(&record).arg(order.placement.order_no.as_str())).await;
        let gate = Faulty { inner: world.gate.clone(), saboteur: Saboteur::at(step, Strike::Refused) };
        let run = Reconcile { store: world.database.clone(), gate, clock: AFTER_THE_OVERLAP };
        let ran = run.run_activity(&world.activity.id, Instant::now() + Duration::from_mins(1)).await.unwrap();
        missed += u32::from(!world.holds(&order.placement).await);
        let report = world.reconcile(AFTER_THE_OVERLAP).await;
        assert!(report.complete && report.faults == 0, "step {step}: {ran:?}, {report:?}");
        assert!(world.holds(&order.placement).await, "step {step}: {ran:?}, {report:?}");
    }
    assert!(missed > 0);
}

#[tokio::test]
async fn a_change_behind_the_systems_back_makes_the_next_pass_a_full_one() {
    let world = World::start().await;
    let order = world.order("alice").await;
    assert!(world.reconcile(NOW).await.findings.is_empty());
    let before = world.item(order.placement.home).await;
    let edited = StockItem { available: before.available - 7, ..before.clone() };
    let untracked = row(Some(before.clone()), &edited, "", holdfast::ports::Clock::now(&SystemClock));
    let untracked = holdfast::ports::AuditRow { operation: None, version: before.version + 1, ..untracked };
    let set = world.backend.sdk.dynamodb.update_item().table_name("holdfast");
    let set = set.key("pk", aws_sdk_dynamodb::types::AttributeValue::S(format!("S#sale#a#{}", before.bucket)));
    let set = set.key("sk", aws_sdk_dynamodb::types::AttributeValue::S("S".to_owned()));
    let set = set.update_expression("SET available = available - :seven, version = version + :one");
    let number = |n: u32| aws_sdk_dynamodb::types::AttributeValue::N(n.to_string());
    set.expression_attribute_values(":seven", number(7))
        .expression_attribute_values(":one", number(1))
        .send()
        .await
        .unwrap();
    holdfast::ports::AuditStore::record(&world.database, &untracked).await.unwrap();
    // Its counters differ: that bucket at once, then all of them, as the sums of the database need it.
    let report = world.reconcile(LATER).await;
    assert_eq!((found(&report), report.full_buckets), (vec![(Finding::DatabaseSum, 1)], THEN_ALL));
    assert_eq!(world.item(before.bucket).await.available, before.available);
    world.assert_sums().await;
}
