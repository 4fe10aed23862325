//! Bringing a live order's record back.

use holdfast::{
    domain::{
        limit::{Limit, LimitScope},
        order::{Placement, Take},
        record::{Rank, Record, Side},
    },
    ports::{Deducted, OrderGate, PlaceAnswer, Restocked, Restored, StockGate, Undone},
};

use super::support::{Sale, World, bucket, mark_field, part, units};

async fn restore(world: &World, sale: &Sale, placement: &Placement, take: Take, held: &[(&str, u32)]) -> Restored {
    // A part elsewhere is none of this bucket's.
    let mut parts = vec![part(1, "a", 77)];
    parts.extend(held.iter().map(|(sku, units)| part(0, sku, *units)));
    world.gate.restore(&sale.activity, placement, bucket(0), take, &parts).await.unwrap()
}

fn submission(sale: &Sale, token: u8, lines: &[(&str, u32)]) -> Placement {
    sale.placement(&sale.buyer_at(0), token, lines)
}

pub async fn a_restore_raises_and_may_oversell(world: &World) {
    let sale = world.sale(2, &[("a", 1)]).await;
    let placement = submission(&sale, 1, &[("a", 3)]);
    assert_eq!(restore(world, &sale, &placement, Take::FIRST, &[("a", 3)]).await, Restored::Done { delta: -3 });
    let after = world.dump(&sale, 0).await;
    for _ in 0..2 {
        assert_eq!(restore(world, &sale, &placement, Take::FIRST, &[("a", 3)]).await, Restored::Already);
    }
    assert_eq!(world.dump(&sale, 0).await, after);
    assert_eq!(world.counters(&sale, 0, "a").await, (-2, 3, 1));
    assert!(world.marked(&sale, &placement).await);
    let PlaceAnswer::Replayed(record) = world.place(&sale, &placement).await else { panic!("not a replay") };
    assert_eq!(record.placement.as_ref(), Some(&placement));
    let next = submission(&sale, 2, &[("a", 1)]);
    assert_eq!(world.place(&sale, &next).await, PlaceAnswer::Short(vec![0]));
    assert_eq!(world.look(&sale, &next).await, PlaceAnswer::Admitted(vec![0]));
    world.assert_sums(&sale, 0).await;
    // Without a stock key there is nothing to restore to.
    world.flush(&sale, 0).await;
    assert_eq!(restore(world, &sale, &placement, Take::FIRST, &[("a", 3)]).await, Restored::NoStock);
    assert_eq!(world.record(&sale, &placement, 0).await, None);
}

pub async fn a_restore_with_other_units_moves_the_difference(world: &World) {
    let sale = world.sale(2, &[("a", 9), ("b", 9)]).await;
    let placement = submission(&sale, 1, &[("a", 3), ("b", 1)]);
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![3, 1]));
    world.set_part(&sale.keys(0).orders, placement.order_no.as_str(), 3, "1000").await;
    assert_eq!(restore(world, &sale, &placement, Take::FIRST, &[("a", 1)]).await, Restored::Done { delta: 3 });
    let record = world.record(&sale, &placement, 0).await.unwrap();
    assert_eq!((record.held, record.at.get()), (units(&[("a", 1), ("b", 0)]), 1000), "as old as it was");
    assert_eq!(world.counters(&sale, 0, "a").await, (8, 1, 9));
    assert_eq!(world.counters(&sale, 0, "b").await, (9, 0, 9));
    // A bucket that the order does not name holds nothing of it, and no mark.
    let away = world.gate.restore(&sale.activity, &placement, bucket(1), Take::FIRST, &[]).await.unwrap();
    assert_eq!(away, Restored::Done { delta: 0 });
    assert_eq!(world.record(&sale, &placement, 1).await.unwrap().held, []);
    assert_eq!(world.gate.list_records(&sale.activity.id, bucket(1), 0).await.unwrap().marked, []);
    world.assert_sums(&sale, 0).await;
}

pub async fn a_lost_mark_is_set_again(world: &World) {
    let sale = world.sale_of(2, &[("a", 9)], |activity| activity.limit.max = 2).await;
    let placement = submission(&sale, 1, &[("a", 2)]);
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![2]));
    world.hdel(&sale.keys(0).orders, &mark_field(&placement)).await;
    let more = submission(&sale, 2, &[("a", 1)]);
    assert_eq!(world.place(&sale, &more).await, PlaceAnswer::Admitted(vec![1]));
    assert_eq!(restore(world, &sale, &placement, Take::FIRST, &[("a", 2)]).await, Restored::Done { delta: 0 });
    assert!(world.marked(&sale, &placement).await && world.marked(&sale, &more).await);
    assert_eq!(restore(world, &sale, &placement, Take::FIRST, &[("a", 2)]).await, Restored::Already);
}

pub async fn a_restore_never_lowers(world: &World) {
    let sale = world.sale(2, &[("a", 9)]).await;
    let placement = submission(&sale, 1, &[("a", 2)]);
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![2]));
    let restocked = world.gate.restock(&sale.activity, &placement.order_no, bucket(0), Take::FIRST, false, None).await;
    assert_eq!(restocked.unwrap(), Restocked::Done { units: 2 });
    let before = world.dump(&sale, 0).await;
    assert_eq!(restore(world, &sale, &placement, Take::FIRST, &[("a", 2)]).await, Restored::Already);
    assert_eq!(world.dump(&sale, 0).await, before);
}

pub async fn a_late_payment_takes_again(world: &World) {
    let sale = world.sale(2, &[("a", 9)]).await;
    for (token, restock_first) in [(1, true), (2, false)] {
        let placement = submission(&sale, token, &[("a", 2)]);
        assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![2]));
        if restock_first {
            let restocked =
                world.gate.restock(&sale.activity, &placement.order_no, bucket(0), Take::FIRST, false, None);
            assert_eq!(restocked.await.unwrap(), Restocked::Done { units: 2 });
        }
        let delta = if restock_first { -3 } else { -1 };
        assert_eq!(restore(world, &sale, &placement, Take::SECOND, &[("a", 3)]).await, Restored::Done { delta });
        let record = world.record(&sale, &placement, 0).await.unwrap();
        assert_eq!(record.rank(), Rank::of(Take::SECOND, Side::Deducted));
        assert!(world.marked(&sale, &placement).await);
        assert_eq!(restore(world, &sale, &placement, Take::FIRST, &[("a", 2)]).await, Restored::Already);
        world.assert_sums(&sale, 0).await;
    }
    assert_eq!(world.counters(&sale, 0, "a").await, (3, 6, 9));
}

const PER_DAY: Limit = Limit { scope: LimitScope::Day, max: 9 };

/// A sale with a limit per day, and one submission as two calls admit it, on either side of midnight.
async fn two_days(world: &World) -> (Sale, Placement, Placement) {
    let sale = world.sale_of(2, &[("a", 9)], |activity| activity.limit = PER_DAY).await;
    let today = submission(&sale, 1, &[("a", 2)]);
    let tomorrow = sale.next_day(&today);
    assert_ne!(mark_field(&today), mark_field(&tomorrow));
    (sale, today, tomorrow)
}

/// How the buyer's marks count the submission, today's and tomorrow's; and of which day its record is.
async fn counted(world: &World, sale: &Sale, days: [&Placement; 2]) -> ([Option<String>; 2], Option<Record>) {
    let orders = sale.keys(0).orders;
    let marks = days.map(mark_field).map(async |field| world.hget(&orders, &field).await);
    let [today, tomorrow] = marks;
    ([today.await, tomorrow.await], world.record(sale, days[0], 0).await)
}

pub async fn a_restore_moves_the_mark_to_the_order_s_day(world: &World) {
    for take in [Take::FIRST, Take::SECOND] {
        let (sale, today, tomorrow) = two_days(world).await;
        assert_eq!(world.place(&sale, &tomorrow).await, PlaceAnswer::Admitted(vec![2]));
        // Another order of the buyer stays in the mark that this one leaves.
        let other = sale.next_day(&submission(&sale, 2, &[("a", 1)]));
        assert_eq!(world.place(&sale, &other).await, PlaceAnswer::Admitted(vec![1]));
        assert_eq!(restore(world, &sale, &today, take, &[("a", 2)]).await, Restored::Done { delta: 0 });
        let (marks, record) = counted(world, &sale, [&today, &tomorrow]).await;
        assert_eq!(marks, [Some(format!("{}=2", today.order_no)), Some(format!("{}=1", other.order_no))]);
        assert_eq!(record.unwrap().placement.as_ref(), Some(&today));
        let after = world.dump(&sale, 0).await;
        assert_eq!(restore(world, &sale, &today, take, &[("a", 2)]).await, Restored::Already);
        assert_eq!(world.dump(&sale, 0).await, after);
        world.assert_sums(&sale, 0).await;
    }
}

pub async fn a_restore_takes_the_last_order_out_of_a_mark(world: &World) {
    let (sale, today, tomorrow) = two_days(world).await;
    assert_eq!(world.place(&sale, &tomorrow).await, PlaceAnswer::Admitted(vec![2]));
    assert_eq!(restore(world, &sale, &today, Take::FIRST, &[("a", 2)]).await, Restored::Done { delta: 0 });
    let (marks, _) = counted(world, &sale, [&today, &tomorrow]).await;
    assert_eq!(marks, [Some(format!("{}=2", today.order_no)), None]);
}

pub async fn a_kept_mark_moves_with_a_late_payment(world: &World) {
    let (sale, today, tomorrow) = two_days(world).await;
    assert_eq!(world.place(&sale, &tomorrow).await, PlaceAnswer::Admitted(vec![2]));
    let restocked = world.gate.restock(&sale.activity, &today.order_no, bucket(0), Take::FIRST, true, None).await;
    assert_eq!(restocked.unwrap(), Restocked::Done { units: 2 });
    assert_eq!(restore(world, &sale, &today, Take::SECOND, &[("a", 2)]).await, Restored::Done { delta: -2 });
    let (marks, _) = counted(world, &sale, [&today, &tomorrow]).await;
    assert_eq!(marks, [Some(format!("{}=2", today.order_no)), None]);
}

/// The record is replaced by one of another day while a restore has read the first.
pub async fn a_record_of_another_day_in_between_is_read_again(world: &World) {
    let (sale, today, tomorrow) = two_days(world).await;
    let third = sale.next_day(&tomorrow);
    let parts = [part(0, "a", 2)];
    for round in 0..50 {
        assert_eq!(world.place(&sale, &tomorrow).await, PlaceAnswer::Admitted(vec![2]), "round {round}");
        let anew = async {
            let _ = world.gate.undo(&sale.activity, &tomorrow, bucket(0)).await.unwrap();
            let _ = world.place(&sale, &third).await;
        };
        let restored = world.gate.restore(&sale.activity, &today, bucket(0), Take::FIRST, &parts);
        let ((), restored) = tokio::join!(anew, restored);
        let _ = restored.unwrap();
        let _ = restore(world, &sale, &today, Take::FIRST, &[("a", 2)]).await;
        let (marks, record) = counted(world, &sale, [&today, &tomorrow]).await;
        assert_eq!(marks, [Some(format!("{}=2", today.order_no)), None], "round {round}");
        assert_eq!(record.unwrap().placement.as_ref(), Some(&today));
        assert!(!world.marked(&sale, &third).await, "round {round}");
        assert_eq!(world.gate.undo(&sale.activity, &today, bucket(0)).await.unwrap(), Undone::Done);
        assert!(!world.marked(&sale, &today).await);
        assert_eq!(world.counters(&sale, 0, "a").await, (9, 0, 9));
    }
}

/// Whoever changes or undoes a record that another call of the submission wrote, on the other day.
pub async fn marks_go_with_the_record_whoever_undoes_it(world: &World) {
    let (sale, today, tomorrow) = two_days(world).await;
    assert_eq!(world.place(&sale, &tomorrow).await, PlaceAnswer::Admitted(vec![2]));
    let changed = world.gate.deduct(&sale.activity, &today, bucket(0), &units(&[("a", 1)])).await.unwrap();
    assert_eq!(changed, Deducted::Done);
    let (marks, record) = counted(world, &sale, [&today, &tomorrow]).await;
    assert_eq!(marks, [None, Some(format!("{}=2", today.order_no))]);
    assert_eq!(record.unwrap().placement.as_ref(), Some(&tomorrow), "its marks are those of this day");
    assert_eq!(world.gate.undo(&sale.activity, &today, bucket(0)).await.unwrap(), Undone::Done);
    assert_eq!(counted(world, &sale, [&today, &tomorrow]).await, ([None, None], None));
    world.assert_sums(&sale, 0).await;
}

/// The order is of one day, the record of the other.
pub async fn a_restock_takes_the_marks_of_both_days(world: &World) {
    for keep in [false, true] {
        let (sale, today, tomorrow) = two_days(world).await;
        assert_eq!(world.place(&sale, &tomorrow).await, PlaceAnswer::Admitted(vec![2]));
        let mark = format!("{}=2", today.order_no);
        world.hset(&sale.keys(0).orders, &mark_field(&today), &mark).await;
        let restocked =
            world.gate.restock(&sale.activity, &today.order_no, bucket(0), Take::FIRST, keep, Some(&today)).await;
        assert_eq!(restocked.unwrap(), Restocked::Done { units: 2 });
        let (marks, record) = counted(world, &sale, [&today, &tomorrow]).await;
        assert_eq!((marks, record.unwrap().side), ([keep.then_some(mark), None], Side::Returned));
    }
    // A mark without a record.
    let (sale, today, tomorrow) = two_days(world).await;
    world.hset(&sale.keys(0).orders, &mark_field(&today), &format!("{}=2", today.order_no)).await;
    let restocked =
        world.gate.restock(&sale.activity, &today.order_no, bucket(0), Take::FIRST, false, Some(&today)).await;
    assert_eq!(restocked.unwrap(), Restocked::Done { units: 0 });
    assert_eq!(counted(world, &sale, [&today, &tomorrow]).await.0, [None, None]);
}
