//! Moves of stock: one transaction under one id.

use holdfast::{
    domain::stock::MoveId,
    ports::{Commit, MovePart, MoveStore, Moved, OrderStore, StockMove, StockStore},
};

use crate::world::{World, activity_id, bucket, mark, now, order, sale, sku};

fn change(id: &str, parts: &[(u16, i64)]) -> StockMove {
    StockMove {
        id: MoveId::parse(id).unwrap(),
        activity: activity_id(),
        sku: sku("a"),
        parts: parts.iter().map(|(index, units)| MovePart { bucket: bucket(*index), units: *units }).collect(),
        operator: "op".to_owned(),
        reason: "more came".to_owned(),
        at: now(),
    }
}

/// Allotted, available and version of `a` in a bucket.
async fn stock(world: &World, index: u16) -> (u64, u64, u64) {
    let items = world.database.bucket_stock(&sale(&["a"]), bucket(index)).await.unwrap();
    (items[0].allotted, items[0].available, items[0].version)
}

#[tokio::test]
async fn a_move_is_made_once_up_down_and_never_beyond_what_is_left() {
    let world = World::start().await;
    world.open("a", 0, 10).await;
    world.open("a", 1, 10).await;
    let sold = order("alice", 1, &[("a", 0, 4)]);
    assert_eq!(world.database.commit(&sold, 4).await.unwrap(), Commit::Committed);
    let up = change("up", &[(0, 3), (1, 2)]);
    assert_eq!(world.database.make_move(&up, &mark("up")).await.unwrap(), Moved::Done);
    assert_eq!((stock(&world, 0).await, stock(&world, 1).await), ((13, 9, 3), (12, 12, 2)));
    assert_eq!(world.raw("S#sale#a#0", "S").await.unwrap()["ref"], crate::world::text("up"));
    assert_eq!(world.database.stock_move(&activity_id(), &up.id).await.unwrap(), Some(up.clone()));

    // One more than is left in bucket 0, although it has more on sale and bucket 1 could give.
    let before = world.all().await;
    let too_much = change("too-much", &[(0, -10), (1, -1)]);
    assert_eq!(world.database.make_move(&too_much, &mark("too much")).await.unwrap(), Moved::Short);
    assert_eq!(world.database.make_move(&change("none", &[(5, 1)]), &mark("none")).await.unwrap(), Moved::Short);
    // The same id again, even with other parts, is the move that was made.
    let again = change("up", &[(0, 1)]);
    assert_eq!(world.database.make_move(&again, &mark("again")).await.unwrap(), Moved::Already(Box::new(up)));
    assert_eq!(world.all().await, before);

    let down = change("down", &[(0, -9), (1, 9)]);
    assert_eq!(world.database.make_move(&down, &mark("down")).await.unwrap(), Moved::Done);
    assert_eq!((stock(&world, 0).await, stock(&world, 1).await), ((4, 0, 4), (21, 21, 3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn moves_and_orders_at_once_keep_the_sum() {
    let world = World::patient().await;
    world.open("a", 0, 30).await;
    let orders = (0..40_u32).map(|index| {
        let (database, order) = (world.database.clone(), order(&format!("buyer{index}"), index, &[("a", 0, 1)]));
        tokio::spawn(async move { database.commit(&order, 1).await.unwrap() == Commit::Committed })
    });
    let orders: Vec<_> = orders.collect();
    // Each id by two callers.
    let moves = (0..20_i64).map(|index| {
        let database = world.database.clone();
        let change = change(&format!("m{}", index / 2), &[(0, if index / 2 % 2 == 0 { 2 } else { -3 })]);
        tokio::spawn(async move {
            let moved = database.make_move(&change, &mark("move")).await.unwrap();
            if moved == Moved::Done { change.delta() } else { 0 }
        })
    });
    let moves: Vec<_> = moves.collect();
    let (mut sold, mut added) = (0, 0);
    for task in orders {
        sold += u64::from(task.await.unwrap());
    }
    for task in moves {
        added += task.await.unwrap();
    }
    let (allotted, available, _) = stock(&world, 0).await;
    assert_eq!(allotted, 30_u64.strict_add_signed(added));
    assert_eq!(available + sold, allotted);
}
