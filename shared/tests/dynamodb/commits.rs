//! The order transaction: what it writes, and what it answers when it must not.

use holdfast::{
    domain::{
        limit::{LimitScope, PLACEMENTS_MAX},
        order::Stored,
    },
    ports::{Commit, Effect, OrderStore, StockStore},
};

use crate::world::{World, activity_id, bucket, buyer, mark, order, order_within, sku, text};

#[tokio::test]
async fn a_committed_order_is_there_whole_and_stays_the_only_one() {
    let world = World::start().await;
    world.open("a", 0, 10).await;
    world.open("b", 3, 5).await;
    let order = order("alice", 1, &[("a", 0, 2), ("b", 3, 1)]);
    let number = &order.placement.order_no;
    assert_eq!(world.database.order(number).await.unwrap(), None);
    assert_eq!(world.database.commit(&order, 3).await.unwrap(), Commit::Committed);
    assert_eq!(world.database.order(number).await.unwrap(), Some(Stored::Order(order.clone())));
    assert_eq!(
        world.database.buyer_orders(&activity_id(), &buyer("alice")).await.unwrap(),
        std::slice::from_ref(number)
    );
    assert_eq!((world.left("a", 0).await, world.left("b", 3).await), ((8, 2), (4, 2)));
    let before = world.all().await;
    assert_eq!(world.database.commit(&order, 3).await.unwrap(), Commit::Exists);
    assert_eq!(world.all().await, before);
}

#[tokio::test]
async fn items_are_written_plainly() {
    let world = World::start().await;
    world.open("a", 0, 10).await;
    let order = order("alice", 1, &[("a", 0, 2)]);
    let number = order.placement.order_no.as_str();
    assert_eq!(world.database.commit(&order, 3).await.unwrap(), Commit::Committed);
    let item = world.raw(&format!("O#{number}"), "O").await.unwrap();
    assert_eq!(item["home"], text(&format!("sale#{}", order.placement.home)));
    assert_eq!(item["due"], text(&format!("2026-11-29T20:15:00.001Z#{number}")));
    assert_eq!(item["status"], text("PENDING_PAYMENT"));
    assert_eq!(item["format"].as_n().unwrap(), "1");
    assert_eq!(item["lines"].as_l().unwrap()[0].as_m().unwrap()["price"].as_n().unwrap(), "49900");
    assert!(!item.contains_key("expires_at"));
    let guard = world.raw("B#sale#alice", "G#A").await.unwrap();
    assert_eq!(guard["units"].as_n().unwrap(), "2");
    let entry = guard["orders"].as_l().unwrap()[0].as_m().unwrap();
    assert_eq!((entry["order_no"].as_s().unwrap().as_str(), entry["units"].as_n().unwrap().as_str()), (number, "2"));
    let stock = world.raw("S#sale#a#0", "S").await.unwrap();
    assert_eq!((stock["op"].clone(), stock["operator"].clone()), (text("order"), text("place-order")));
    assert_eq!(stock["ref"], text(number));
}

#[tokio::test]
async fn parts_on_one_item_are_one_action_and_one_version() {
    let world = World::start().await;
    world.open("a", 0, 10).await;
    let order = order("alice", 1, &[("a", 0, 2), ("a", 0, 3)]);
    assert_eq!(world.database.commit(&order, 5).await.unwrap(), Commit::Committed);
    assert_eq!(world.left("a", 0).await, (5, 2));
}

/// What stands in the way of an order of two units in bucket 0 and two in bucket 1.
struct Obstacle {
    name: &'static str,
    /// The same order was committed before.
    stored: bool,
    /// Another order of the buyer was committed before, and the limit is 4.
    counted: bool,
    frozen: &'static [u16],
    /// Units of each bucket; `None` was never put on sale.
    units: [Option<u64>; 2],
    expected: Commit,
}

#[tokio::test]
async fn each_refusal_writes_nothing_and_the_first_in_precedence_is_told() {
    let clear =
        Obstacle { name: "", stored: false, counted: false, frozen: &[], units: [Some(9); 2], expected: Commit::Busy };
    let short = |buckets: &[u16]| Commit::Short(buckets.iter().map(|at| (sku("a"), bucket(*at))).collect());
    let cases = [
        Obstacle { name: "stored", stored: true, expected: Commit::Exists, ..clear },
        Obstacle { name: "limit", counted: true, expected: Commit::LimitReached, ..clear },
        Obstacle { name: "frozen", frozen: &[1], expected: Commit::Frozen, ..clear },
        Obstacle { name: "short", units: [Some(9), Some(1)], expected: short(&[1]), ..clear },
        Obstacle { name: "absent", units: [None, Some(9)], expected: short(&[0]), ..clear },
        Obstacle { name: "both short", units: [Some(0), None], expected: short(&[0, 1]), ..clear },
        Obstacle { name: "frozen and short", frozen: &[0], units: [Some(0), None], expected: Commit::Frozen, ..clear },
        Obstacle {
            name: "limit, frozen and short",
            counted: true,
            frozen: &[0],
            units: [Some(2), Some(0)],
            expected: Commit::LimitReached,
            ..clear
        },
        Obstacle {
            name: "all",
            stored: true,
            counted: true,
            frozen: &[0, 1],
            units: [Some(2), Some(2)],
            expected: Commit::Exists,
        },
    ];
    for case in cases {
        assert_obstacle(case).await;
    }
}

async fn assert_obstacle(case: Obstacle) {
    let world = World::start().await;
    for (at, units) in [0, 1].into_iter().zip(case.units) {
        if let Some(units) = units {
            world.open("a", at, units).await;
        }
    }
    let wanted = order("alice", 1, &[("a", 0, 2), ("a", 1, 2)]);
    if case.stored {
        assert_eq!(world.database.commit(&wanted, 4).await.unwrap(), Commit::Committed);
    } else if case.counted {
        world.open("other", 0, 1).await;
        let other = order("alice", 2, &[("other", 0, 1)]);
        assert_eq!(world.database.commit(&other, 4).await.unwrap(), Commit::Committed);
    }
    for at in case.frozen {
        let frozen = world.database.set_on_sale(&activity_id(), &sku("a"), bucket(*at), false, &mark("freeze")).await;
        assert!(!frozen.unwrap().unwrap().on_sale);
    }
    let before = world.all().await;
    assert_eq!(world.database.commit(&wanted, 4).await.unwrap(), case.expected, "{}", case.name);
    assert_eq!(world.all().await, before, "{}", case.name);
}

#[tokio::test]
async fn f3_the_limit_holds_from_the_first_order_on_and_is_judged_after_what_is_stored() {
    let world = World::start().await;
    world.open("a", 0, 10).await;
    let two = order("alice", 1, &[("a", 0, 2)]);
    // No guard yet: one order alone is above the limit.
    assert_eq!(world.database.commit(&two, 1).await.unwrap(), Commit::LimitReached);
    assert_eq!(world.database.commit(&two, 2).await.unwrap(), Commit::Committed);
    // The limit was lowered since: a replay of the order is still a replay.
    assert_eq!(world.database.commit(&two, 1).await.unwrap(), Commit::Exists);
    let one = order("alice", 2, &[("a", 0, 1)]);
    assert_eq!(world.database.commit(&one, 2).await.unwrap(), Commit::LimitReached);
    assert_eq!(world.database.commit(&one, 3).await.unwrap(), Commit::Committed);
    assert_eq!(world.left("a", 0).await, (7, 3));
}

#[tokio::test]
async fn scopes_count_by_themselves() {
    let world = World::start().await;
    world.open("a", 0, 10).await;
    world.open("b", 0, 10).await;
    let per_sku = |submission, parts: &[_]| order_within(LimitScope::Sku, "alice", submission, parts);
    let first = per_sku(1, &[("a", 0, 2)]);
    assert_eq!(world.database.commit(&first, 2).await.unwrap(), Commit::Committed);
    let both = per_sku(2, &[("a", 0, 1), ("b", 0, 1)]);
    assert_eq!(world.database.commit(&both, 2).await.unwrap(), Commit::LimitReached);
    assert_eq!(world.database.commit(&both, 3).await.unwrap(), Commit::Committed);
    let mut listed = world.database.buyer_orders(&activity_id(), &buyer("alice")).await.unwrap();
    let mut expected = vec![first.placement.order_no, both.placement.order_no];
    listed.sort();
    expected.sort();
    assert_eq!(listed, expected);
    assert_eq!(world.database.buyer_orders(&activity_id(), &buyer("bob")).await.unwrap(), []);
}

#[tokio::test]
async fn a_guard_lists_a_bounded_number_of_orders() {
    let world = World::start().await;
    world.open("a", 0, 100).await;
    for submission in 1..=u32::try_from(PLACEMENTS_MAX).unwrap() {
        let order = order("alice", submission, &[("a", 0, 1)]);
        assert_eq!(world.database.commit(&order, 1_000).await.unwrap(), Commit::Committed);
    }
    let one_more = order("alice", 999, &[("a", 0, 1)]);
    assert_eq!(world.database.commit(&one_more, 1_000).await.unwrap(), Commit::LimitReached);
    assert_eq!(world.database.buyer_orders(&activity_id(), &buyer("alice")).await.unwrap().len(), PLACEMENTS_MAX);
}

#[tokio::test]
async fn ninety_actions_are_sent_and_more_are_not() {
    let world = World::start().await;
    let mut parts = Vec::new();
    for name in ["a", "b"] {
        for at in 0..44 {
            world.open(name, at, 1).await;
            parts.push((name, at, 1));
        }
    }
    // An order and a guard make it 90.
    let most = order("alice", 1, &parts);
    world.open("a", 44, 1).await;
    parts.push(("a", 44, 1));
    let too_many = order("alice", 2, &parts);
    let fault = world.database.commit(&too_many, 1_000).await.unwrap_err();
    assert_eq!((fault.effect, world.transactions()), (Effect::None, 0));
    assert!(fault.chain().contains("91 actions"), "{}", fault.chain());
    assert_eq!(world.database.commit(&most, 1_000).await.unwrap(), Commit::Committed);
    assert_eq!((world.left("a", 43).await, world.left("b", 0).await), ((0, 2), (0, 2)));
}
