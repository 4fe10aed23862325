//! Payments of orders: once, late, and as money that goes back.

use holdfast::{
    domain::{
        limit::LimitScope,
        order::{Event, Order, Status, Take},
        payment::RefundReason,
    },
    ports::{Changed, Commit, Ending, OrderLife, OrderStore, StockStore},
};

use crate::{
    life::{LIMIT, after, ending, guard_units, id, item, late, payment, place, read, refund_due, stocked},
    world::{World, activity_id, bucket, mark, now, order, order_within, sku},
};

async fn expired(world: &World, buyer: &str, keep_quota: bool) -> Order {
    let order = place(world, buyer).await;
    let ending = Ending { keep_quota, ..ending(&order, Event::Expire) };
    assert_eq!(world.database.end(&order, &ending).await.unwrap(), Changed::Done);
    read(world, &order).await
}

#[tokio::test]
async fn the_same_payment_again_changes_nothing() {
    let world = stocked().await;
    let order = place(&world, "alice").await;
    let payment = payment(&order, "p1");
    assert_eq!(world.database.pay(&order, &payment, after(&order)).await.unwrap(), Changed::Done);
    let paid = Order { status: Status::Paid, updated_at: after(&order), payments: vec![id("p1")], ..order.clone() };
    assert_eq!(read(&world, &order).await, paid);
    let before = world.all().await;
    assert_eq!(world.database.pay(&order, &payment, now()).await.unwrap(), Changed::Otherwise);
    assert_eq!(world.all().await, before);
}

#[tokio::test]
async fn a_late_payment_takes_stock_and_quota_again_and_the_order_stays_for_good() {
    let world = stocked().await;
    for (buyer, keep) in [("alice", false), ("bob", true)] {
        let before = (world.left("a", 0).await, world.left("b", 3).await);
        let closed = expired(&world, buyer, keep).await;
        assert!(item(&world, &closed).await.contains_key("expires_at"));
        assert_eq!(late(&world, &closed, "late", !keep).await, Commit::Committed);
        let found = read(&world, &closed).await;
        assert_eq!((found.status, found.take, found.payments), (Status::Paid, Take::SECOND, vec![id("late")]));
        assert!(!item(&world, &closed).await.contains_key("expires_at"));
        assert_eq!(guard_units(&world, buyer).await, 3);
        let ((a, a_version), (b, b_version)) = before;
        assert_eq!(world.left("a", 0).await, (a - 2, a_version + 3));
        assert_eq!(world.left("b", 3).await, (b - 1, b_version + 3));
        // One placement, however often it took stock.
        let placed = world.database.buyer_orders(&closed.placement.activity, &closed.placement.buyer).await.unwrap();
        assert_eq!(placed.len(), 1);
    }
}

#[tokio::test]
async fn a_late_payment_that_cannot_have_its_units_or_quota_writes_nothing() {
    let world = World::start().await;
    world.open("a", 0, 2).await;
    world.open("b", 3, 5).await;
    let closed = expired(&world, "alice", false).await;
    let rival = order("bob", 2, &[("a", 0, 2)]);
    assert_eq!(world.database.commit(&rival, LIMIT).await.unwrap(), Commit::Committed);
    let before = world.all().await;
    assert_eq!(late(&world, &closed, "late", true).await, Commit::Short(vec![(sku("a"), bucket(0))]));
    assert_eq!(world.all().await, before);
    assert_eq!(world.database.end(&rival, &ending(&rival, Event::Cancel)).await.unwrap(), Changed::Done);
    // The buyer's other order uses the quota: 4 of 6, and 3 are needed.
    let other = order("alice", 3, &[("b", 3, 4)]);
    assert_eq!(world.database.commit(&other, LIMIT).await.unwrap(), Commit::Committed);
    let before = world.all().await;
    assert_eq!(late(&world, &closed, "late", true).await, Commit::LimitReached);
    assert_eq!(world.all().await, before);
    assert_eq!(world.database.end(&other, &ending(&other, Event::Cancel)).await.unwrap(), Changed::Done);
    let (activity, freeze) = (activity_id(), mark("freeze"));
    let _ = world.database.set_on_sale(&activity, &sku("a"), bucket(0), false, &freeze).await.unwrap();
    let before = world.all().await;
    assert_eq!(late(&world, &closed, "late", true).await, Commit::Frozen);
    assert_eq!(world.all().await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_late_payments_at_once_one_pays() {
    let world = World::patient().await;
    world.open("a", 0, 100).await;
    world.open("b", 3, 100).await;
    for round in 0..40_u64 {
        let closed = expired(&world, &format!("buyer{round}"), false).await;
        let (one, two) = tokio::join!(late(&world, &closed, "p1", true), late(&world, &closed, "p2", true));
        assert!(
            matches!((&one, &two), (Commit::Committed, Commit::Exists) | (Commit::Exists, Commit::Committed)),
            "{one:?} {two:?}"
        );
        assert_eq!(read(&world, &closed).await.payments.len(), 1);
        assert_eq!(world.left("a", 0).await.0, 100 - 2 * (round + 1));
    }
}

#[tokio::test]
async fn a_payment_goes_back_or_pays_late_but_never_both() {
    let world = stocked().await;
    let refused = expired(&world, "alice", false).await;
    let due = refund_due(&refused, "late", RefundReason::PaidTooLate);
    assert_eq!(world.database.record_refund(&due, Some(&refused)).await.unwrap(), Changed::Done);
    assert_eq!(read(&world, &refused).await.payments, [id("late")]);
    let before = world.all().await;
    assert_eq!(late(&world, &refused, "late", true).await, Commit::Exists);
    assert_eq!(world.database.record_refund(&due, Some(&refused)).await.unwrap(), Changed::Otherwise);
    assert_eq!(world.all().await, before);
    assert_eq!(world.database.refunds(&refused.placement.order_no).await.unwrap(), [due]);
    // Another payment may still pay it.
    assert_eq!(late(&world, &refused, "second", true).await, Commit::Committed);

    let revived = expired(&world, "bob", false).await;
    assert_eq!(late(&world, &revived, "late", true).await, Commit::Committed);
    let due = refund_due(&revived, "late", RefundReason::PaidTooLate);
    assert_eq!(world.database.record_refund(&due, Some(&revived)).await.unwrap(), Changed::Otherwise);
    assert_eq!(world.database.refunds(&revived.placement.order_no).await.unwrap(), []);
}

#[tokio::test]
async fn the_greatest_order_can_be_refunded_with_its_record() {
    let world = World::start().await;
    // 1 order, 20 guards, 69 stock items: all of the 90 actions that an order may have.
    let names: Vec<String> = (0..20).map(|index| format!("s{index:02}")).collect();
    let mut parts: Vec<(&str, u16, u32)> = Vec::new();
    for at in 0..69_u16 {
        let name = &names[usize::from(at % 20)];
        world.open(name, at / 20, 5).await;
        parts.push((name, at / 20, 1));
    }
    let order = order_within(LimitScope::Sku, "alice", 1, &parts);
    assert_eq!(order.placement.charges.len(), 20);
    assert_eq!(world.database.commit(&order, 10).await.unwrap(), Commit::Committed);
    assert_eq!(world.database.pay(&order, &payment(&order, "p1"), now()).await.unwrap(), Changed::Done);
    let due = refund_due(&order, "operator-1", RefundReason::Operator);
    let paid = read(&world, &order).await;
    let ending = Ending { refund: Some(due.clone()), ..ending(&order, Event::Refund) };
    assert_eq!(world.database.end(&paid, &ending).await.unwrap(), Changed::Done);
    assert_eq!(world.database.refunds(&order.placement.order_no).await.unwrap(), [due]);
    assert_eq!(world.left("s00", 0).await.0, 5);
}
