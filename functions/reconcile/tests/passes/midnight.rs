//! Two calls of one submission begin on either side of midnight, and Redis knows only the one whose
//! order it is not: the record and the buyer's mark are of one day, the order is of the other.

use holdfast::{
    adapters::redis::keys::mark_field,
    domain::{
        order::{Order, Placement},
        repair::Finding,
    },
    ports::{Claim, OrderGate, OrderStore, PlaceAnswer, PlaceCall, StockGate},
};
use serde_json::json;

use crate::world::{LATER, NOW, World, found};

const DAY_MS: i64 = 86_400_000;

async fn start() -> World {
    let world = World::fresh(&json!({"limit": {"scope": "day", "max": 1}})).await;
    assert!(world.reconcile(NOW).await.findings.is_empty());
    world
}

/// The same submission, admitted by the call that began a day later.
fn next_day(world: &World, placement: &Placement) -> Placement {
    let mut next = placement.clone();
    next.created_at = placement.created_at.plus_ms(DAY_MS);
    next.biz_date = world.activity.zone.business_date(next.created_at);
    next.charges = world.activity.limit.charges(&next.lines, next.biz_date);
    assert_ne!(next.charges, placement.charges);
    next
}

/// Redis admits the second call, after it lost what it knew of the first.
async fn admit(world: &World, placement: &Placement) {
    let call = PlaceCall { activity: &world.activity, placement, look: false };
    assert_eq!(world.gate.place(call).await.unwrap(), PlaceAnswer::Admitted(vec![1]));
}

/// The order of today whose record is of tomorrow.
async fn order_over_midnight(world: &World, buyer: &str) -> (Order, Placement) {
    let today = world.placement(buyer);
    let tomorrow = next_day(world, &today);
    admit(world, &tomorrow).await;
    (world.commit(today).await, tomorrow)
}

/// What the buyer's mark of the submission's day says.
async fn mark(world: &World, placement: &Placement) -> Option<String> {
    let field = mark_field(&placement.charges[0].scope, &placement.buyer);
    world.redis(redis::cmd("HGET").arg(world.keys(placement.home).orders).arg(field)).await
}

/// Sets a mark by hand, as a restore once left the order counted on both days.
async fn count(world: &World, placement: &Placement) {
    let field = mark_field(&placement.charges[0].scope, &placement.buyer);
    let mark = format!("{}=1", placement.order_no);
    world.redis::<()>(redis::cmd("HSET").arg(world.keys(placement.home).orders).arg(field).arg(mark)).await;
}

async fn is_of(world: &World, order: &Order, tomorrow: &Placement) {
    let placement = &order.placement;
    let record = world.gate.record(&world.activity.id, placement.home, &placement.order_no).await.unwrap();
    assert_eq!(record.unwrap().unwrap().placement.as_ref(), Some(placement));
    assert_eq!(mark(world, placement).await, Some(format!("{}=1", placement.order_no)));
    assert_eq!(mark(world, tomorrow).await, None);
    world.assert_sums().await;
}

#[tokio::test]
async fn a_record_of_another_day_is_given_the_order_s() {
    let world = start().await;
    let (order, tomorrow) = order_over_midnight(&world, "alice").await;
    let report = world.reconcile(NOW).await;
    assert_eq!((found(&report), report.full_buckets), (vec![(Finding::RecordLost, 1)], 0));
    is_of(&world, &order, &tomorrow).await;
    let again = world.reconcile(NOW).await;
    assert!(again.findings.is_empty(), "{again:?}");
}

#[tokio::test]
async fn an_order_that_is_counted_on_both_days_is_found_too() {
    let world = start().await;
    let (order, tomorrow) = order_over_midnight(&world, "alice").await;
    count(&world, &order.placement).await;
    assert!(world.gate.marked(&world.activity, &order.placement).await.unwrap());
    let report = world.reconcile(NOW).await;
    assert_eq!(found(&report), [(Finding::RecordLost, 1)]);
    is_of(&world, &order, &tomorrow).await;
}

#[tokio::test]
async fn a_full_pass_finds_it_as_well() {
    let world = World::fresh(&json!({"limit": {"scope": "day", "max": 1}})).await;
    let (order, tomorrow) = order_over_midnight(&world, "alice").await;
    count(&world, &order.placement).await;
    let report = world.reconcile(NOW).await;
    assert_eq!((found(&report), report.full_buckets), (vec![(Finding::RecordLost, 1)], 4));
    is_of(&world, &order, &tomorrow).await;
}

#[tokio::test]
async fn a_dead_order_loses_the_marks_of_both_days() {
    let world = start().await;
    let today = world.placement("alice");
    let tomorrow = next_day(&world, &today);
    admit(&world, &tomorrow).await;
    count(&world, &today).await;
    let tombstone = today.clone().into_tombstone(today.created_at);
    assert_eq!(world.database.claim(&tombstone).await.unwrap(), Claim::Aborted);
    let report = world.reconcile(LATER).await;
    assert_eq!(found(&report), [(Finding::NotRestocked, 1)]);
    assert_eq!((mark(&world, &today).await, mark(&world, &tomorrow).await), (None, None));
    assert!(!world.holds(&today).await);
    world.assert_sums().await;
    assert!(world.reconcile(LATER).await.findings.is_empty());
}
