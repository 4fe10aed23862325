//! What a payment comes to, by what has become of its order.

use holdfast::domain::payment::RefundReason as R;
use serde_json::{Value, json};

use crate::shop::{Shop, code, outcome};

/// Where the order stands when the payment comes.
#[derive(Clone, Copy, Debug)]
enum Before {
    Unpaid,
    PaidByThis,
    PaidByAnother,
    Cancelled,
    Refunded,
    Expired,
    ExpiredAndSoldOut,
    ExpiredAndBoughtAgain,
    ExpiredAndFrozen,
    Aborted,
    Unknown,
}

const EVENT: &str = "event-1";

async fn bring(shop: &Shop, before: Before) -> String {
    let token = shop.token("alice");
    let order_no = shop.number(&token);
    if matches!(before, Before::Unknown) {
        return order_no;
    }
    if matches!(before, Before::Aborted) {
        assert_eq!(shop.cancel("alice", &order_no, &json!({"token": token})).await.0, 200);
        return order_no;
    }
    assert_eq!(shop.submit("alice", &token, 1).await.0, 201);
    match before {
        Before::PaidByThis => assert_eq!(outcome(&shop.tell(&order_no, EVENT, "paid").await), "paid"),
        Before::PaidByAnother => shop.pay(&order_no).await,
        Before::Cancelled => assert_eq!(shop.cancel("alice", &order_no, &json!({})).await.0, 200),
        Before::Refunded => {
            shop.pay(&order_no).await;
            assert_eq!(shop.operate("refund", &order_no, &json!({"reason": "sent back"})).await.0, 200);
        }
        _ => {}
    }
    if format!("{before:?}").starts_with("Expired") {
        shop.let_expire().await;
        assert_eq!(shop.status(&order_no).await, "CLOSED");
    }
    match before {
        Before::ExpiredAndSoldOut => {
            shop.order("bob").await;
            shop.order("carol").await;
        }
        Before::ExpiredAndBoughtAgain => {
            shop.order("alice").await;
        }
        Before::ExpiredAndFrozen => {
            let body = json!({"reason": "wrong price"});
            assert_eq!(shop.admin("POST /v1/admin/activities/{activity}/freeze", &body).await.0, 200);
        }
        _ => {}
    }
    order_no
}

/// Every state, literally: the answer, the order afterwards, what goes back of this payment.
#[tokio::test]
async fn a_payment_in_every_state_of_its_order() {
    let rows = [
        (Before::Unpaid, "paid", "PAID", None),
        (Before::PaidByThis, "no_effect", "PAID", None),
        (Before::PaidByAnother, "refund_due", "PAID", Some(R::AlreadyPaid)),
        (Before::Cancelled, "refund_due", "CANCELLED", Some(R::OrderEnded)),
        (Before::Refunded, "refund_due", "REFUNDED", Some(R::OrderEnded)),
        (Before::Expired, "paid_late", "PAID", None),
        (Before::ExpiredAndSoldOut, "refund_due", "CLOSED", Some(R::PaidTooLate)),
        (Before::ExpiredAndBoughtAgain, "refund_due", "CLOSED", Some(R::PaidTooLate)),
        (Before::ExpiredAndFrozen, "refund_due", "CLOSED", Some(R::PaidTooLate)),
        (Before::Aborted, "refund_due", "ABORTED", Some(R::OrderAborted)),
        (Before::Unknown, "refund_due", "ABORTED", Some(R::OrderAborted)),
    ];
    for (before, first, status, reason) in rows {
        let shop = Shop::open(2, &json!({"buckets": 2})).await;
        let order_no = bring(&shop, before).await;
        let told = shop.tell(&order_no, EVENT, "paid").await;
        assert_eq!((told.0, outcome(&told)), (200, first), "{before:?}: {}", told.1);
        // Again: no further effect, and the same money is due back once.
        for _ in 0..2 {
            let told = shop.tell(&order_no, EVENT, "paid").await;
            assert!(told.0 == 200 && ["no_effect", first].contains(&outcome(&told)), "{before:?}: {}", told.1);
        }
        assert_eq!(shop.status(&order_no).await, status, "{before:?}");
        let refunds: Vec<_> = shop.refunds(&order_no).await.into_iter().filter(|(event, _)| event == EVENT).collect();
        let expected: Vec<_> = reason.map(|reason| (EVENT.to_owned(), reason)).into_iter().collect();
        assert_eq!(refunds, expected, "{before:?}");
        if matches!(before, Before::ExpiredAndFrozen) {
            shop.admin("POST /v1/admin/activities/{activity}/unfreeze", &json!({"reason": "right price"})).await;
        }
        shop.agree().await;
    }
}

#[tokio::test]
async fn money_that_is_not_the_orders_goes_back() {
    let shop = Shop::open(4, &json!({})).await;
    let order_no = shop.order("alice").await;
    let rows: [(Value, R); 3] = [
        (json!({"amount": 49_899}), R::AmountMismatch),
        (json!({"currency": "USD"}), R::AmountMismatch),
        (json!({"activity": "another"}), R::UnknownOrder),
    ];
    for (index, (fields, reason)) in rows.into_iter().enumerate() {
        let event = format!("wrong-{index}");
        assert_eq!(outcome(&shop.tell_with(&order_no, &event, "paid", &fields).await), "refund_due");
        assert!(shop.refunds(&order_no).await.contains(&(event, reason)));
        assert_eq!(shop.status(&order_no).await, "PENDING_PAYMENT");
    }
    shop.pay(&order_no).await;
    shop.agree().await;
}

/// The same payment told in other words, by when its order is past paying: due back once, and answered.
#[tokio::test]
async fn a_payment_in_other_words_is_due_back_once() {
    let shop = Shop::open(1, &json!({})).await;
    let order_no = shop.order("alice").await;
    let wrong = shop.tell_with(&order_no, EVENT, "paid", &json!({"amount": 1})).await;
    assert_eq!(outcome(&wrong), "refund_due");
    shop.let_expire().await;
    shop.order("bob").await;
    let right = shop.tell(&order_no, EVENT, "paid").await;
    assert_eq!((right.0, outcome(&right)), (200, "refund_due"), "{}", right.1);
    assert_eq!(shop.refunds(&order_no).await, [(EVENT.to_owned(), R::AmountMismatch)]);
    assert_eq!(code(&shop.tell(&order_no, "operator-1", "paid").await), (400, "invalid_request"));
    shop.agree().await;
}

/// Money that went back does not pay, though what the order had comes back on sale.
#[tokio::test]
async fn a_payment_that_went_back_pays_nothing_later() {
    let shop = Shop::open(1, &json!({})).await;
    let order_no = shop.order("alice").await;
    shop.let_expire().await;
    let bobs = shop.order("bob").await;
    assert_eq!(outcome(&shop.tell(&order_no, EVENT, "paid").await), "refund_due");
    assert_eq!(shop.cancel("bob", &bobs, &json!({})).await.0, 200);
    assert_eq!(shop.left().await, (1, 1));
    assert_eq!(outcome(&shop.tell(&order_no, EVENT, "paid").await), "no_effect");
    assert_eq!((shop.status(&order_no).await, shop.left().await), ("CLOSED", (1, 1)));
    assert_eq!(outcome(&shop.tell(&order_no, "another", "paid").await), "paid_late");
    shop.agree().await;
}

#[tokio::test]
async fn f5_a_failed_payment_can_be_tried_again() {
    let shop = Shop::open(4, &json!({})).await;
    let order_no = shop.order("alice").await;
    for attempt in 0..3 {
        let told = shop.tell(&order_no, &format!("failed-{attempt}"), "failed").await;
        assert_eq!((told.0, outcome(&told)), (200, "no_effect"));
    }
    assert_eq!(shop.status(&order_no).await, "PENDING_PAYMENT");
    shop.pay(&order_no).await;
    assert_eq!((shop.status(&order_no).await, shop.left().await), ("PAID", (3, 3)));
    shop.agree().await;
}

/// The second take may come from other buckets than the first: each holds what the order names.
#[tokio::test]
async fn f9_a_late_payment_takes_the_units_where_they_are() {
    let shop = Shop::open(2, &json!({"buckets": 2, "limit": {"scope": "activity", "max": 2}})).await;
    let order_no = shop.order("alice").await;
    let first = shop.committed(&order_no).await;
    shop.let_expire().await;
    // Somebody takes what she had; the other bucket's unit is left.
    let home = first.placement.home;
    let taker = (0..).map(|n| format!("taker-{n}"));
    let mut taker =
        taker.filter(|name| holdfast::domain::ids::BuyerId::parse(name).unwrap().home(shop.activity.buckets) == home);
    shop.order(&taker.next().unwrap()).await;
    assert_eq!(outcome(&shop.tell(&order_no, EVENT, "paid").await), "paid_late");
    let second = shop.committed(&order_no).await;
    assert_eq!((second.take.get(), second.placement.home), (2, home));
    assert_ne!(second.parts[0].bucket, first.parts[0].bucket);
    assert_eq!(shop.left().await, (0, 0));
    assert_eq!(code(&shop.cancel("alice", &order_no, &json!({})).await), (409, "already_paid"));
    assert_eq!(shop.operate("refund", &order_no, &json!({"reason": "sent back"})).await.0, 200);
    assert_eq!(shop.left().await, (1, 1));
    shop.agree().await;
}

/// The claim for money of no order leaves no mark in Redis: the submission that comes afterwards deducts there,
/// and has to give its unit back itself.
#[tokio::test]
async fn money_of_no_order_goes_back_and_no_order_comes_afterwards() {
    let shop = Shop::open(1, &json!({})).await;
    let token = shop.token("alice");
    let order_no = shop.number(&token);
    assert_eq!(outcome(&shop.tell(&order_no, EVENT, "paid").await), "refund_due");
    for _ in 0..2 {
        assert_eq!(code(&shop.submit("alice", &token, 1).await), (409, "order_aborted"));
        assert_eq!(shop.left().await, (1, 1));
    }
    shop.order("bob").await;
    shop.agree().await;
}

/// Without Redis only the database's guard refuses: a late payment has to charge it again.
#[tokio::test]
async fn f6_a_late_payment_takes_quota_again() {
    let shop = Shop::open(2, &json!({"strategy": "cas"})).await;
    let order_no = shop.order("alice").await;
    shop.let_expire().await;
    assert_eq!(outcome(&shop.tell(&order_no, EVENT, "paid").await), "paid_late");
    assert_eq!(code(&shop.submit("alice", &shop.token("alice"), 1).await), (409, "limit_reached"));
}
