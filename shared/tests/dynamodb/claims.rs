//! Tombstones.

use holdfast::{
    adapters::dynamodb::TOMBSTONE_LIFE_MS,
    domain::{
        order::{Stored, Tombstone},
        time::UnixMillis,
    },
    ports::{Claim, Clock, Commit, OrderStore, SystemClock},
};

use crate::world::{World, activity_id, buyer, now, order};

#[tokio::test]
async fn a_claim_is_told_again_and_keeps_what_the_first_one_knew() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    let order = order("alice", 1, &[("a", 0, 1)]);
    let number = order.placement.order_no.clone();
    let tombstone = order.placement.clone().into_tombstone(now());
    assert_eq!(world.database.claim(&tombstone).await.unwrap(), Claim::Aborted);
    let knows_little =
        Tombstone { buyer: None, placement: None, at: now().plus_ms(5), order_no: number.clone(), ..tombstone.clone() };
    assert_eq!(world.database.claim(&knows_little).await.unwrap(), Claim::Aborted);
    assert_eq!(world.database.order(&number).await.unwrap(), Some(Stored::Aborted(tombstone)));
    assert_eq!(world.database.commit(&order, 1).await.unwrap(), Commit::Exists);
    assert_eq!(world.left("a", 0).await, (5, 1));
}

#[tokio::test]
async fn a_claim_may_know_only_the_number() {
    let world = World::start().await;
    let number = order("alice", 1, &[("a", 0, 1)]).placement.order_no;
    let tombstone =
        Tombstone { order_no: number.clone(), activity: activity_id(), buyer: None, at: now(), placement: None };
    assert_eq!(world.database.claim(&tombstone).await.unwrap(), Claim::Aborted);
    assert_eq!(world.database.order(&number).await.unwrap(), Some(Stored::Aborted(tombstone.clone())));
    let with_buyer = Tombstone { buyer: Some(buyer("bob")), ..tombstone.clone() };
    assert_eq!(world.database.claim(&with_buyer).await.unwrap(), Claim::Aborted);
}

#[tokio::test]
async fn a_claim_that_comes_late_is_told_the_order() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    let order = order("alice", 1, &[("a", 0, 1)]);
    assert_eq!(world.database.commit(&order, 1).await.unwrap(), Commit::Committed);
    let tombstone = order.placement.clone().into_tombstone(now());
    assert_eq!(world.database.claim(&tombstone).await.unwrap(), Claim::Order(Box::new(order)));
}

#[tokio::test]
async fn a_tombstone_outlives_every_queue_and_then_goes() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    let dead = order("alice", 1, &[("a", 0, 1)]);
    let alive = order("bob", 1, &[("a", 0, 1)]);
    assert_eq!(world.database.commit(&alive, 1).await.unwrap(), Commit::Committed);
    // By the real clock: the sweep below goes by it.
    let died_at = SystemClock.now();
    assert_eq!(world.database.claim(&dead.placement.clone().into_tombstone(died_at)).await.unwrap(), Claim::Aborted);
    let item = world.raw(&format!("O#{}", dead.placement.order_no), "O").await.unwrap();
    assert_eq!(item["expires_at"].as_n().unwrap(), &((died_at.get() + TOMBSTONE_LIFE_MS) / 1_000).to_string());
    let days = TOMBSTONE_LIFE_MS / 86_400_000;
    assert!(days > 14, "a queue keeps a message for 14 days");
    // A tombstone of 1970 is past its time; the table sweeps that one and nothing else.
    let old = order("carol", 1, &[("a", 0, 1)]);
    let long_ago = UnixMillis::new(0);
    assert_eq!(world.database.claim(&old.placement.clone().into_tombstone(long_ago)).await.unwrap(), Claim::Aborted);
    assert_eq!(world.server.sweep_ttl().unwrap(), 1);
    assert_eq!(world.database.order(&old.placement.order_no).await.unwrap(), None);
    assert!(world.database.order(&dead.placement.order_no).await.unwrap().is_some());
    assert!(world.database.order(&alive.placement.order_no).await.unwrap().is_some());
}
