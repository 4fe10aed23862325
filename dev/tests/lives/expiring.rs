//! Orders that are not paid in time.

use dev::faults::skew::Skewed;
use holdfast::ports::{Cursor, ProgressStore as _};
use serde_json::json;

use crate::shop::{AFTERWARDS, PAYMENT_MINUTES, Shop, code};

#[tokio::test]
async fn what_is_not_paid_in_time_is_closed_and_sold_again() {
    let shop = Shop::open(3, &json!({"buckets": 1})).await;
    let (unpaid, paid, cancelled) = (shop.order("una").await, shop.order("paul").await, shop.order("carl").await);
    shop.pay(&paid).await;
    assert_eq!(shop.cancel("carl", &cancelled, &json!({})).await.0, 200);
    let early = shop.expire(Skewed(|_| (PAYMENT_MINUTES - 1) * 60_000)).await;
    assert_eq!((early.looked_at, early.expired), (0, 0), "nothing is due yet");
    for expired in [1, 0] {
        let report = shop.expire(AFTERWARDS).await;
        assert_eq!((report.expired, report.faults, report.complete), (expired, 0, true));
    }
    let statuses = [shop.status(&unpaid).await, shop.status(&paid).await, shop.status(&cancelled).await];
    assert_eq!(statuses, ["CLOSED", "PAID", "CANCELLED"]);
    assert_eq!(shop.left().await, (2, 2));
    shop.order("una").await;
    shop.order("late").await;
    assert_eq!(code(&shop.submit("later", &shop.token("later"), 1).await), (409, "sold_out"));
    shop.agree().await;
}

/// One that was left behind is found by the run after, and what is settled for good is not listed again.
#[tokio::test]
async fn the_next_run_begins_where_the_last_one_got_to() {
    let shop = Shop::open(8, &json!({"buckets": 1})).await;
    for n in 0..5 {
        shop.order(&format!("buyer-{n}")).await;
    }
    assert_eq!(shop.expire(AFTERWARDS).await.expired, 5);
    let job = "expire#sale#0";
    let Some(Cursor(at)) = shop.backend.wiring.database.progress(job).await.unwrap() else { unreachable!() };
    let reached = holdfast::domain::time::UnixMillis::parse("at", &at).unwrap();
    let clock = holdfast::ports::Clock::now(&AFTERWARDS);
    let behind = clock.since_ms(reached);
    assert!((300_000..360_000).contains(&behind), "five minutes may be listed again: {behind}");
    // Orders of now are due after that time: still found.
    shop.order("late").await;
    assert_eq!(shop.expire(AFTERWARDS).await.expired, 1);
    shop.agree().await;
}

/// The write itself looks at the deadline: whoever's clock is ahead finds it refused.
#[tokio::test]
async fn f9_the_deadline_is_checked_in_the_write() {
    use holdfast::domain::order::Event;
    use holdfast::domain::stock::Operation;
    use holdfast::ports::{Changed, Ending, OrderLife as _};
    let shop = Shop::open(3, &json!({})).await;
    let order = shop.committed(&shop.order("alice").await).await;
    let ending = |at| Ending {
        event: Event::Expire,
        at,
        keep_quota: false,
        operation: Operation::Expiry,
        actor: "test".to_owned(),
        ended_by: None,
        refund: None,
    };
    let due = order.placement.pay_before;
    let database = &shop.backend.wiring.database;
    for early in [due.plus_ms(-1), due] {
        assert_eq!(database.end(&order, &ending(early)).await.unwrap(), Changed::Otherwise);
    }
    assert_eq!(database.end(&order, &ending(due.plus_ms(1))).await.unwrap(), Changed::Done);
    assert_eq!(database.end(&order, &ending(due.plus_ms(2))).await.unwrap(), Changed::Otherwise);
    assert_eq!(shop.left().await, (3, 2), "Redis learns of it from reconciliation");
    assert_eq!(shop.reconcile().await["not_restocked"]["repaired"], json!(1));
    shop.agree().await;
}
