//! Stock items outside the order transaction.

use holdfast::{
    domain::{
        ids::{Bucket, BucketCount},
        stock::StockItem,
    },
    ports::{Commit, OrderStore, StockStore},
};

use crate::world::{World, activity_id, bucket, mark, order, sale, sku, stock, text};

/// The item without its time, which a server's clock decides.
fn counters(item: &StockItem) -> (u64, u64, u64, bool) {
    (item.allotted, item.available, item.version, item.on_sale)
}

#[tokio::test]
async fn stock_is_opened_once() {
    let world = World::start().await;
    assert_eq!(world.open("a", 0, 5).await, stock("a", 0, 5));
    assert_eq!(world.database.commit(&order("alice", 1, &[("a", 0, 1)]), 1).await.unwrap(), Commit::Committed);
    // Opening again, even with another number, answers what is there.
    let there = world.database.open_stock(&stock("a", 0, 9), &mark("again")).await.unwrap();
    assert_eq!(counters(&there), (5, 4, 2, true));
    assert_eq!(world.raw("S#sale#a#0", "S").await.unwrap()["op"], text("order"));
}

#[tokio::test]
async fn a_frozen_item_commits_nothing_until_it_is_lifted() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    let set = |on_sale, reference: &'static str| {
        let database = world.database.clone();
        async move {
            let item = database.set_on_sale(&activity_id(), &sku("a"), bucket(0), on_sale, &mark(reference)).await;
            counters(&item.unwrap().unwrap())
        }
    };
    let order = order("alice", 1, &[("a", 0, 1)]);
    assert_eq!(set(false, "freeze").await, (5, 5, 2, false));
    assert_eq!(world.raw("S#sale#a#0", "S").await.unwrap()["ref"], text("freeze"));
    assert_eq!(world.database.commit(&order, 1).await.unwrap(), Commit::Frozen);
    // So already: nothing changes, not even the mark.
    assert_eq!(set(false, "again").await, (5, 5, 2, false));
    assert_eq!(world.raw("S#sale#a#0", "S").await.unwrap()["ref"], text("freeze"));
    assert_eq!(set(true, "lift").await, (5, 5, 3, true));
    assert_eq!(world.database.commit(&order, 1).await.unwrap(), Commit::Committed);
    assert_eq!(world.left("a", 0).await, (4, 4));
}

#[tokio::test]
async fn what_was_never_opened_has_no_switch() {
    let world = World::start().await;
    let none = world.database.set_on_sale(&activity_id(), &sku("a"), bucket(0), false, &mark("x")).await.unwrap();
    assert_eq!(none, None);
    assert!(!world.database.correct_available(&stock("a", 0, 5), 1, &mark("x")).await.unwrap());
    assert_eq!(world.all().await, []);
}

#[tokio::test]
async fn a_correction_needs_the_version_that_it_was_worked_out_from() {
    let world = World::start().await;
    let seen = world.open("a", 0, 5).await;
    assert_eq!(world.database.commit(&order("alice", 1, &[("a", 0, 1)]), 1).await.unwrap(), Commit::Committed);
    assert!(!world.database.correct_available(&seen, 3, &mark("late")).await.unwrap());
    assert_eq!(world.left("a", 0).await, (4, 2));
    let now = StockItem { version: 2, ..seen };
    assert!(world.database.correct_available(&now, 3, &mark("right")).await.unwrap());
    assert_eq!(world.left("a", 0).await, (3, 3));
    // The same correction again finds its own mark: the caller may have lost the first answer.
    assert!(world.database.correct_available(&now, 3, &mark("right")).await.unwrap());
    assert!(!world.database.correct_available(&now, 3, &mark("another")).await.unwrap());
    assert_eq!(world.left("a", 0).await, (3, 3));
}

#[tokio::test]
async fn stock_is_listed_by_bucket_and_by_sku() {
    let world = World::start().await;
    for (name, at) in [("a", 0), ("a", 2), ("b", 0)] {
        world.open(name, at, 5).await;
    }
    let activity = sale(&["a", "b", "c"]);
    let named = |items: Vec<StockItem>| {
        let mut names: Vec<_> = items.iter().map(|item| format!("{}{}", item.sku, item.bucket)).collect();
        names.sort();
        names
    };
    assert_eq!(named(world.database.bucket_stock(&activity, bucket(0)).await.unwrap()), ["a0", "b0"]);
    assert_eq!(named(world.database.bucket_stock(&activity, bucket(5)).await.unwrap()), [""; 0]);
    assert_eq!(named(world.database.stock(&activity, &[sku("a"), sku("a"), sku("c")]).await.unwrap()), ["a0", "a2"]);
}

#[tokio::test]
async fn more_items_than_one_call_reads_are_read() {
    let world = World::start().await;
    let mut activity = sale(&["a", "b"]);
    activity.buckets = BucketCount::new(64).unwrap();
    for at in activity.buckets.all().map(Bucket::get) {
        world.open("a", at, 1).await;
        world.open("b", at, 1).await;
    }
    let items = world.database.stock(&activity, &[sku("a"), sku("b")]).await.unwrap();
    assert_eq!(items.len(), 128);
    assert_eq!(world.control().count("BatchGetItem"), 2);
}
