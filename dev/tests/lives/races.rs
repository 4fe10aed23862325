//! Every pair of things that can happen to one order, at the same time, on many orders.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;

use crate::shop::{AFTERWARDS, Shared, Shop};

/// Orders per pair; as many as `HOLDFAST_RACES` says.
const ORDERS: usize = 20;
/// Most tries of what collides with others.
const TRIES_MAX: u32 = 500;
/// Most orders under way at once.
const PARALLEL: usize = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Cancel,
    OperatorCancel,
    Expire,
    Pay,
    PayAgain,
    OperatorRefund,
    ProviderRefund,
}

/// How the orders stand when the pair begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    Unpaid,
    Paid,
    Expired,
}

/// Pairs that can meet, from where.
const PAIRS: [(Begin, Act, Act); 21] = {
    use Act as A;
    use Begin as F;
    [
        (F::Unpaid, A::Cancel, A::Cancel),
        (F::Unpaid, A::Cancel, A::OperatorCancel),
        (F::Unpaid, A::Cancel, A::Expire),
        (F::Unpaid, A::Cancel, A::Pay),
        (F::Unpaid, A::OperatorCancel, A::Expire),
        (F::Unpaid, A::OperatorCancel, A::Pay),
        (F::Unpaid, A::Expire, A::Expire),
        (F::Unpaid, A::Expire, A::Pay),
        (F::Unpaid, A::Pay, A::Pay),
        (F::Unpaid, A::Pay, A::PayAgain),
        (F::Unpaid, A::Pay, A::OperatorRefund),
        (F::Unpaid, A::Pay, A::ProviderRefund),
        (F::Paid, A::OperatorRefund, A::OperatorRefund),
        (F::Paid, A::OperatorRefund, A::ProviderRefund),
        (F::Paid, A::OperatorRefund, A::PayAgain),
        (F::Paid, A::ProviderRefund, A::PayAgain),
        (F::Paid, A::Cancel, A::OperatorRefund),
        (F::Expired, A::Pay, A::Pay),
        (F::Expired, A::Pay, A::PayAgain),
        (F::Expired, A::Pay, A::OperatorRefund),
        (F::Expired, A::Pay, A::Cancel),
    ]
};

/// Acts until the answer is final, as each of them would.
async fn act(shop: &Shop, act: Act, buyer: &str, order_no: &str) {
    for _ in 0..TRIES_MAX {
        let (status, body) = match act {
            Act::Cancel => shop.cancel(buyer, order_no, &json!({})).await,
            Act::OperatorCancel => shop.operate("cancel", order_no, &json!({"reason": "x"})).await,
            Act::Pay => shop.tell(order_no, "first", "paid").await,
            Act::PayAgain => shop.tell(order_no, "second", "paid").await,
            Act::OperatorRefund => shop.operate("refund", order_no, &json!({"reason": "x"})).await,
            Act::ProviderRefund => shop.tell(order_no, "back", "refunded").await,
            Act::Expire => return shop.let_expire().await,
        };
        if status != 503 {
            assert!(status == 200 || status == 409, "{act:?} {order_no}: {status} {body}");
            return;
        }
    }
    unreachable!("{act:?} {order_no} is answered 503 for ever");
}

/// Money that came and was not told to have gone back is on a paid order, exactly once.
async fn money(shop: &Shop, (from, one, other): (Begin, Act, Act), order_no: &str) {
    let acted = |act| one == act || other == act;
    let came = u32::from(from == Begin::Paid || acted(Act::Pay)) + u32::from(acted(Act::PayAgain));
    let refunds = shop.refunds(order_no).await;
    let by_operator = refunds.iter().filter(|(event, _)| event.starts_with("operator")).count();
    let back = u32::try_from(refunds.len()).unwrap();
    let status = shop.status(order_no).await;
    let kept = match status {
        "PAID" => 1,
        // The provider gave it back by itself.
        "REFUNDED" => u32::from(by_operator == 0),
        _ => 0,
    };
    assert_eq!(came, back + kept, "{from:?} {one:?} {other:?}: {order_no} is {status}, {refunds:?}");
    assert!(by_operator <= 1);
}

async fn race(pair: (Begin, Act, Act), orders: usize) {
    let (from, one, other) = pair;
    let stock = u64::try_from(orders).unwrap() * 2;
    let shop: Shared = Arc::new(Shop::open(stock, &json!({"bucket_rate": 500})).await);
    let mut numbers = Vec::new();
    for index in 0..orders {
        let buyer = format!("buyer-{index}");
        let token = shop.token(&buyer);
        shop.submit_patiently(&buyer, &token).await;
        let order_no = shop.number(&token);
        if from == Begin::Paid {
            act(&shop, Act::Pay, &buyer, &order_no).await;
        }
        numbers.push((buyer, order_no));
    }
    if from == Begin::Expired {
        shop.let_expire().await;
    }
    for some in numbers.chunks(PARALLEL) {
        let mut tasks = JoinSet::new();
        for act_of in [one, other] {
            if act_of == Act::Expire {
                // One run for all of them.
                let shop = Arc::clone(&shop);
                tasks.spawn(async move {
                    let report = shop.expire(AFTERWARDS).await;
                    assert_eq!(report.faults, 0, "{report:?}");
                });
                continue;
            }
            for (buyer, order_no) in some {
                let (shop, buyer, order_no) = (Arc::clone(&shop), buyer.clone(), order_no.clone());
                tasks.spawn(async move { act(&shop, act_of, &buyer, &order_no).await });
            }
        }
        while let Some(ended) = tasks.join_next().await {
            ended.unwrap();
        }
    }
    for (_, order_no) in &numbers {
        money(&shop, pair, order_no).await;
    }
    shop.holds().await;
    shop.agree().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f4_every_pair_on_one_order_has_one_winner() {
    let orders = std::env::var("HOLDFAST_RACES").ok().and_then(|text| text.parse().ok()).unwrap_or(ORDERS);
    for pair in PAIRS {
        race(pair, orders).await;
    }
}
