//! Broken calls: what is retried, for how long, and whether the answer tells what may have happened.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use holdfast::{
    domain::order::{Order, Stored},
    ports::{ActivityStore, Claim, Commit, Effect, OrderStore, Saved, StockStore},
};
use servers::{Fault, FaultKind};

use crate::world::{World, activity_id, bucket, config, database, mark, now, order, sale, sku, stock};

const TRANSACTION: &str = "TransactWriteItems";
/// How often the transaction of a buyer who waits is tried.
const BUYER_TRIES: u64 = 40;

/// A world with ten units, and an order of one of them.
async fn world_and_order() -> (World, Order) {
    let world = World::start().await;
    world.open("a", 0, 10).await;
    (world, order("alice", 1, &[("a", 0, 1)]))
}

fn times(operation: &'static str, kind: FaultKind, times: u32) -> Fault {
    Fault { operation: Some(operation), kind, times: Some(times) }
}

/// What a commit answers under these faults, and how many transactions it sent.
async fn commit_under(world: &World, order: &Order, faults: &[Fault]) -> (Result<Commit, Effect>, u64) {
    for fault in faults {
        world.control().inject(*fault);
    }
    let answer = world.database.commit(order, 1).await.map_err(|fault| fault.effect);
    world.control().clear();
    (answer, world.transactions())
}

async fn assert_nothing_written(world: &World, order: &Order) {
    assert_eq!(world.database.order(&order.placement.order_no).await.unwrap(), None);
    assert_eq!(world.left("a", 0).await, (10, 1));
}

async fn assert_committed_once(world: &World, order: &Order) {
    let stored = world.database.order(&order.placement.order_no).await.unwrap();
    assert_eq!(stored, Some(Stored::Order(order.clone())));
    assert_eq!(world.left("a", 0).await, (9, 2));
    assert_eq!(world.raw("B#sale#alice", "G#A").await.unwrap()["units"].as_n().unwrap(), "1");
}

#[tokio::test]
async fn conflicts_are_retried_with_a_bound() {
    let (world, order) = world_and_order().await;
    let (answer, sent) = commit_under(&world, &order, &[Fault::standing(TRANSACTION, FaultKind::Conflict)]).await;
    assert_eq!((answer, sent), (Ok(Commit::Busy), BUYER_TRIES));
    assert_nothing_written(&world, &order).await;
    let (answer, sent) = commit_under(&world, &order, &[times(TRANSACTION, FaultKind::Conflict, 5)]).await;
    assert_eq!((answer, sent), (Ok(Commit::Committed), BUYER_TRIES + 6));
    assert_committed_once(&world, &order).await;
}

#[tokio::test]
async fn throttling_is_retried_with_a_bound() {
    let (world, order) = world_and_order().await;
    let (answer, sent) = commit_under(&world, &order, &[Fault::standing(TRANSACTION, FaultKind::Throttled)]).await;
    assert_eq!(answer, Ok(Commit::Busy));
    assert!(sent <= BUYER_TRIES * 3, "{sent}");
    assert_nothing_written(&world, &order).await;
    let (answer, _) = commit_under(&world, &order, &[Fault::once(TRANSACTION, FaultKind::Throttled)]).await;
    assert_eq!(answer, Ok(Commit::Committed));
    assert_committed_once(&world, &order).await;
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_token() {
    let (world, order) = world_and_order().await;
    let (answer, sent) = commit_under(&world, &order, &[Fault::once(TRANSACTION, FaultKind::DropAfter)]).await;
    assert_eq!((answer, sent), (Ok(Commit::Committed), 2));
    assert_committed_once(&world, &order).await;
}

#[tokio::test]
async fn a_broken_attempt_is_made_up_for() {
    for kind in [FaultKind::DropBefore, FaultKind::Error500] {
        let (world, order) = world_and_order().await;
        let (answer, sent) = commit_under(&world, &order, &[Fault::once(TRANSACTION, kind)]).await;
        assert_eq!((answer, sent), (Ok(Commit::Committed), 2), "{kind:?}");
        assert_committed_once(&world, &order).await;
    }
}

#[tokio::test]
async fn answers_that_stay_lost_are_unknown_and_the_order_tells() {
    let (world, order) = world_and_order().await;
    let (answer, _) = commit_under(&world, &order, &[Fault::standing(TRANSACTION, FaultKind::DropAfter)]).await;
    assert_eq!(answer, Err(Effect::Unknown));
    assert_committed_once(&world, &order).await;
    assert_eq!(world.database.commit(&order, 1).await.unwrap(), Commit::Exists);
    assert_committed_once(&world, &order).await;
}

#[tokio::test]
async fn what_may_have_been_applied_is_never_told_as_not_applied() {
    for kind in [FaultKind::DropBefore, FaultKind::Error500] {
        let (world, order) = world_and_order().await;
        let (answer, _) = commit_under(&world, &order, &[Fault::standing(TRANSACTION, kind)]).await;
        assert_eq!(answer, Err(Effect::Unknown), "{kind:?}");
        assert_nothing_written(&world, &order).await;
    }
    // The first attempt was applied, its answer lost; all that follow say "not applied" of themselves.
    for kind in [FaultKind::Conflict, FaultKind::Throttled] {
        let (world, order) = world_and_order().await;
        let faults = [Fault::once(TRANSACTION, FaultKind::DropAfter), Fault::standing(TRANSACTION, kind)];
        let (answer, _) = commit_under(&world, &order, &faults).await;
        assert_eq!(answer, Err(Effect::Unknown), "{kind:?}");
        assert_committed_once(&world, &order).await;
    }
    // And one that is tried anew after such a mix finds the order.
    let (world, order) = world_and_order().await;
    let faults = [Fault::once(TRANSACTION, FaultKind::DropAfter), times(TRANSACTION, FaultKind::Conflict, 2)];
    let (answer, _) = commit_under(&world, &order, &faults).await;
    assert_eq!(answer, Ok(Commit::Exists));
    assert_committed_once(&world, &order).await;
}

#[tokio::test]
async fn a_server_that_hangs_costs_a_bounded_time() {
    let (world, order) = world_and_order().await;
    let began = std::time::Instant::now();
    let hang = Fault::standing(TRANSACTION, FaultKind::Delay(Duration::from_secs(8)));
    let (answer, _) = commit_under(&world, &order, &[hang]).await;
    assert_eq!(answer, Err(Effect::Unknown));
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_server_that_is_not_there_has_applied_nothing() {
    let (world, order) = world_and_order().await;
    // A client of its own: a connection that breaks while it is in use proves nothing.
    let database = database(Client::new(&config(world.server.endpoint()).await));
    world.server.stop().await;
    let fault = database.commit(&order, 1).await.unwrap_err();
    assert_eq!(fault.effect, Effect::None, "{}", fault.chain());
    let fault = database.claim(&order.placement.into_tombstone(now())).await.unwrap_err();
    assert_eq!(fault.effect, Effect::None, "{}", fault.chain());
}

#[tokio::test]
async fn every_single_write_survives_a_lost_answer_without_doing_it_twice() {
    let (world, order) = world_and_order().await;
    let lose = |operation| world.control().inject(Fault::once(operation, FaultKind::DropAfter));
    lose("PutItem");
    let tombstone = order.placement.clone().into_tombstone(now());
    assert_eq!(world.database.claim(&tombstone).await.unwrap(), Claim::Aborted);
    lose("PutItem");
    assert_eq!(world.open("b", 0, 3).await, stock("b", 0, 3));
    lose("PutItem");
    assert_eq!(world.database.save_activity(&sale(&["a"]), None).await.unwrap(), Saved::Done);
    lose("UpdateItem");
    let frozen = world.database.set_on_sale(&activity_id(), &sku("a"), bucket(0), false, &mark("x")).await;
    let frozen = frozen.unwrap().unwrap();
    assert_eq!((frozen.on_sale, frozen.version), (false, 2));
    lose("UpdateItem");
    assert!(world.database.correct_available(&frozen, 7, &mark("y")).await.unwrap());
    assert_eq!(world.left("a", 0).await, (7, 3));
    assert_eq!(world.control().count("UpdateItem"), 4);
}

#[tokio::test]
async fn single_writes_get_through_conflicts_and_say_when_they_do_not() {
    let (world, order) = world_and_order().await;
    let tombstone = order.placement.clone().into_tombstone(now());
    world.control().inject(times("PutItem", FaultKind::Conflict, 10));
    assert_eq!(world.database.claim(&tombstone).await.unwrap(), Claim::Aborted);
    world.control().inject(Fault::standing("UpdateItem", FaultKind::Conflict));
    let fault = world.database.set_on_sale(&activity_id(), &sku("a"), bucket(0), false, &mark("x")).await.unwrap_err();
    assert_eq!((fault.effect, world.control().count("UpdateItem")), (Effect::None, 20));
    world.control().clear();
    world.control().inject(Fault::standing("PutItem", FaultKind::Error500));
    let fault = world.database.claim(&tombstone).await.unwrap_err();
    assert_eq!(fault.effect, Effect::Unknown);
}

#[tokio::test]
async fn a_read_that_fails_is_a_fault_and_no_absence() {
    let (world, order) = world_and_order().await;
    for operation in ["GetItem", "BatchGetItem", "Query"] {
        world.control().inject(Fault::standing(operation, FaultKind::Error500));
    }
    let database = &world.database;
    let number = order.placement.order_no;
    assert_eq!(database.order(&number).await.unwrap_err().effect, Effect::None);
    assert_eq!(database.orders(&[number]).await.unwrap_err().effect, Effect::None);
    assert!(database.activity(&activity_id()).await.is_err());
    assert!(database.activities(None).await.is_err());
    assert!(database.buyer_orders(&activity_id(), &order.placement.buyer).await.is_err());
    assert!(database.home_orders(&activity_id(), bucket(0), None).await.is_err());
}
