//! The home script.

use holdfast::{
    domain::{
        limit::{Limit, LimitScope},
        order::{Placement, Take},
        order_no::OrderNo,
        record::Side,
    },
    ports::{
        GateRefusal::{Ended, Frozen, LimitReached, Limited, NotStarted},
        PlaceAnswer::{
            self, Admitted, BadData, ConfigurationChanged, GivenBack, MemoryLost, Mismatch, Refused, Replayed, Short,
        },
        Preheated,
    },
};
use redis::cmd;
use tokio::task::JoinSet;

use super::support::{HOUR_MS, Sale, World, mark_field, now, record_text, sentinel};

/// Asserts the answer and that nothing was written.
async fn refused(world: &World, sale: &Sale, placement: &Placement, expected: PlaceAnswer) {
    let before = world.dump(sale, 0).await;
    assert_eq!(world.place(sale, placement).await, expected);
    assert_eq!(world.dump(sale, 0).await, before, "{expected:?} wrote something");
}

/// Fills this second's admissions and asserts the answer, again when the second ended in between.
async fn refused_in_a_full_second(world: &World, sale: &Sale, placement: &Placement, expected: PlaceAnswer) {
    let key = sale.keys(0).bucket;
    for _ in 0..20 {
        let second = world.second(&key).await;
        world.set_admitted(sale, 0, &second, sale.activity.bucket_rate).await;
        let before = world.dump(sale, 0).await;
        let answer = world.place(sale, placement).await;
        if world.second(&key).await == second {
            assert_eq!(answer, expected);
            assert_eq!(world.dump(sale, 0).await, before, "{expected:?} wrote something");
            return;
        }
        world.gate_undo(sale, placement).await;
    }
    panic!("the machine is too slow for this test");
}

impl World {
    async fn gate_undo(&self, sale: &Sale, placement: &Placement) {
        use holdfast::ports::OrderGate;
        let _ = self.gate.undo(&sale.activity, placement, placement.home).await.unwrap();
    }
}

/// Starts with everything wrong at once and puts it right one by one: each refusal comes before all
/// those below it.
pub async fn outcomes_come_in_their_order_and_refusals_write_nothing(world: &World) {
    let mut sale = Sale::new(1, &[("a", 1)]);
    sale.activity.limit.max = 5;
    let keys = sale.keys(0);
    let placement = sale.placement("alice", 1, &[("a", 2)]);
    let (number, field) = (placement.order_no.as_str(), mark_field(&placement));
    refused(world, &sale, &placement, MemoryLost).await;

    sale.activity.version = 2;
    assert_eq!(world.preheat(&sale, 0).await, Preheated::Loaded);
    sale.activity.version = 1;
    world.hset(&keys.orders, number, "9|?|").await;
    let other = sale.placement("alice", 2, &[("a", 1)]).order_no;
    world.hset(&keys.orders, &field, &format!("{other}=4")).await;
    world.set_sku(&sale, 0, "a", "on_sale", "0").await;
    world.set_control(&sale, 0, "ends_ms", &now().plus_ms(-1).get().to_string()).await;
    world.hdel(&keys.orders, sentinel()).await;
    refused(world, &sale, &placement, MemoryLost).await;

    world.hset(&keys.orders, sentinel(), "1").await;
    refused(world, &sale, &placement, ConfigurationChanged).await;
    sale.activity.version = 2;
    refused_in_a_full_second(world, &sale, &placement, BadData).await;

    let hash = placement.lines_hash.as_str();
    world.hset(&keys.orders, number, &record_text("R", Take::FIRST, hash, "a=2", &placement)).await;
    refused_in_a_full_second(world, &sale, &placement, GivenBack).await;
    world.hset(&keys.orders, number, &record_text("D", Take::FIRST, &hash.replace('0', "1"), "a=2", &placement)).await;
    world.hset(&keys.orders, number, &record_text("D", Take::FIRST, &"0".repeat(32), "a=2", &placement)).await;
    refused_in_a_full_second(world, &sale, &placement, Mismatch).await;
    world.hset(&keys.orders, number, &record_text("D", Take::FIRST, hash, "a=2", &placement)).await;
    let record = world.record(&sale, &placement, 0).await.unwrap();
    assert_eq!(record.placement.as_ref(), Some(&placement));
    refused_in_a_full_second(world, &sale, &placement, Replayed(Box::new(record))).await;

    world.hdel(&keys.orders, number).await;
    refused_in_a_full_second(world, &sale, &placement, Refused(Ended)).await;
    world.set_control(&sale, 0, "starts_ms", &now().plus_ms(HOUR_MS).get().to_string()).await;
    refused_in_a_full_second(world, &sale, &placement, Refused(NotStarted)).await;
    world.set_control(&sale, 0, "starts_ms", "0").await;
    world.set_control(&sale, 0, "ends_ms", &now().plus_ms(HOUR_MS).get().to_string()).await;
    refused_in_a_full_second(world, &sale, &placement, Refused(Frozen)).await;
    world.set_sku(&sale, 0, "a", "on_sale", "1").await;
    refused_in_a_full_second(world, &sale, &placement, Refused(Limited)).await;
    world.set_admitted(&sale, 0, "1", 0).await;
    refused(world, &sale, &placement, Refused(LimitReached(vec![other]))).await;
    world.hdel(&keys.orders, &field).await;
    refused(world, &sale, &placement, Short(vec![1])).await;
    world.set_sku(&sale, 0, "a", "free", "-3").await;
    refused(world, &sale, &placement, Short(vec![0])).await;
    world.set_sku(&sale, 0, "a", "free", "2").await;
    assert_eq!(world.place(&sale, &placement).await, Admitted(vec![2]));
}

pub async fn before_the_window_lost_memory_is_not_started(world: &World) {
    let mut sale = Sale::new(1, &[("a", 1)]);
    sale.activity.window.starts_at = now().plus_ms(HOUR_MS / 2);
    let placement = sale.placement("alice", 1, &[("a", 1)]);
    refused(world, &sale, &placement, Refused(NotStarted)).await;
    // By the bucket's own window too, once it is loaded.
    assert_eq!(world.preheat(&sale, 0).await, Preheated::Loaded);
    refused(world, &sale, &placement, Refused(NotStarted)).await;
}

pub async fn the_same_submission_is_admitted_once(world: &World) {
    let sale = world.sale(1, &[("a", 5)]).await;
    let placement = sale.placement("alice", 1, &[("a", 2)]);
    assert_eq!(world.place(&sale, &placement).await, Admitted(vec![2]));
    let after = world.dump(&sale, 0).await;
    // A retry computes prices and times anew: the first ones count.
    let mut retry = sale.placement("alice", 1, &[("a", 2)]);
    retry.pay_before = retry.pay_before.plus_ms(HOUR_MS);
    for _ in 0..2 {
        let Replayed(record) = world.place(&sale, &retry).await else { panic!("not a replay") };
        assert_eq!(record.placement.as_ref(), Some(&placement));
        assert_eq!((record.side, record.take), (Side::Deducted, Take::FIRST));
        assert!(record.at.since_ms(placement.created_at).abs() < 60_000, "written at Redis's time");
    }
    assert_eq!(world.look(&sale, &retry).await, world.place(&sale, &retry).await);
    assert_eq!(world.place(&sale, &sale.placement("alice", 1, &[("a", 1)])).await, Mismatch);
    assert_eq!(world.dump(&sale, 0).await, after);
    assert_eq!(world.counters(&sale, 0, "a").await, (3, 2, 5));
    assert!(world.marked(&sale, &placement).await);
    let ledger: usize = world.raw(cmd("XLEN").arg(sale.keys(0).ledger)).await;
    assert_eq!(ledger, 2, "the preheat and one admission");
}

pub async fn limits_count_per_scope_and_list_the_orders(world: &World) {
    for (scope, second_sku) in [(LimitScope::Activity, false), (LimitScope::Sku, true), (LimitScope::Day, false)] {
        let limit = Limit { scope, max: 3 };
        let sale = world.sale_of(1, &[("a", 50), ("b", 50)], |activity| activity.limit = limit).await;
        let first = sale.placement("alice", 1, &[("a", 2)]);
        assert_eq!(world.place(&sale, &first).await, Admitted(vec![2]));
        let over = sale.placement("alice", 2, &[("a", 2)]);
        let reached = Refused(LimitReached(vec![first.order_no.clone()]));
        refused(world, &sale, &over, reached.clone()).await;
        let other_sku = sale.placement("alice", 3, &[("b", 3)]);
        let expected = if second_sku { Admitted(vec![3]) } else { reached };
        assert_eq!(world.place(&sale, &other_sku).await, expected);
        // The last unit of the limit, and another buyer.
        assert_eq!(world.place(&sale, &sale.placement("alice", 4, &[("a", 1)])).await, Admitted(vec![1]));
        assert_eq!(world.place(&sale, &sale.placement("bob", 5, &[("a", 3)])).await, Admitted(vec![3]));
        world.assert_sums(&sale, 0).await;
    }
}

pub async fn a_scope_lists_twenty_placements_at_most(world: &World) {
    let sale = world.sale(1, &[("a", 50)]).await;
    let mut orders: Vec<OrderNo> = Vec::new();
    for token in 0..20 {
        let placement = sale.placement("alice", token, &[("a", 1)]);
        assert_eq!(world.place(&sale, &placement).await, Admitted(vec![1]));
        orders.push(placement.order_no);
    }
    refused(world, &sale, &sale.placement("alice", 20, &[("a", 1)]), Refused(LimitReached(orders))).await;
}

pub async fn the_rate_counts_admissions_of_one_second(world: &World) {
    let sale = world.sale_of(1, &[("a", 50)], |activity| activity.bucket_rate = 3).await;
    let key = sale.keys(0).bucket;
    for attempt in 0..20 {
        let second = world.second(&key).await;
        // A refusal does not count, so the sold out SKU changes nothing.
        let mut answers = Vec::new();
        for token in 0..6 {
            let units = if token == 1 { 999 } else { 1 };
            answers.push(world.place(&sale, &sale.placement(&format!("b{attempt}"), token, &[("a", units)])).await);
        }
        if world.second(&key).await == second {
            let admitted = answers.iter().filter(|answer| **answer == Admitted(vec![1])).count();
            assert_eq!(admitted, 3, "{answers:?}");
            assert!(matches!(answers[1], Short(_)), "{answers:?}");
            assert_eq!(answers[5], Refused(Limited));
            // The next second has its own.
            world.set_admitted(&sale, 0, "1", 0).await;
            assert_eq!(world.place(&sale, &sale.placement("late", 9, &[("a", 1)])).await, Admitted(vec![1]));
            return;
        }
    }
    panic!("the machine is too slow for this test");
}

pub async fn several_skus_are_taken_together_or_not_at_all(world: &World) {
    let sale = world.sale(1, &[("a", 5), ("b", 1), ("c", 9)]).await;
    refused(world, &sale, &sale.placement("alice", 1, &[("a", 2), ("b", 2), ("c", 1)]), Short(vec![5, 1, 9])).await;
    let placement = sale.placement("alice", 1, &[("c", 1), ("a", 2), ("b", 1)]);
    assert_eq!(world.place(&sale, &placement).await, Admitted(vec![2, 1, 1]));
    assert_eq!(world.counters(&sale, 0, "a").await, (3, 2, 5));
    assert_eq!(world.counters(&sale, 0, "b").await, (0, 1, 1));
    assert_eq!(world.counters(&sale, 0, "c").await, (8, 1, 9));
}

pub async fn looking_takes_what_is_there(world: &World) {
    let sale = world.sale(1, &[("a", 1), ("b", 9)]).await;
    let first = sale.placement("alice", 1, &[("a", 3), ("b", 2)]);
    assert_eq!(world.look(&sale, &first).await, Admitted(vec![1, 2]));
    let nothing = sale.placement("bob", 2, &[("a", 3)]);
    assert_eq!(world.look(&sale, &nothing).await, Admitted(vec![0]));
    assert_eq!(world.record(&sale, &nothing, 0).await.unwrap().held[0].1, 0);
    assert!(world.marked(&sale, &nothing).await, "an order that looks around counts for its buyer");
    world.assert_sums(&sale, 0).await;
}

pub async fn the_last_unit_is_sold_once(world: &World) {
    let sale = world.sale(1, &[("a", 1)]).await;
    let mut placing = JoinSet::new();
    for n in 0..64_u8 {
        let (gate, sale) = (world.gate.clone(), sale.clone());
        placing.spawn(async move {
            let placement = sale.placement(&format!("buyer-{n}"), n, &[("a", 1)]);
            let call = holdfast::ports::PlaceCall { activity: &sale.activity, placement: &placement, look: false };
            holdfast::ports::OrderGate::place(&gate, call).await.unwrap()
        });
    }
    let answers = placing.join_all().await;
    assert_eq!(answers.iter().filter(|answer| **answer == Admitted(vec![1])).count(), 1);
    assert_eq!(answers.iter().filter(|answer| **answer == Short(vec![0])).count(), 63);
    assert_eq!(world.counters(&sale, 0, "a").await, (0, 1, 1));
}

pub async fn f7_one_submission_sent_many_times_at_once_takes_once(world: &World) {
    let sale = world.sale(1, &[("a", 100)]).await;
    let placement = sale.placement("alice", 1, &[("a", 2)]);
    let mut placing = JoinSet::new();
    for _ in 0..64 {
        let (gate, sale, placement) = (world.gate.clone(), sale.clone(), placement.clone());
        placing.spawn(async move {
            let call = holdfast::ports::PlaceCall { activity: &sale.activity, placement: &placement, look: false };
            holdfast::ports::OrderGate::place(&gate, call).await.unwrap()
        });
    }
    let answers = placing.join_all().await;
    assert_eq!(answers.iter().filter(|answer| **answer == Admitted(vec![2])).count(), 1);
    assert_eq!(answers.iter().filter(|answer| matches!(answer, Replayed(_))).count(), 63);
    assert_eq!(world.counters(&sale, 0, "a").await, (98, 2, 100));
}

pub async fn f14_odd_buyers_are_told_apart(world: &World) {
    let sale = world.sale_of(1, &[("a", 100)], |activity| activity.limit.max = 1).await;
    let longest = "x".repeat(255);
    let buyers = [
        "auth0|alice",
        "A|alice",
        "alice",
        "a=b;c=d",
        "%41lice",
        "100%",
        "\"quoted\"",
        "'single'",
        "back\\slash",
        "{tag}",
        "}{",
        "#",
        "9007199254740993",
        "9007199254740992",
        "[=[",
        "--",
        "*",
        longest.as_str(),
    ];
    for (token, buyer) in (0..).zip(buyers) {
        let placement = sale.placement(buyer, token, &[("a", 1)]);
        assert_eq!(world.place(&sale, &placement).await, Admitted(vec![1]), "{buyer}");
        let Replayed(record) = world.place(&sale, &placement).await else { panic!("{buyer}") };
        assert_eq!(record.placement.as_ref(), Some(&placement));
        let second = sale.placement(buyer, 100 + token, &[("a", 1)]);
        assert_eq!(world.place(&sale, &second).await, Refused(LimitReached(vec![placement.order_no])), "{buyer}");
    }
    world.assert_sums(&sale, 0).await;
}

pub async fn f11_flushed_scripts_are_loaded_again(world: &World) {
    let sale = world.sale(1, &[("a", 100)]).await;
    for token in 0..10 {
        world.raw::<()>(cmd("SCRIPT").arg("FLUSH").arg("SYNC")).await;
        assert_eq!(world.place(&sale, &sale.placement("alice", token, &[("a", 1)])).await, Admitted(vec![1]));
    }
    assert_eq!(world.counters(&sale, 0, "a").await, (90, 10, 100));
}
