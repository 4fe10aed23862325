//! Bringing a live order's record back.

use holdfast::{
    domain::{
        order::{Placement, Take},
        record::{Rank, Side},
    },
    ports::{PlaceAnswer, Restocked, Restored, StockGate},
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
