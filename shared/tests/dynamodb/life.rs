//! What happens to committed orders: every event on every state, in the database's own words.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;
use holdfast::{
    adapters::dynamodb::TOMBSTONE_LIFE_MS,
    domain::{
        ids::Bucket,
        order::{EndedBy, Event, Order, Status, Stored, Take},
        payment::{Payment, PaymentId, PaymentStatus, RefundDue, RefundReason},
        stock::Operation,
        time::UnixMillis,
    },
    ports::{Changed, Commit, Cursor, Ending, OrderLife, OrderStore, Revival},
};

use crate::world::{TABLE, World, bucket, now, order, sale, text};

/// In all of these tests an order takes two of `a` in bucket 0 and one of `b` in bucket 3.
pub const PARTS: [(&str, u16, u32); 2] = [("a", 0, 2), ("b", 3, 1)];
/// More than one order's units.
pub const LIMIT: u32 = 6;

pub fn id(text: &str) -> PaymentId {
    PaymentId::parse(text).unwrap()
}

pub fn payment(order: &Order, event: &str) -> Payment {
    let placement = &order.placement;
    Payment {
        event_id: id(event),
        activity: placement.activity.clone(),
        order_no: placement.order_no.clone(),
        status: PaymentStatus::Paid,
        amount: placement.total(),
        currency: placement.currency.clone(),
    }
}

pub fn refund_due(order: &Order, event: &str, reason: RefundReason) -> RefundDue {
    let payment = payment(order, event);
    RefundDue {
        order_no: payment.order_no,
        activity: payment.activity,
        event_id: payment.event_id,
        amount: payment.amount,
        currency: payment.currency,
        reason,
        at: now(),
    }
}

/// An ending by the system, a minute past the order's deadline.
pub fn ending(order: &Order, event: Event) -> Ending {
    let operation = match event {
        Event::Expire => Operation::Expiry,
        Event::Refund => Operation::Refund,
        _ => Operation::Cancel,
    };
    Ending {
        event,
        at: after(order),
        keep_quota: false,
        operation,
        actor: "tester".to_owned(),
        ended_by: None,
        refund: None,
    }
}

pub fn after(order: &Order) -> UnixMillis {
    order.placement.pay_before.plus_ms(60_000)
}

/// The order as the database has it.
pub async fn read(world: &World, order: &Order) -> Order {
    match world.database.order(&order.placement.order_no).await.unwrap() {
        Some(Stored::Order(order)) => order,
        other => panic!("{other:?}"),
    }
}

pub async fn guard_units(world: &World, buyer: &str) -> u32 {
    let guard = world.raw(&format!("B#sale#{buyer}"), "G#A").await.unwrap();
    guard["units"].as_n().unwrap().parse().unwrap()
}

pub async fn item(world: &World, order: &Order) -> HashMap<String, AttributeValue> {
    world.raw(&format!("O#{}", order.placement.order_no), "O").await.unwrap()
}

pub async fn late(world: &World, closed: &Order, event: &str, charge: bool) -> Commit {
    let payment = payment(closed, event);
    let revival = Revival {
        closed,
        payment: &payment,
        parts: closed.parts.clone(),
        charge,
        limit_max: LIMIT,
        at: after(closed).plus_ms(1),
    };
    world.database.pay_late(&revival).await.unwrap()
}

pub async fn stocked() -> World {
    let world = World::start().await;
    world.open("a", 0, 100).await;
    world.open("b", 3, 100).await;
    world
}

pub async fn place(world: &World, buyer: &str) -> Order {
    let order = order(buyer, 1, &PARTS);
    assert_eq!(world.database.commit(&order, LIMIT).await.unwrap(), Commit::Committed);
    order
}

/// A new order that was brought there, `None` where nothing is stored; as it was placed.
async fn brought_to(world: &World, buyer: &str, status: Option<Status>) -> Order {
    let database = &world.database;
    let Some(status) = status.filter(|status| *status != Status::Aborted) else {
        let order = order(buyer, 1, &PARTS);
        if status.is_some() {
            let _ = database.claim(&order.placement.clone().into_tombstone(now())).await.unwrap();
        }
        return order;
    };
    let order = place(world, buyer).await;
    if matches!(status, Status::Paid | Status::Shipped | Status::Refunded) {
        assert_eq!(database.pay(&order, &payment(&order, "first"), now()).await.unwrap(), Changed::Done);
    }
    let paid = Order { status: Status::Paid, ..order.clone() };
    let ended = match status {
        Status::Cancelled => database.end(&order, &ending(&order, Event::Cancel)).await.unwrap(),
        Status::Closed => database.end(&order, &ending(&order, Event::Expire)).await.unwrap(),
        Status::Refunded => database.end(&paid, &ending(&order, Event::Refund)).await.unwrap(),
        Status::Shipped => {
            let update = world.client.update_item().table_name(TABLE);
            let key = text(&format!("O#{}", order.placement.order_no));
            let update = update.key("pk", key).key("sk", text("O")).update_expression("SET #s = :s");
            let update = update.expression_attribute_names("#s", "status");
            update.expression_attribute_values(":s", text("SHIPPED")).send().await.unwrap();
            Changed::Done
        }
        _ => Changed::Done,
    };
    assert_eq!(ended, Changed::Done);
    assert_eq!(read(world, &order).await.status, status);
    order
}

/// Sends the event as one would who read the order while it could happen. Whether it did.
async fn send(world: &World, order: &Order, event: &str) -> bool {
    let seen = |status| Order { status, ..order.clone() };
    let done = |changed| match changed {
        Changed::Done => true,
        Changed::Otherwise => false,
        Changed::Busy => panic!("nothing else is going on"),
    };
    let database = &world.database;
    match event {
        "cancel" => done(database.end(&seen(Status::PendingPayment), &ending(order, Event::Cancel)).await.unwrap()),
        "expire" => done(database.end(&seen(Status::PendingPayment), &ending(order, Event::Expire)).await.unwrap()),
        "refund" => done(database.end(&seen(Status::Paid), &ending(order, Event::Refund)).await.unwrap()),
        "pay" => done(database.pay(&seen(Status::PendingPayment), &payment(order, "this"), now()).await.unwrap()),
        _ => match late(world, &seen(Status::Closed), "this", true).await {
            Commit::Committed => true,
            Commit::Exists => false,
            other => panic!("{other:?}"),
        },
    }
}

#[tokio::test]
async fn every_event_on_every_state_is_decided_by_the_write_itself() {
    const EVENTS: [&str; 5] = ["cancel", "expire", "refund", "pay", "pay late"];
    /// What the order is then, and how often its units are held; `-` is refused.
    const TABLE: [(Option<Status>, [&str; 5]); 8] = [
        (None, ["-", "-", "-", "-", "-"]),
        (Some(Status::PendingPayment), ["CANCELLED 0", "CLOSED 0", "-", "PAID 1", "-"]),
        (Some(Status::Paid), ["-", "-", "REFUNDED 0", "-", "-"]),
        (Some(Status::Shipped), ["-", "-", "-", "-", "-"]),
        (Some(Status::Cancelled), ["-", "-", "-", "-", "-"]),
        (Some(Status::Closed), ["-", "-", "-", "-", "PAID 1"]),
        (Some(Status::Refunded), ["-", "-", "-", "-", "-"]),
        (Some(Status::Aborted), ["-", "-", "-", "-", "-"]),
    ];
    let world = stocked().await;
    let mut held = 0;
    for (row, (status, cells)) in TABLE.into_iter().enumerate() {
        for (column, (event, expected)) in EVENTS.into_iter().zip(cells).enumerate() {
            let buyer = format!("buyer{row}x{column}");
            let order = brought_to(&world, &buyer, status).await;
            let before = world.all().await;
            let done = send(&world, &order, event).await;
            let name = format!("{status:?} × {event}");
            if !done {
                assert_eq!(expected, "-", "{name}");
                assert_eq!(world.all().await, before, "{name}");
                held += u64::from(status.is_some_and(Status::is_live));
                continue;
            }
            let found = read(&world, &order).await;
            let holds = guard_units(&world, &buyer).await / 3;
            assert_eq!(format!("{} {holds}", found.status.as_str()), expected, "{name}");
            held += u64::from(holds);
            let dead = item(&world, &order).await.contains_key("expires_at");
            assert_eq!(dead, !found.status.is_live(), "{name}");
            assert_eq!(found.take == Take::SECOND, event == "pay late", "{name}");
            assert_eq!(found.payments.contains(&id("this")), event.starts_with("pay"), "{name}");
        }
        assert_eq!(
            (world.left("a", 0).await.0, world.left("b", 3).await.0),
            (100 - 2 * held, 100 - held),
            "{status:?}"
        );
    }
}

#[tokio::test]
async fn a_dead_order_gives_its_units_back_where_they_came_from_with_version_and_mark() {
    let world = stocked().await;
    let order = place(&world, "alice").await;
    let ending = ending(&order, Event::Cancel);
    assert_eq!(world.database.end(&order, &ending).await.unwrap(), Changed::Done);
    assert_eq!((world.left("a", 0).await, world.left("b", 3).await), ((100, 3), (100, 3)));
    for key in ["S#sale#a#0", "S#sale#b#3"] {
        let stock = world.raw(key, "S").await.unwrap();
        assert_eq!((stock["op"].clone(), stock["operator"].clone()), (text("cancel"), text("tester")));
        assert_eq!(stock["ref"], text(order.placement.order_no.as_str()));
    }
    let gone_at = (ending.at.get() + TOMBSTONE_LIFE_MS) / 1_000;
    assert_eq!(item(&world, &order).await["expires_at"].as_n().unwrap(), &gone_at.to_string());
    assert_eq!(read(&world, &order).await, Order { status: Status::Cancelled, updated_at: ending.at, ..order.clone() });
    assert_eq!(world.database.buyer_orders(&order.placement.activity, &order.placement.buyer).await.unwrap().len(), 1);
}

#[tokio::test]
async fn quota_is_kept_or_given_back_as_the_ending_says_and_an_operator_is_remembered() {
    let world = stocked().await;
    for (buyer, keep_quota, units) in [("alice", true, 3), ("bob", false, 0)] {
        let order = place(&world, buyer).await;
        let ended_by =
            EndedBy { operator: "op".to_owned(), reason: "asked by phone".to_owned(), quota_kept: keep_quota };
        let ending = Ending { keep_quota, ended_by: Some(ended_by.clone()), ..ending(&order, Event::Cancel) };
        assert_eq!(world.database.end(&order, &ending).await.unwrap(), Changed::Done);
        assert_eq!(guard_units(&world, buyer).await, units);
        assert_eq!(read(&world, &order).await.ended_by, Some(ended_by));
    }
}

#[tokio::test]
async fn an_expiry_checks_the_deadline_in_the_write() {
    let world = stocked().await;
    let order = place(&world, "alice").await;
    let before = world.all().await;
    let at = |at| Ending { at, ..ending(&order, Event::Expire) };
    for early in [-1, 0] {
        let early = at(order.placement.pay_before.plus_ms(early));
        assert_eq!(world.database.end(&order, &early).await.unwrap(), Changed::Otherwise);
    }
    assert_eq!(world.all().await, before);
    let due = at(order.placement.pay_before.plus_ms(1));
    assert_eq!(world.database.end(&order, &due).await.unwrap(), Changed::Done);
}

#[tokio::test]
async fn an_order_that_took_stock_again_does_not_end_by_what_was_read_before() {
    let world = stocked().await;
    let first = place(&world, "alice").await;
    assert_eq!(world.database.end(&first, &ending(&first, Event::Expire)).await.unwrap(), Changed::Done);
    let closed = read(&world, &first).await;
    assert_eq!(late(&world, &closed, "late", true).await, Commit::Committed);
    let before = world.all().await;
    let stale = Order { status: Status::Paid, ..first.clone() };
    assert_eq!(world.database.end(&stale, &ending(&first, Event::Refund)).await.unwrap(), Changed::Otherwise);
    assert_eq!(world.all().await, before);
}

/// All pages of one bucket's due numbers, as text.
async fn due(world: &World, home: Bucket, between: (UnixMillis, UnixMillis)) -> Vec<String> {
    let activity = sale(&["a", "b"]);
    let (mut numbers, mut page): (Vec<String>, Option<Cursor>) = (Vec::new(), None);
    loop {
        let (some, next) = world.database.due_orders(&activity, home, between, page.as_ref()).await.unwrap();
        numbers.extend(some.iter().map(|number| number.as_str().to_owned()));
        page = next;
        if page.is_none() {
            return numbers;
        }
    }
}

#[tokio::test]
async fn due_orders_are_those_of_one_bucket_from_the_first_deadline_to_before_the_last() {
    let world = stocked().await;
    world.open("c", 0, 1_000).await;
    let (home, mut mine, mut others) = (bucket(0), Vec::new(), 0);
    // More than one page of the index, and some of other homes between them.
    for index in 1.. {
        let order = order(&format!("buyer{index}"), index, &[("c", 0, 1)]);
        let is_mine = order.placement.home == home;
        others += u32::from(!is_mine);
        if is_mine || others <= 20 {
            assert_eq!(world.database.commit(&order, LIMIT).await.unwrap(), Commit::Committed);
        }
        if is_mine {
            mine.push(order);
        }
        if mine.len() > 205 {
            break;
        }
    }
    let numbers = |orders: &[Order]| -> Vec<String> {
        orders.iter().map(|order| order.placement.order_no.as_str().to_owned()).collect()
    };
    let deadline = |index: usize| mine[index].placement.pay_before;
    let last = mine.len() - 1;
    assert_eq!(due(&world, home, (deadline(0), deadline(last).plus_ms(1))).await, numbers(&mine));
    assert_eq!(due(&world, home, (deadline(0), deadline(last))).await, numbers(&mine[..last]));
    assert_eq!(due(&world, home, (deadline(1), deadline(last))).await, numbers(&mine[1..last]));
    // Ended ones as well.
    assert_eq!(world.database.end(&mine[1], &ending(&mine[1], Event::Cancel)).await.unwrap(), Changed::Done);
    assert_eq!(due(&world, home, (deadline(1), deadline(2))).await, numbers(&mine[1..2]));
}
