//! Parts in other buckets: deduct, look, undo.

use holdfast::{
    domain::{
        order::{Placement, Take},
        record::{Rank, Side},
    },
    ports::{Deducted, OrderGate, PlaceAnswer, StockGate, Undone},
};

use super::support::{Sale, World, bucket, record_text, sentinel, units};

async fn deduct(world: &World, sale: &Sale, placement: &Placement, at: u16, lines: &[(&str, u32)]) -> Deducted {
    world.gate.deduct(&sale.activity, placement, bucket(at), &units(lines)).await.unwrap()
}

async fn undo(world: &World, sale: &Sale, placement: &Placement, at: u16) -> Undone {
    world.gate.undo(&sale.activity, placement, bucket(at)).await.unwrap()
}

/// A submission at home in bucket 0 of a sale with two buckets.
fn submission(sale: &Sale, lines: &[(&str, u32)]) -> Placement {
    sale.placement(&sale.buyer_at(0), 1, lines)
}

pub async fn f23_a_part_is_taken_changed_and_taken_back(world: &World) {
    let sale = world.sale(2, &[("a", 5), ("b", 5)]).await;
    let placement = submission(&sale, &[("a", 9), ("b", 2)]);
    for _ in 0..2 {
        assert_eq!(deduct(world, &sale, &placement, 1, &[("a", 4), ("b", 2)]).await, Deducted::Done);
        assert_eq!(world.counters(&sale, 1, "a").await, (1, 4, 5));
    }
    let first = world.record(&sale, &placement, 1).await.unwrap();
    assert_eq!((first.rank(), &first.held), (Rank::of(Take::FIRST, Side::Deducted), &units(&[("a", 4), ("b", 2)])));
    assert_eq!(first.placement.as_ref(), Some(&placement));
    world.set_part(&sale.keys(1).orders, placement.order_no.as_str(), 3, "1000").await;
    // More of one, none of the other: exactly what is wanted.
    assert_eq!(deduct(world, &sale, &placement, 1, &[("a", 5)]).await, Deducted::Done);
    assert_eq!(world.counters(&sale, 1, "a").await, (0, 5, 5));
    assert_eq!(world.counters(&sale, 1, "b").await, (5, 0, 5));
    let changed = world.record(&sale, &placement, 1).await.unwrap();
    assert_eq!((changed.held, changed.at.get()), (units(&[("a", 5)]), 1000), "as old as it was");
    world.assert_sums(&sale, 1).await;
    assert_eq!(undo(world, &sale, &placement, 1).await, Undone::Done);
    assert_eq!(undo(world, &sale, &placement, 1).await, Undone::Absent);
    assert_eq!(world.counters(&sale, 1, "a").await, (5, 0, 5));
}

pub async fn outcomes_of_deducting_come_in_their_order(world: &World) {
    let mut sale = world.sale_of(2, &[("a", 5)], |activity| activity.bucket_rate = 1).await;
    let keys = sale.keys(1);
    let placement = submission(&sale, &[("a", 9)]);
    let number = placement.order_no.as_str().to_owned();
    let text = |side, take, held| record_text(side, take, placement.lines_hash.as_str(), held, &placement);
    let answers = |answer: Deducted, expected: Deducted| assert_eq!(answer, expected);

    world.hset(&keys.orders, &number, "garbage").await;
    world.set_sku(&sale, 1, "a", "on_sale", "0").await;
    world.hdel(&keys.orders, sentinel()).await;
    answers(deduct(world, &sale, &placement, 1, &[("a", 9)]).await, Deducted::Unusable);
    world.hset(&keys.orders, sentinel(), "1").await;
    sale.activity.version = 2;
    answers(deduct(world, &sale, &placement, 1, &[("a", 9)]).await, Deducted::Unusable);
    sale.activity.version = 1;
    answers(deduct(world, &sale, &placement, 1, &[("a", 9)]).await, Deducted::BadData);
    world.hset(&keys.orders, &number, &text("R", Take::FIRST, "a=9")).await;
    answers(deduct(world, &sale, &placement, 1, &[("a", 9)]).await, Deducted::GivenBack);
    world.hset(&keys.orders, &number, &text("D", Take::SECOND, "a=2")).await;
    answers(deduct(world, &sale, &placement, 1, &[("a", 9)]).await, Deducted::GivenBack);
    answers(deduct(world, &sale, &placement, 1, &[("a", 2)]).await, Deducted::Done);
    world.hset(&keys.orders, &number, &text("D", Take::FIRST, "a=2")).await;
    let before = world.dump(&sale, 1).await;
    answers(deduct(world, &sale, &placement, 1, &[("a", 9)]).await, Deducted::Frozen);
    answers(deduct(world, &sale, &placement, 1, &[("a", 2)]).await, Deducted::Done);
    world.set_sku(&sale, 1, "a", "on_sale", "1").await;
    // It holds 2 already.
    answers(deduct(world, &sale, &placement, 1, &[("a", 9)]).await, Deducted::Short(vec![7]));
    world.set_sku(&sale, 1, "a", "on_sale", "0").await;
    assert_eq!(world.dump(&sale, 1).await, before);

    world.set_sku(&sale, 1, "a", "on_sale", "1").await;
    world.hdel(&keys.orders, &number).await;
    limited_then_short(world, &sale, &placement).await;
    world.set_sku(&sale, 1, "a", "free", "-2").await;
    answers(deduct(world, &sale, &placement, 1, &[("a", 1)]).await, Deducted::Short(vec![0]));
    world.set_sku(&sale, 1, "a", "free", "5").await;
    answers(deduct(world, &sale, &placement, 1, &[("a", 5)]).await, Deducted::Done);
}

async fn limited_then_short(world: &World, sale: &Sale, placement: &Placement) {
    let key = sale.keys(1).bucket;
    for _ in 0..20 {
        let second = world.second(&key).await;
        world.set_admitted(sale, 1, &second, 1).await;
        let limited = deduct(world, sale, placement, 1, &[("a", 9)]).await;
        let look = world.gate.look(&sale.activity, placement, &[bucket(1)]).await.unwrap();
        if world.second(&key).await == second {
            assert_eq!(limited, Deducted::Limited);
            assert!(look[0].limited);
            world.set_admitted(sale, 1, "1", 0).await;
            assert_eq!(deduct(world, sale, placement, 1, &[("a", 9)]).await, Deducted::Short(vec![5]));
            return;
        }
    }
    panic!("the machine is too slow for this test");
}

pub async fn outcomes_of_undoing_come_in_their_order(world: &World) {
    let sale = world.sale(2, &[("a", 5)]).await;
    let keys = sale.keys(1);
    let placement = submission(&sale, &[("a", 9)]);
    let number = placement.order_no.as_str();
    assert_eq!(undo(world, &sale, &placement, 1).await, Undone::Absent);
    for (text, expected) in [
        ("garbage".to_owned(), Undone::BadData),
        (record_text("R", Take::FIRST, placement.lines_hash.as_str(), "a=1", &placement), Undone::GivenBack),
        (record_text("D", Take::SECOND, placement.lines_hash.as_str(), "a=1", &placement), Undone::GivenBack),
    ] {
        world.hset(&keys.orders, number, &text).await;
        let before = world.dump(&sale, 1).await;
        assert_eq!(undo(world, &sale, &placement, 1).await, expected);
        assert_eq!(world.dump(&sale, 1).await, before);
    }
    // Memory lost: the record goes, there is no stock to give back to.
    world
        .hset(&keys.orders, number, &record_text("D", Take::FIRST, placement.lines_hash.as_str(), "a=1", &placement))
        .await;
    world.del(&keys.bucket).await;
    assert_eq!(undo(world, &sale, &placement, 1).await, Undone::Done);
    assert_eq!(undo(world, &sale, &placement, 1).await, Undone::Absent);
    assert!(!world.gate.read_bucket(&sale.activity, bucket(1)).await.unwrap().present);
}

pub async fn looking_tells_what_is_free_and_writes_nothing(world: &World) {
    let mut sale = world.sale(4, &[("a", 5), ("b", 2)]).await;
    let placement = submission(&sale, &[("a", 9), ("b", 1)]);
    assert_eq!(deduct(world, &sale, &placement, 1, &[("a", 4)]).await, Deducted::Done);
    world.set_sku(&sale, 2, "b", "on_sale", "0").await;
    world.flush(&sale, 3).await;
    let buckets = [bucket(3), bucket(1), bucket(2), bucket(0)];
    let before = [world.dump(&sale, 0).await, world.dump(&sale, 1).await, world.dump(&sale, 2).await];
    let looks = world.gate.look(&sale.activity, &placement, &buckets).await.unwrap();
    let seen: Vec<_> = looks.iter().map(|look| (look.bucket, look.free.clone(), look.record.is_some())).collect();
    let expected = [
        (bucket(3), vec![], false),
        (bucket(1), vec![1, 2], true),
        (bucket(2), vec![], false),
        (bucket(0), vec![5, 2], false),
    ];
    assert_eq!(seen, expected);
    assert_eq!(looks[1].record, world.record(&sale, &placement, 1).await);
    sale.activity.version = 9;
    let looks = world.gate.look(&sale.activity, &placement, &buckets).await.unwrap();
    assert!(looks.iter().all(|look| look.free.is_empty()), "another configuration");
    sale.activity.version = 1;
    assert_eq!([world.dump(&sale, 0).await, world.dump(&sale, 1).await, world.dump(&sale, 2).await], before);
    assert!(world.gate.look(&sale.activity, &placement, &[]).await.unwrap().is_empty());
    world.set_sku(&sale, 0, "a", "free", "-4").await;
    assert_eq!(world.gate.look(&sale.activity, &placement, &[bucket(0)]).await.unwrap()[0].free, [0, 2]);
}

pub async fn a_look_then_parts_then_an_undo_leave_no_trace(world: &World) {
    let sale = world.sale(3, &[("a", 2)]).await;
    let placement = submission(&sale, &[("a", 6)]);
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Short(vec![2]));
    assert_eq!(world.look(&sale, &placement).await, PlaceAnswer::Admitted(vec![2]));
    assert_eq!(deduct(world, &sale, &placement, 1, &[("a", 2)]).await, Deducted::Done);
    assert_eq!(deduct(world, &sale, &placement, 2, &[("a", 2)]).await, Deducted::Done);
    // Home gives one back: an order may be filled differently by a later try.
    assert_eq!(deduct(world, &sale, &placement, 0, &[("a", 1)]).await, Deducted::Done);
    assert!(world.marked(&sale, &placement).await);
    for at in [2, 1, 0] {
        world.assert_sums(&sale, at).await;
        assert_eq!(undo(world, &sale, &placement, at).await, Undone::Done);
        assert_eq!(undo(world, &sale, &placement, at).await, Undone::Absent);
        assert_eq!(world.counters(&sale, at, "a").await, (2, 0, 2));
    }
    assert!(!world.marked(&sale, &placement).await);
    let page = world.gate.list_records(&sale.activity.id, bucket(0), 0).await.unwrap();
    assert!(page.records.is_empty() && page.marked.is_empty());
}

pub async fn at_home_a_new_record_marks_the_buyer(world: &World) {
    let sale = world.sale(1, &[("a", 5)]).await;
    let placement = submission(&sale, &[("a", 2)]);
    assert_eq!(deduct(world, &sale, &placement, 0, &[("a", 2)]).await, Deducted::Done);
    assert!(world.marked(&sale, &placement).await);
    let second = sale.placement(&sale.buyer_at(0), 2, &[("a", 1)]);
    assert_eq!(world.place(&sale, &second).await, PlaceAnswer::Admitted(vec![1]));
    assert_eq!(undo(world, &sale, &placement, 0).await, Undone::Done);
    assert!(!world.marked(&sale, &placement).await);
    assert!(world.marked(&sale, &second).await, "the other order of the buyer keeps its mark");
}
