//! Coupons: each is held by one order at most, whatever happens to orders.

use aws_sdk_dynamodb::types::AttributeValue;
use futures_util::future::join_all;
use holdfast::{
    domain::{
        coupon::{Coupon, CouponCode},
        money::Money,
        order::{Event, Order},
    },
    ports::{Changed, Commit, Ending, OrderLife, OrderStore},
};

use crate::{
    life::{LIMIT, ending, late, read},
    world::{TABLE, World, bucket, order, text},
};

const CODE: &str = "0123456789ABCDEFGHJKMNPQRSTVWXYZ01234567";

/// An order of two units of `a` that uses the coupon.
fn with_coupon(buyer: &str, submission: u32) -> Order {
    let mut order = order(buyer, submission, &[("a", 0, 2)]);
    order.placement.coupon = Some(Coupon { code: CouponCode::parse(CODE).unwrap(), discount: Money::from_minor(500) });
    order
}

/// The number of the order that holds the coupon.
async fn holder(world: &World) -> Option<String> {
    let item = world.raw(&format!("C#sale#{CODE}"), "C").await?;
    item.get("order_no").map(|number| number.as_s().unwrap().clone())
}

async fn end(world: &World, order: &Order, event: Event, keep_quota: bool) {
    let ending = Ending { keep_quota, ..ending(order, event) };
    assert_eq!(world.database.end(order, &ending).await.unwrap(), Changed::Done);
}

#[tokio::test]
async fn a_coupon_is_used_once_and_a_second_use_writes_nothing() {
    let world = World::start().await;
    world.open("a", 0, 100).await;
    let (first, second) = (with_coupon("alice", 1), with_coupon("bob", 2));
    assert_eq!(world.database.commit(&first, LIMIT).await.unwrap(), Commit::Committed);
    assert_eq!(read(&world, &first).await, first);
    let before = world.all().await;
    assert_eq!(world.database.commit(&second, LIMIT).await.unwrap(), Commit::CouponUsed);
    // What is stored under the number ranks first, and the limit before the coupon.
    assert_eq!(world.database.commit(&first, LIMIT).await.unwrap(), Commit::Exists);
    assert_eq!(world.database.commit(&with_coupon("alice", 3), 3).await.unwrap(), Commit::LimitReached);
    let mut short = with_coupon("carl", 4);
    short.parts[0].bucket = bucket(1);
    assert_eq!(world.database.commit(&short, LIMIT).await.unwrap(), Commit::CouponUsed);
    assert_eq!(world.all().await, before);
    assert_eq!(holder(&world).await.as_deref(), Some(first.placement.order_no.as_str()));
}

#[tokio::test]
async fn of_many_orders_at_once_one_gets_the_coupon() {
    let world = World::patient().await;
    world.open("a", 0, 1_000).await;
    let orders: Vec<Order> = (0..40).map(|n| with_coupon(&format!("b{n}"), n)).collect();
    let answers = join_all(orders.iter().map(|order| world.database.commit(order, LIMIT))).await;
    let committed = |answer: &&Result<Commit, _>| matches!(answer, Ok(Commit::Committed));
    assert_eq!(answers.iter().filter(committed).count(), 1, "{answers:?}");
    assert_eq!(world.left("a", 0).await.0, 998);
}

#[tokio::test]
async fn a_coupon_goes_the_way_of_the_quota() {
    for event in [Event::Cancel, Event::Expire] {
        let world = World::start().await;
        world.open("a", 0, 100).await;
        let (first, second) = (with_coupon("alice", 1), with_coupon("bob", 2));
        assert_eq!(world.database.commit(&first, LIMIT).await.unwrap(), Commit::Committed);
        end(&world, &first, event, false).await;
        assert_eq!(holder(&world).await, None, "given back");
        assert_eq!(world.database.commit(&second, LIMIT).await.unwrap(), Commit::Committed);
        end(&world, &second, event, true).await;
        assert_eq!(holder(&world).await.as_deref(), Some(second.placement.order_no.as_str()), "kept");
        assert_eq!(world.database.commit(&with_coupon("carl", 3), LIMIT).await.unwrap(), Commit::CouponUsed);
    }
}

#[tokio::test]
async fn a_late_payment_takes_the_coupon_again_or_nothing() {
    let world = World::start().await;
    world.open("a", 0, 100).await;
    let first = with_coupon("alice", 1);
    assert_eq!(world.database.commit(&first, LIMIT).await.unwrap(), Commit::Committed);
    end(&world, &first, Event::Expire, false).await;
    let closed = read(&world, &first).await;
    let rival = with_coupon("bob", 2);
    assert_eq!(world.database.commit(&rival, LIMIT).await.unwrap(), Commit::Committed);
    let before = world.all().await;
    assert_eq!(late(&world, &closed, "late", true).await, Commit::CouponUsed);
    assert_eq!(world.all().await, before);
    end(&world, &rival, Event::Cancel, false).await;
    assert_eq!(late(&world, &closed, "late", true).await, Commit::Committed);
    assert_eq!(holder(&world).await.as_deref(), Some(first.placement.order_no.as_str()));
}

#[tokio::test]
async fn a_coupon_item_of_another_format_is_no_refusal() {
    let world = World::start().await;
    world.open("a", 0, 100).await;
    let put = world.client.put_item().table_name(TABLE).item("pk", text(&format!("C#sale#{CODE}")));
    put.item("sk", text("C")).item("format", AttributeValue::N("2".to_owned())).send().await.unwrap();
    assert!(world.database.commit(&with_coupon("alice", 1), LIMIT).await.is_err());
    assert_eq!(world.left("a", 0).await.0, 100);
}
