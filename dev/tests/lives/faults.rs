//! Each step of each change fails once, before and after its effect; then the same call comes again, or nothing
//! does. No unit and no money is lost.

use std::sync::Arc;
use std::time::Duration;

use harness::faulty::{Faulty, Saboteur, Strike};
use holdfast::adapters::{dynamodb::Database, redis::Gate, sqs::Queues};
use holdfast::app::activity_cache::ActivityCache;
use holdfast::app::cancel_order::{CancelOrder, Cancellation};
use holdfast::app::end_order::{OperateOrder, OperatorRequest};
use holdfast::app::expire_orders::ExpireOrders;
use holdfast::app::roll_back::RollBackOrder;
use holdfast::app::settle_payment::SettlePayment;
use holdfast::domain::ids::BuyerId;
use holdfast::domain::money::{Currency, Money};
use holdfast::domain::order_no::OrderNo;
use holdfast::domain::payment::{Payment, PaymentId, PaymentStatus};
use holdfast::domain::reason::Reason;
use holdfast::lambda::Wiring;
use holdfast::ports::SystemClock;
use serde_json::json;
use tokio::time::Instant;

use crate::shop::{AFTERWARDS, PRICE, Shop};

/// More than any of them has.
const STEPS: u32 = 9;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Cancel,
    CancelUnstored,
    Expire,
    Pay,
    PayLate,
    Refund,
}

struct Broken {
    store: Faulty<Database>,
    gate: Faulty<Gate>,
    messages: Faulty<Queues>,
}

fn broken(shop: &Shop, step: u32, strike: Strike) -> Broken {
    let Wiring { database, gate, queues, .. } = shop.backend.another_process();
    let saboteur = Saboteur::at(step, strike);
    Broken {
        store: Faulty { inner: database, saboteur: saboteur.clone() },
        gate: Faulty { inner: gate, saboteur: saboteur.clone() },
        messages: Faulty { inner: queues, saboteur },
    }
}

fn payment(order_no: &str) -> Payment {
    Payment {
        event_id: PaymentId::parse(&format!("pay-{order_no}")).unwrap(),
        activity: holdfast::domain::ids::ActivityId::parse("sale").unwrap(),
        order_no: OrderNo::parse(order_no).unwrap(),
        status: PaymentStatus::Paid,
        amount: Money::from_minor(PRICE),
        currency: Currency::parse("EUR").unwrap(),
    }
}

/// The call in a process that breaks at this step; what it answers nobody hears.
async fn attempt(shop: &Shop, act: Act, (buyer, token, order_no): (&str, &str, &str), at: (u32, Strike)) {
    let Broken { store, gate, messages } = broken(shop, at.0, at.1);
    let cache = ActivityCache::new(store.clone());
    match act {
        Act::Cancel | Act::CancelUnstored => {
            let roll_back = RollBackOrder { cache, store, gate, clock: SystemClock };
            let run = CancelOrder { roll_back, messages, keys: Arc::clone(&shop.backend.keys) };
            let asked = Cancellation {
                activity: shop.activity.id.clone(),
                buyer: BuyerId::parse(buyer).unwrap(),
                order_no: OrderNo::parse(order_no).unwrap(),
                token: Some(token.to_owned()),
            };
            let _ = run.run(&asked).await;
        }
        Act::Expire => {
            let run = ExpireOrders { store, gate, messages, clock: AFTERWARDS };
            let _ = run.run(Instant::now() + Duration::from_mins(1)).await;
        }
        Act::Pay | Act::PayLate => {
            let run = SettlePayment { cache, store, gate, messages, clock: SystemClock };
            let _ = run.run(&payment(order_no)).await;
        }
        Act::Refund => {
            let run = OperateOrder { store, gate, messages, clock: SystemClock };
            let asked = OperatorRequest {
                activity: shop.activity.id.clone(),
                order_no: OrderNo::parse(order_no).unwrap(),
                operator: BuyerId::parse("olivia").unwrap(),
                reason: Reason::parse("sent back").unwrap(),
                release_quota: None,
            };
            let _ = run.refund(&asked, None).await;
        }
    }
}

/// The same call again, in a process that works: it must end as if it had been the first.
async fn again(shop: &Shop, act: Act, (buyer, token, order_no): (&str, &str, &str)) {
    let expected = match act {
        Act::Cancel => {
            assert_eq!(shop.cancel(buyer, order_no, &json!({})).await.0, 200);
            "CANCELLED"
        }
        Act::CancelUnstored => {
            assert_eq!(shop.cancel(buyer, order_no, &json!({"token": token})).await.0, 200);
            "ABORTED"
        }
        Act::Expire => {
            shop.let_expire().await;
            "CLOSED"
        }
        Act::Pay | Act::PayLate => {
            assert_eq!(shop.tell(order_no, &format!("pay-{order_no}"), "paid").await.0, 200);
            "PAID"
        }
        Act::Refund => {
            assert_eq!(shop.operate("refund", order_no, &json!({"reason": "sent back"})).await.0, 200);
            assert_eq!(shop.refunds(order_no).await.len(), 1);
            "REFUNDED"
        }
    };
    assert_eq!(shop.status(order_no).await, expected, "{act:?}");
    if matches!(act, Act::Pay | Act::PayLate) {
        assert!(shop.refunds(order_no).await.is_empty(), "{act:?}: paid and paid back");
    }
}

async fn strike(act: Act, with: Strike, comes_again: bool) {
    let shop = Shop::open(40, &json!({})).await;
    for step in 0..STEPS {
        let buyer = format!("buyer-{step}");
        let token = shop.token(&buyer);
        let order_no = shop.number(&token);
        let subject = (buyer.as_str(), token.as_str(), order_no.as_str());
        if act != Act::CancelUnstored {
            assert_eq!(shop.submit(&buyer, &token, 1).await.0, 201);
        }
        match act {
            Act::Refund => shop.pay(&order_no).await,
            Act::PayLate => shop.let_expire().await,
            _ => {}
        }
        attempt(&shop, act, subject, (step, with)).await;
        if comes_again {
            again(&shop, act, subject).await;
        }
    }
    // What a broken call left behind, two reconciliations put right.
    for _ in 0..2 {
        shop.reconcile().await;
    }
    shop.agree().await;
    let (available, free) = shop.left().await;
    assert_eq!(i64::try_from(available).unwrap(), free, "{act:?} {with:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_step_fails_once_and_nothing_is_lost() {
    for act in [Act::Cancel, Act::CancelUnstored, Act::Expire, Act::Pay, Act::PayLate, Act::Refund] {
        for with in Strike::ALL {
            for comes_again in [true, false] {
                Box::pin(strike(act, with, comes_again)).await;
            }
        }
    }
}
