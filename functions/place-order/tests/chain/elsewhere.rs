//! How other shops failed in public, end to end. See docs/failures-of-others.md.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::future::join_all;
use holdfast::{
    app::{
        admission::AdmissionControl,
        place_order::{PlaceOrder, Placed, Refusal, Submission},
        roll_back::RollBackOrder,
    },
    domain::{
        FORMAT,
        cart::Cart,
        ids::{BuyerId, Sku},
        money::Quantity,
        order::Tombstone,
        order_no::OrderNo,
        time::UnixMillis,
    },
    lambda::Wiring,
    ports::{Clock, OrderStore as _, RollBack, RollBackReason, SystemClock},
};
use serde_json::json;
use servers::{Fault, FaultKind};

use crate::shop::{SKU, Shop, code};

const DAY_MS: i64 = 86_400_000;

/// The table drops dead items some days late; a tombstone past its life is a tombstone all the same.
#[tokio::test]
async fn f20_a_tombstone_past_its_life_still_counts() {
    let shop = Shop::open(5, &json!({})).await;
    let token = shop.token("alice");
    let order_no = OrderNo::derive(
        &shop.activity.id,
        &BuyerId::parse("alice").unwrap(),
        &shop.backend.keys.verify(&token).unwrap().id,
    );
    let at = SystemClock.now().plus_ms(-90 * DAY_MS);
    let tombstone = Tombstone { order_no, activity: shop.activity.id.clone(), buyer: None, at, placement: None };
    let _ = shop.backend.wiring.database.claim(&tombstone).await.unwrap();
    let (status, body) = shop.order("alice", &token, 1).await;
    assert_eq!((status, code(&body)), (409, "order_aborted"));
    assert_eq!(shop.available().await, 5);
    assert!(shop.reconcile().await.findings.values().all(|found| found.count == found.repaired));
}

/// Reconciliation over and over while orders are between Redis and the database: it finds nothing to
/// repair, and not one deduction is erased.
#[tokio::test(flavor = "multi_thread")]
async fn f22_reconciliation_erases_nothing_that_is_under_way() {
    let shop = Arc::new(Shop::open(200, &json!({})).await);
    shop.backend.dynamodb.set_latency(Duration::from_millis(20));
    let ordering = Arc::new(AtomicBool::new(true));
    let (watched, going_on) = (Arc::clone(&shop), Arc::clone(&ordering));
    let reconciling = tokio::spawn(async move {
        let mut runs = 0;
        while going_on.load(Ordering::Relaxed) {
            let report = watched.reconcile().await;
            assert!(report.findings.is_empty(), "{report:?}");
            runs += 1;
        }
        runs
    });
    let buyers: Vec<String> = (0..120).map(|n| format!("buyer-{n}")).collect();
    let mut sold = 0;
    for some in buyers.chunks(12) {
        let placed = join_all(some.iter().map(async |buyer| shop.order_patiently(buyer, &shop.token(buyer)).await));
        sold += placed.await.iter().filter(|(status, _)| matches!(status, 200 | 201)).count();
    }
    ordering.store(false, Ordering::Relaxed);
    assert!(reconciling.await.unwrap() > 0, "it did run meanwhile");
    assert_eq!((sold, shop.available().await, shop.free().await), (120, 80, Some(80)));
}

/// A message that comes again, also after the submission was tried again, settles nothing anew.
#[tokio::test]
async fn f25_a_message_that_comes_again_changes_nothing() {
    let shop = Shop::open(5, &json!({})).await;
    let token = shop.token("alice");
    shop.backend.dynamodb.control().inject(Fault::standing("TransactWriteItems", FaultKind::DropBefore));
    let (status, body) = shop.order("alice", &token, 1).await;
    assert_eq!(status, 202, "{body}");
    shop.backend.dynamodb.control().clear();
    let buyer = BuyerId::parse("alice").unwrap();
    let message = RollBack {
        format: FORMAT,
        activity: shop.activity.id.clone(),
        order_no: OrderNo::parse(body["order_no"].as_str().unwrap()).unwrap(),
        home: buyer.home(shop.activity.buckets),
        buyer,
        buckets: Vec::new(),
        reason: RollBackReason::CommitUnknown,
    };
    let Wiring { cache, database, gate, .. } = shop.backend.another_process();
    let consumer = RollBackOrder { cache, store: database, gate, clock: SystemClock };
    for _ in 0..3 {
        let _ = consumer.run(&message).await.unwrap();
        assert_eq!((shop.available().await, shop.free().await), (5, Some(5)));
        assert_eq!(code(&shop.order("alice", &token, 1).await.1), "order_aborted");
    }
}

/// A clock that stands.
#[derive(Clone)]
struct At(UnixMillis);

impl Clock for At {
    fn now(&self) -> UnixMillis {
        self.0
    }
}

async fn order_at(shop: &Shop, at: UnixMillis) -> Placed {
    let Wiring { cache, database, gate, queues, degraded_rate, .. } = shop.backend.another_process();
    let use_case = PlaceOrder {
        memory: holdfast::app::stock_memory::StockMemory::default(),
        cache,
        admission: AdmissionControl::new(database.clone(), degraded_rate),
        store: database,
        gate,
        messages: queues,
        clock: At(at),
        keys: Arc::clone(&shop.backend.keys),
    };
    let cart = Cart::new([(Sku::parse(SKU).unwrap(), Quantity::new(1).unwrap())]).unwrap();
    let (activity, buyer) = (shop.activity.id.clone(), BuyerId::parse("alice").unwrap());
    let token = shop.token_until("alice", at.plus_ms(DAY_MS));
    use_case.run(Submission { activity, buyer, token, cart, coupon: None }).await.unwrap()
}

/// The scope decides what is counted, not the date: a limit per activity holds across midnight, one per
/// day begins anew, in the activity's own zone.
#[tokio::test]
async fn f29_midnight_gives_a_second_order_only_where_the_limit_is_per_day() {
    for (scope, second_day) in [("activity", false), ("sku", false), ("day", true)] {
        let fields = json!({"limit": {"scope": scope, "max": 1}, "time_zone": "Asia/Kathmandu"});
        let shop = Shop::open(9, &fields).await;
        let zone = &shop.activity.zone;
        let mut midnight = SystemClock.now();
        let today = zone.business_date(midnight);
        while zone.business_date(midnight) == today {
            midnight = midnight.plus_ms(1_000);
        }
        assert!(matches!(order_at(&shop, midnight.plus_ms(-2_000)).await, Placed::Created(_)));
        let again = order_at(&shop, midnight.plus_ms(-1_500)).await;
        assert!(matches!(again, Placed::Refused(Refusal::LimitReached(_))), "{scope}: {again:?}");
        let next_day = order_at(&shop, midnight.plus_ms(1_000)).await;
        assert_eq!(matches!(next_day, Placed::Created(_)), second_day, "{scope}: {next_day:?}");
        let again = order_at(&shop, midnight.plus_ms(2_000)).await;
        assert!(matches!(again, Placed::Refused(Refusal::LimitReached(_))), "{scope}: {again:?}");
    }
}
