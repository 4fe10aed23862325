//! Giving units back.

use holdfast::{
    domain::{
        limit::{Limit, LimitScope},
        order::{Placement, Take},
        record::{Rank, Side},
    },
    ports::{OrderGate, PlaceAnswer, Preheated, Restocked, Restored, StockGate, Undone},
};

use super::support::{Sale, World, bucket, part, sentinel, units};

async fn restock(world: &World, sale: &Sale, placement: &Placement, take: Take, keep: bool) -> Restocked {
    world.gate.restock(&sale.activity, &placement.order_no, bucket(0), take, keep, None).await.unwrap()
}

async fn placed(world: &World, sale: &Sale, lines: &[(&str, u32)]) -> Placement {
    let placement = sale.placement(&sale.buyer_at(0), 1, lines);
    assert!(matches!(world.place(sale, &placement).await, PlaceAnswer::Admitted(_)));
    placement
}

pub async fn each_take_is_restocked_once(world: &World) {
    let sale = world.sale(1, &[("a", 5), ("b", 5)]).await;
    let placement = placed(world, &sale, &[("a", 2), ("b", 1)]).await;
    let admitted = world.record(&sale, &placement, 0).await.unwrap();
    assert_eq!(restock(world, &sale, &placement, Take::FIRST, false).await, Restocked::Done { units: 3 });
    let after = world.dump(&sale, 0).await;
    for _ in 0..2 {
        assert_eq!(restock(world, &sale, &placement, Take::FIRST, false).await, Restocked::Already);
    }
    assert_eq!(world.dump(&sale, 0).await, after);
    assert_eq!(world.counters(&sale, 0, "a").await, (5, 0, 5));
    let record = world.record(&sale, &placement, 0).await.unwrap();
    assert_eq!(record.rank(), Rank::of(Take::FIRST, Side::Returned));
    // For information: what it held, for whom and since when.
    assert_eq!((&record.held, &record.placement), (&admitted.held, &admitted.placement));
    assert_eq!(record.at, admitted.at);
    // A replay of the submission deducts nothing.
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::GivenBack);
    assert_eq!(world.gate.undo(&sale.activity, &placement, bucket(0)).await.unwrap(), Undone::GivenBack);
    // A restock that overtook everything leaves a record that nothing can be deducted on.
    let unknown = sale.placement("bob", 9, &[("a", 1)]);
    assert_eq!(restock(world, &sale, &unknown, Take::FIRST, true).await, Restocked::Done { units: 0 });
    assert_eq!(world.place(&sale, &unknown).await, PlaceAnswer::GivenBack);
    world.assert_sums(&sale, 0).await;
}

pub async fn a_restock_takes_the_mark_unless_it_is_kept(world: &World) {
    for keep in [false, true] {
        let sale = world.sale_of(1, &[("a", 9)], |activity| activity.limit.max = 3).await;
        let placement = placed(world, &sale, &[("a", 2)]).await;
        let other = sale.placement(&sale.buyer_at(0), 2, &[("a", 1)]);
        assert_eq!(world.place(&sale, &other).await, PlaceAnswer::Admitted(vec![1]));
        assert_eq!(restock(world, &sale, &placement, Take::FIRST, keep).await, Restocked::Done { units: 2 });
        assert_eq!(world.marked(&sale, &placement).await, keep);
        assert!(world.marked(&sale, &other).await);
        let third = sale.placement(&sale.buyer_at(0), 3, &[("a", 2)]);
        let admitted = world.place(&sale, &third).await == PlaceAnswer::Admitted(vec![2]);
        assert_eq!(admitted, !keep);
    }
}

pub async fn a_late_restock_still_takes_the_mark(world: &World) {
    let sale = world.sale(1, &[("a", 9)]).await;
    let placement = placed(world, &sale, &[("a", 2)]).await;
    assert_eq!(restock(world, &sale, &placement, Take::FIRST, true).await, Restocked::Done { units: 2 });
    assert!(world.marked(&sale, &placement).await);
    assert_eq!(restock(world, &sale, &placement, Take::FIRST, false).await, Restocked::Already);
    assert!(!world.marked(&sale, &placement).await);
}

pub async fn a_flushed_bucket_gets_the_record_only(world: &World) {
    let sale = world.sale(1, &[("a", 9)]).await;
    let placement = placed(world, &sale, &[("a", 2)]).await;
    world.flush(&sale, 0).await;
    assert_eq!(restock(world, &sale, &placement, Take::FIRST, false).await, Restocked::RecordOnly);
    assert_eq!(restock(world, &sale, &placement, Take::FIRST, false).await, Restocked::Already);
    let record = world.record(&sale, &placement, 0).await.unwrap();
    assert_eq!((record.side, record.placement), (Side::Returned, None));
    assert!(!world.gate.read_bucket(&sale.activity, bucket(0)).await.unwrap().present);
    // Its record makes no memory of it.
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::MemoryLost);
    assert_eq!(world.preheat(&sale, 0).await, Preheated::Loaded);
    assert_eq!(world.counters(&sale, 0, "a").await, (9, 0, 9));
    // Stock without records is lost memory as well; a record in it is raised, its units are not moved.
    let placement = placed(world, &sale, &[("a", 2)]).await;
    world.hdel(&sale.keys(0).orders, sentinel()).await;
    assert_eq!(restock(world, &sale, &placement, Take::FIRST, false).await, Restocked::RecordOnly);
    assert_eq!(world.hget(&sale.keys(0).bucket, "a").await.as_deref(), Some("7|2|1|9|1"));
}

pub async fn an_older_take_changes_nothing(world: &World) {
    let sale = world.sale(1, &[("a", 9)]).await;
    let placement = placed(world, &sale, &[("a", 2)]).await;
    assert_eq!(restock(world, &sale, &placement, Take::FIRST, false).await, Restocked::Done { units: 2 });
    let again = world.gate.restore(&sale.activity, &placement, bucket(0), Take::SECOND, &[part(0, "a", 2)]).await;
    assert_eq!(again.unwrap(), Restored::Done { delta: -2 });
    let before = world.dump(&sale, 0).await;
    assert_eq!(restock(world, &sale, &placement, Take::FIRST, false).await, Restocked::Already);
    assert_eq!(world.dump(&sale, 0).await, before, "the living take keeps its units and its mark");
    assert_eq!(restock(world, &sale, &placement, Take::SECOND, false).await, Restocked::Done { units: 2 });
    assert_eq!(world.counters(&sale, 0, "a").await, (9, 0, 9));
    // From D1 straight to R2: the first take's units go back once.
    let other = sale.placement("bob", 5, &[("a", 3)]);
    assert_eq!(world.place(&sale, &other).await, PlaceAnswer::Admitted(vec![3]));
    assert_eq!(restock(world, &sale, &other, Take::SECOND, false).await, Restocked::Done { units: 3 });
    assert_eq!(world.record(&sale, &other, 0).await.unwrap().held, units(&[("a", 3)]));
    world.assert_sums(&sale, 0).await;
}

/// A submission that is undone and admitted anew, on the next day, while it is restocked.
pub async fn a_record_replaced_in_between_is_read_again(world: &World) {
    let limit = Limit { scope: LimitScope::Day, max: 9 };
    let sale = world.sale_of(1, &[("a", 500)], |activity| activity.limit = limit).await;
    let today = sale.placement(&sale.buyer_at(0), 1, &[("a", 2)]);
    let tomorrow = sale.next_day(&today);
    for round in 0..50 {
        assert_eq!(world.place(&sale, &today).await, PlaceAnswer::Admitted(vec![2]), "round {round}");
        let anew = async {
            let _ = world.gate.undo(&sale.activity, &today, bucket(0)).await.unwrap();
            let _ = world.place(&sale, &tomorrow).await;
        };
        let ((), restocked) = tokio::join!(anew, restock(world, &sale, &today, Take::FIRST, false));
        assert!(matches!(restocked, Restocked::Done { .. }), "{restocked:?}");
        assert_eq!(world.record(&sale, &today, 0).await.unwrap().side, Side::Returned);
        assert!(!world.marked(&sale, &today).await && !world.marked(&sale, &tomorrow).await, "round {round}");
        assert_eq!(world.counters(&sale, 0, "a").await, (500, 0, 500));
        world.hdel(&sale.keys(0).orders, today.order_no.as_str()).await;
    }
}
