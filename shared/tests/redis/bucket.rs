//! Whole buckets: preheat, allotments, control, sums.

use holdfast::{
    adapters::redis::keys::CONTROL,
    domain::{money::STOCK_MAX, order::Take, time::UnixMillis},
    ports::{GateRefusal, OrderGate, PlaceAnswer, Preheated, Restored, StockGate, SumCheck},
};

use super::support::{HOUR_MS, Sale, World, allotment, bucket, now, part, sentinel, sku};

pub async fn preheating_twice_loads_once(world: &World) {
    let mut sale = world.sale(1, &[("a", 5)]).await;
    let placement = sale.placement("alice", 1, &[("a", 2)]);
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![2]));
    let before = world.dump(&sale, 0).await;
    sale.allotments = vec![allotment("a", 500, 7, true)];
    assert_eq!(world.preheat(&sale, 0).await, Preheated::Already);
    assert_eq!(world.dump(&sale, 0).await, before);
}

pub async fn preheating_drops_what_a_lost_bucket_left(world: &World) {
    let sale = world.sale(1, &[("a", 5)]).await;
    let placement = sale.placement("alice", 1, &[("a", 2)]);
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![2]));
    world.del(&sale.keys(0).bucket).await;
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::MemoryLost);
    assert_eq!(world.preheat(&sale, 0).await, Preheated::Loaded);
    assert_eq!(world.counters(&sale, 0, "a").await, (5, 0, 5));
    assert_eq!(world.record(&sale, &placement, 0).await, None);
    assert!(!world.marked(&sale, &placement).await);
    // Live orders come back by number.
    let parts = [part(0, "a", 2)];
    let take = holdfast::domain::order::Take::FIRST;
    let restored = world.gate.restore(&sale.activity, &placement, bucket(0), take, &parts).await.unwrap();
    assert_eq!(restored, Restored::Done { delta: -2 });
    assert_eq!(world.counters(&sale, 0, "a").await, (3, 2, 5));
}

pub async fn a_bucket_without_its_records_is_lost(world: &World) {
    for lost in ["orders", "sentinel", "version"] {
        let sale = world.sale(1, &[("a", 5)]).await;
        let keys = sale.keys(0);
        match lost {
            "orders" => world.del(&keys.orders).await,
            "sentinel" => world.hdel(&keys.orders, sentinel()).await,
            _ => world.hdel(&keys.bucket, CONTROL).await,
        }
        assert!(!world.gate.read_bucket(&sale.activity, bucket(0)).await.unwrap().present, "{lost}");
        assert_eq!(world.place(&sale, &sale.placement("bob", 1, &[("a", 1)])).await, PlaceAnswer::MemoryLost, "{lost}");
        assert_eq!(world.preheat(&sale, 0).await, Preheated::Loaded, "{lost}");
        assert_eq!(world.preheat(&sale, 0).await, Preheated::Already, "{lost}");
    }
}

pub async fn allotments_are_taken_by_version_in_any_order(world: &World) {
    let sale = world.sale(1, &[("a", 5), ("b", 5)]).await;
    let placement = sale.placement("alice", 1, &[("a", 2)]);
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![2]));
    let id = &sale.activity.id;
    let sync = async |allotments: &[_]| world.gate.sync_allotment(id, bucket(0), allotments).await.unwrap();
    assert_eq!(sync(&[allotment("a", 9, 4, true), allotment("b", 3, 1, true)]).await, 1);
    assert_eq!(world.counters(&sale, 0, "a").await, (7, 2, 9));
    assert_eq!(world.counters(&sale, 0, "b").await, (5, 0, 5), "its version is known");
    let after = world.dump(&sale, 0).await;
    // Late, and twice.
    assert_eq!(sync(&[allotment("a", 6, 3, false)]).await, 0);
    assert_eq!(sync(&[allotment("a", 9, 4, true)]).await, 0);
    assert_eq!(world.dump(&sale, 0).await, after);
    // Less than was sold: reads as sold out.
    assert_eq!(sync(&[allotment("a", 1, 5, true)]).await, 1);
    assert_eq!(world.counters(&sale, 0, "a").await, (-1, 2, 1));
    assert_eq!(world.place(&sale, &sale.placement("bob", 2, &[("a", 1)])).await, PlaceAnswer::Short(vec![0]));
    // A SKU that the bucket was not loaded with.
    assert_eq!(sync(&[allotment("c", 4, 0, true)]).await, 1);
    assert_eq!(world.counters(&sale, 0, "c").await, (4, 0, 4));
    world.assert_sums(&sale, 0).await;
    world.flush(&sale, 0).await;
    assert_eq!(sync(&[allotment("a", 9, 9, true)]).await, 0);
    assert!(!world.gate.read_bucket(&sale.activity, bucket(0)).await.unwrap().present);
}

pub async fn a_freeze_is_an_allotment_of_a_newer_version(world: &World) {
    let sale = world.sale(1, &[("a", 5), ("b", 5)]).await;
    let frozen = [allotment("a", 5, 2, false)];
    assert_eq!(world.gate.sync_allotment(&sale.activity.id, bucket(0), &frozen).await.unwrap(), 1);
    let refused = PlaceAnswer::Refused(GateRefusal::Frozen);
    assert_eq!(world.place(&sale, &sale.placement("bob", 1, &[("a", 1)])).await, refused);
    assert_eq!(world.look(&sale, &sale.placement("bob", 1, &[("a", 1), ("b", 1)])).await, refused);
    assert_eq!(world.place(&sale, &sale.placement("bob", 1, &[("b", 1)])).await, PlaceAnswer::Admitted(vec![1]));
    let state = world.gate.read_bucket(&sale.activity, bucket(0)).await.unwrap();
    assert_eq!(state.skus.iter().map(|sku| sku.on_sale).collect::<Vec<_>>(), [false, true]);
    let thawed = [allotment("a", 5, 3, true)];
    assert_eq!(world.gate.sync_allotment(&sale.activity.id, bucket(0), &thawed).await.unwrap(), 1);
    assert_eq!(world.place(&sale, &sale.placement("eve", 1, &[("a", 1)])).await, PlaceAnswer::Admitted(vec![1]));
}

pub async fn control_is_taken_when_newer_and_lengthens_lives(world: &World) {
    let mut sale = world.sale(1, &[("a", 5)]).await;
    let keys = sale.keys(0);
    let lives = async || {
        let mut lives = Vec::new();
        for key in [&keys.bucket, &keys.orders, &keys.ledger] {
            lives.push(world.expires_at(key).await);
        }
        lives
    };
    let before = (world.dump(&sale, 0).await, lives().await);
    let sync = async |sale: &Sale| world.gate.sync_control(&sale.activity, bucket(0), now()).await.unwrap();
    sale.activity.window.ends_at = sale.activity.window.ends_at.plus_ms(HOUR_MS);
    assert!(!sync(&sale).await, "the same version");
    assert_eq!((world.dump(&sale, 0).await, lives().await), before);
    sale.activity.version = 2;
    sale.activity.bucket_rate = 7;
    assert!(sync(&sale).await);
    assert!(!sync(&sale).await);
    let after = lives().await;
    assert!(after.iter().zip(&before.1).all(|(after, before)| after > before), "{after:?} {:?}", before.1);
    assert_eq!(after[0], sale.activity.stock_keys_expire_at().get());
    assert!(world.hget(&keys.bucket, CONTROL).await.unwrap().ends_with("|7"));
    assert_eq!(world.place(&sale, &sale.placement("bob", 1, &[("a", 1)])).await, PlaceAnswer::Admitted(vec![1]));
    let mut outdated = sale.clone();
    outdated.activity.version = 1;
    assert_eq!(world.place(&outdated, &sale.placement("eve", 1, &[("a", 1)])).await, PlaceAnswer::ConfigurationChanged);
    assert!(!sync(&outdated).await);
    // An earlier end takes effect, but no key dies sooner.
    sale.activity.version = 3;
    sale.activity.window.ends_at = UnixMillis::new(now().get() - 1);
    assert!(sync(&sale).await);
    assert_eq!(lives().await, after);
    let ended = PlaceAnswer::Refused(GateRefusal::Ended);
    assert_eq!(world.place(&sale, &sale.placement("eve", 1, &[("a", 1)])).await, ended);
    world.flush(&sale, 0).await;
    sale.activity.version = 4;
    assert!(!sync(&sale).await, "nothing to control");
}

pub async fn sums_are_counted_from_records_and_repaired(world: &World) {
    let sale = world.sale(1, &[("a", 3000), ("b", 5)]).await;
    for n in 0..700_u16 {
        let placement = sale.placement(&format!("buyer-{n}"), 1, &[("a", 2)]);
        loop {
            match world.place(&sale, &placement).await {
                PlaceAnswer::Admitted(_) => break,
                PlaceAnswer::Refused(GateRefusal::Limited) => {
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                }
                other => panic!("{other:?}"),
            }
        }
    }
    let sums = async |repair| world.gate.sum_bucket(&sale.activity, bucket(0), repair).await.unwrap();
    assert_eq!(sums(false).await, []);
    world.set_sku(&sale, 0, "a", "free", "1601").await;
    world.set_sku(&sale, 0, "b", "sold", "1").await;
    let check = |name, deducted, allotted, stock| SumCheck { sku: sku(name), deducted, allotted, stock };
    let off = [check("a", 1400, 3000, 1601), check("b", 0, 5, 5)];
    let before = world.dump(&sale, 0).await;
    assert_eq!(sums(false).await, off);
    assert_eq!((off[0].off_by(), off[1].off_by()), (1, 0));
    assert_eq!(world.dump(&sale, 0).await, before);
    assert_eq!(sums(true).await, off);
    assert_eq!(sums(true).await, []);
    assert_eq!(world.counters(&sale, 0, "a").await, (1600, 1400, 3000));
    assert_eq!(world.counters(&sale, 0, "b").await, (5, 0, 5));
}

pub async fn a_lost_bucket_has_no_sums(world: &World) {
    let sale = world.sale(1, &[("a", 5)]).await;
    world.set_sku(&sale, 0, "a", "free", "4").await;
    world.hdel(&sale.keys(0).orders, sentinel()).await;
    assert_eq!(world.gate.sum_bucket(&sale.activity, bucket(0), true).await.unwrap(), []);
    assert_eq!(world.hget(&sale.keys(0).bucket, "a").await.as_deref(), Some("4|0|1|5|1"));
}

pub async fn counters_are_exact_up_to_the_largest_stock(world: &World) {
    let sale = world.sale(1, &[("a", STOCK_MAX)]).await;
    let placement = sale.placement("alice", 1, &[("a", 7)]);
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![7]));
    assert_eq!(world.counters(&sale, 0, "a").await, (999_999_993, 7, STOCK_MAX));
    // Far above: exact up to 2^53, refused beyond.
    let id = &sale.activity.id;
    let most = (1_u64 << 53) - 1;
    assert_eq!(world.gate.sync_allotment(id, bucket(0), &[allotment("a", most, 2, true)]).await.unwrap(), 1);
    assert_eq!(world.counters(&sale, 0, "a").await, (9_007_199_254_740_984, 7, most));
    assert_eq!(world.place(&sale, &sale.placement("bob", 1, &[("a", 1)])).await, PlaceAnswer::Admitted(vec![1]));
    assert_eq!(world.counters(&sale, 0, "a").await, (9_007_199_254_740_983, 8, most));
    let before = world.dump(&sale, 0).await;
    assert!(world.gate.sync_allotment(id, bucket(0), &[allotment("a", most + 1, 3, true)]).await.is_err());
    assert!(world.gate.sync_allotment(id, bucket(0), &[allotment("a", 5, u64::MAX, true)]).await.is_err());
    assert_eq!(world.dump(&sale, 0).await, before);
    assert!(world.gate.look(&sale.activity, &placement, &[bucket(0)]).await.unwrap()[0].free[0] > 1 << 52);
}

pub async fn sums_are_made_of_pages(world: &World) {
    let sale = world.sale_of(1, &[("a", 5_000)], |activity| activity.bucket_rate = 500).await;
    for n in 0..400_u16 {
        // As a restore writes them, so that no second's rate is in the way.
        let placement = sale.placement(&format!("buyer{n}"), 1, &[("a", 2)]);
        let part = [super::support::part(0, "a", 2)];
        let restored = world.gate.restore(&sale.activity, &placement, bucket(0), Take::FIRST, &part).await.unwrap();
        assert_eq!(restored, Restored::Done { delta: -2 });
    }
    let sums = async |repair| world.gate.sum_in_pages(&sale.activity, bucket(0), repair, 50).await.unwrap();
    assert_eq!(sums(false).await, []);
    world.set_sku(&sale, 0, "a", "free", "4000").await;
    let off = SumCheck { sku: sku("a"), deducted: 800, allotted: 5_000, stock: 4_000 };
    assert_eq!(sums(false).await, std::slice::from_ref(&off));
    assert_eq!(sums(true).await, [off]);
    assert_eq!(world.counters(&sale, 0, "a").await, (4_200, 800, 5_000));
}

/// Orders come and go between the pages: whatever was added up then must not be made the counter.
pub async fn sums_in_pages_are_not_taken_from_a_moving_bucket(world: &World) {
    let sale = world.sale(1, &[("a", 5_000)]).await;
    let summing = async {
        for _ in 0..60 {
            let off = world.gate.sum_in_pages(&sale.activity, bucket(0), true, 10).await.unwrap();
            assert_eq!(off, []);
        }
    };
    let moving = async {
        for n in 0..600_u16 {
            let placement = sale.placement(&format!("buyer{}", n % 200), u8::try_from(n / 200).unwrap(), &[("a", 1)]);
            let part = [super::support::part(0, "a", 1)];
            let _ = world.gate.restore(&sale.activity, &placement, bucket(0), Take::FIRST, &part).await.unwrap();
            if n % 2 == 0 {
                let order_no = &placement.order_no;
                let _ =
                    world.gate.restock(&sale.activity, order_no, bucket(0), Take::FIRST, false, None).await.unwrap();
            }
        }
    };
    tokio::join!(summing, moving);
    world.assert_sums(&sale, 0).await;
    assert_eq!(world.counters(&sale, 0, "a").await, (4_700, 300, 5_000));
}
