//! What becomes of the orders: most are paid, some after a failure or told twice; some are cancelled, some
//! expire and a few of those are paid too late, some are refunded. What comes back is sold again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use holdfast::app::expire_orders::ExpireOrders;
use holdfast::lambda::Wiring;
use holdfast::ports::{Clock as _, SystemClock};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::book::AcceptedOrder;
use super::buyer::Crowd;
use super::client::{Call, Reply};
use super::measure::Kind;
use super::opening::PAYMENT_MINUTES;
use crate::checks::Check;
use crate::faults::skew::Skewed;
use crate::stores::snapshot::Snapshot;

/// Orders in a thousand: cancelled, left to expire, paid and refunded, paid after a failure, paid and told
/// twice. The others are paid.
const FATES_PER_MILLE: [(Fate, u64); 5] =
    [(Fate::Cancel, 30), (Fate::Expire, 20), (Fate::Refund, 10), (Fate::FailFirst, 100), (Fate::TellTwice, 100)];
/// How long one run of the expiry has.
const EXPIRY_TIME: Duration = Duration::from_mins(1);
/// A request is sent so often when it is answered 503, or not at all.
const TRIES_MAX: u32 = 20;
const PAUSE: Duration = Duration::from_millis(200);

/// What becomes of one order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Pay,
    FailFirst,
    TellTwice,
    Cancel,
    Expire,
    Refund,
}

/// What became of all of them.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Afterwards {
    pub counts: BTreeMap<&'static str, u64>,
    /// Events of refunds that have to arrive, and no others.
    #[serde(skip)]
    refunds: BTreeSet<String>,
    /// Expired orders that are still to be paid.
    #[serde(skip)]
    late: Vec<AcceptedOrder>,
}

/// Written by all tasks.
type Noted = Arc<Mutex<Afterwards>>;

impl Afterwards {
    /// Money went where the answers said: exactly what is due back was told to who pays it.
    #[must_use]
    pub fn check(&self, arrived: &std::collections::HashSet<String>, snapshot: &Snapshot) -> Check {
        let told: BTreeSet<String> = arrived
            .iter()
            .filter(|event| event.contains("#REFUND_DUE#"))
            .filter(|e| of(snapshot, e))
            .cloned()
            .collect();
        let missing = self.refunds.difference(&told).map(|event| format!("no event {event}"));
        let unasked = told.difference(&self.refunds).map(|event| format!("nobody was told of {event}"));
        let violations = missing.chain(unasked).collect();
        let counts: Vec<String> = self.counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        Check::new("money", "what is due back is told once, and nothing else", counts.join(", "), violations)
    }
}

fn of(snapshot: &Snapshot, event: &str) -> bool {
    event.split('#').next().is_some_and(|order_no| snapshot.orders.contains_key(order_no))
}

/// Lets every accepted order meet its fate.
///
/// # Errors
/// When the expiry cannot run.
pub async fn play(crowd: Arc<Crowd>, wiring: Wiring, seed: u64) -> Result<Afterwards, String> {
    let noted = Noted::default();
    let mut random = fastrand::Rng::with_seed(seed);
    let mut unpaid = Vec::new();
    let mut tasks = JoinSet::new();
    for (index, order) in crowd.book.accepted_orders().into_iter().enumerate() {
        let fate = fate(random.u64(..1_000));
        if fate == Fate::Expire {
            unpaid.push(order);
            continue;
        }
        crowd.client.ready().await;
        let (crowd, noted) = (Arc::clone(&crowd), Arc::clone(&noted));
        tasks.spawn(async move { meet(&crowd, &noted, &order, fate, index).await });
    }
    while tasks.join_next().await.is_some() {}
    expire(&wiring, &crowd, &noted, &unpaid).await?;
    // Some are paid all the same, while what they had is still there; others when it is sold again.
    let late = unpaid.split_off(unpaid.len() / 2);
    pay_late(&crowd, &noted, &unpaid).await;
    let afterwards = noted.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok(Afterwards { late, ..afterwards })
}

/// Payments of the rest of the expired orders: what came back is sold again by now.
pub async fn play_on(crowd: Arc<Crowd>, mut afterwards: Afterwards) -> Afterwards {
    let late = std::mem::take(&mut afterwards.late);
    let noted = Arc::new(Mutex::new(afterwards));
    pay_late(&crowd, &noted, &late).await;
    noted.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

async fn pay_late(crowd: &Crowd, noted: &Noted, orders: &[AcceptedOrder]) {
    for order in orders {
        let (status, body) = pay(crowd, order, "late", "paid").await;
        match body["outcome"].as_str() {
            Some("paid_late") => {
                count(noted, "paid too late, and revived");
                crowd.book.revived(&order.order_no);
            }
            Some("refund_due") => due(noted, order, "late", "paid too late, and paid back"),
            _ => crowd.book.surprise(|| format!("a late payment of {} was answered {status} {body}", order.order_no)),
        }
    }
}

fn fate(mut roll: u64) -> Fate {
    for (fate, per_mille) in FATES_PER_MILLE {
        match roll.checked_sub(per_mille) {
            None => return fate,
            Some(rest) => roll = rest,
        }
    }
    Fate::Pay
}

fn count(noted: &Noted, what: &'static str) {
    *noted.lock().unwrap_or_else(PoisonError::into_inner).counts.entry(what).or_default() += 1;
}

/// Money that goes back, by the payment or the operator's refund.
fn due(noted: &Noted, order: &AcceptedOrder, payment: &str, what: &'static str) {
    let id = if payment == "operator-1" { payment.to_owned() } else { payment_id(order, payment) };
    let event = format!("{}#REFUND_DUE#{id}", order.order_no);
    noted.lock().unwrap_or_else(PoisonError::into_inner).refunds.insert(event);
    count(noted, what);
}

fn payment_id(order: &AcceptedOrder, payment: &str) -> String {
    format!("{payment}-{}", order.order_no)
}

async fn meet(crowd: &Crowd, noted: &Noted, order: &AcceptedOrder, fate: Fate, index: usize) {
    match fate {
        Fate::Cancel => {
            for _ in 0..=index % 2 {
                cancel(crowd, order).await;
            }
            count(noted, "cancelled");
            if index.is_multiple_of(5) {
                expect(crowd, order, "stray", "paid", "refund_due").await;
                due(noted, order, "stray", "paid after their cancellation, and paid back");
            }
        }
        Fate::FailFirst => {
            expect(crowd, order, "failed", "failed", "no_effect").await;
            expect(crowd, order, "paid", "paid", "paid").await;
            count(noted, "paid after a failure");
        }
        Fate::TellTwice => {
            expect(crowd, order, "paid", "paid", "paid").await;
            expect(crowd, order, "paid", "paid", "no_effect").await;
            count(noted, "paid, and told twice");
        }
        Fate::Refund => {
            expect(crowd, order, "paid", "paid", "paid").await;
            refund(crowd, order).await;
            due(noted, order, "operator-1", "refunded");
        }
        Fate::Pay | Fate::Expire => {
            expect(crowd, order, "paid", "paid", "paid").await;
            count(noted, "paid");
        }
    }
}

async fn expect(crowd: &Crowd, order: &AcceptedOrder, payment: &str, said: &str, expected: &str) {
    let (status, body) = pay(crowd, order, payment, said).await;
    // An answer that was lost is told again as what it was.
    if status != 200 || !(body["outcome"] == expected || body["outcome"] == "no_effect") {
        crowd.book.surprise(|| format!("a payment of {} was answered {status} {body}", order.order_no));
    }
}

async fn pay(crowd: &Crowd, order: &AcceptedOrder, payment: &str, said: &str) -> (u16, Value) {
    let body = json!({
        "event_id": payment_id(order, payment), "activity": crowd.activity, "order_no": order.order_no, "status": said,
        "amount": order.total, "currency": "EUR"
    })
    .to_string();
    let signature = harness::webhook_secrets().sign(body.as_bytes(), SystemClock.now());
    let mut call = Call::post("/v1/payments/webhook".to_owned(), "", body);
    call.access_token = None;
    call.header = Some(("holdfast-signature", signature));
    patiently(crowd, &call, Kind::Payment).await
}

async fn cancel(crowd: &Crowd, order: &AcceptedOrder) {
    let path = format!("/v1/activities/{}/orders/{}/cancel", crowd.activity, order.order_no);
    let (status, body) =
        patiently(crowd, &Call::post(path, &crowd.login(order.buyer), "{}".to_owned()), Kind::Cancel).await;
    if status == 200 && body["status"] == "CANCELLED" {
        crowd.book.ended(&order.order_no);
    } else {
        crowd.book.surprise(|| format!("cancelling {} was answered {status} {body}", order.order_no));
    }
}

async fn refund(crowd: &Crowd, order: &AcceptedOrder) {
    let path = format!("/v1/admin/activities/{}/orders/{}/refund", crowd.activity, order.order_no);
    let groups = ["operator".to_owned()];
    let operator = crowd.authorizer.login("olivia", &groups, jiff::Timestamp::now().as_second());
    let body = json!({"reason": "sent back", "amount": order.total}).to_string();
    let (status, body) = patiently(crowd, &Call::post(path, &operator, body), Kind::Refund).await;
    if status == 200 && body["status"] == "REFUNDED" {
        crowd.book.ended(&order.order_no);
    } else {
        crowd.book.surprise(|| format!("refunding {} was answered {status} {body}", order.order_no));
    }
}

/// Again where it was told to be, or nothing came back: each of these calls is safe to repeat.
async fn patiently(crowd: &Crowd, call: &Call, kind: Kind) -> (u16, Value) {
    for _ in 0..TRIES_MAX {
        let reply = crowd.client.call(call).await;
        crowd.measures.note(kind, &reply);
        match reply {
            Ok(Reply { status, body, .. }) if status != 503 => return (status, body),
            _ => tokio::time::sleep(PAUSE).await,
        }
        crowd.measures.extra("cancel, payment or refund again after 503");
    }
    (0, Value::Null)
}

/// As if the time to pay had passed: by the clock of this one run.
async fn expire(wiring: &Wiring, crowd: &Crowd, noted: &Noted, unpaid: &[AcceptedOrder]) -> Result<(), String> {
    let Wiring { database, gate, queues, .. } = wiring.clone();
    let clock = Skewed(|_| (PAYMENT_MINUTES + 1) * 60_000);
    let run = ExpireOrders { store: database, gate, messages: queues, clock };
    let report = run.run(Instant::now() + EXPIRY_TIME).await.map_err(|fault| fault.chain())?;
    if report.faults > 0 || !report.complete {
        return Err(format!("the expiry did not get through: {report:?}"));
    }
    for order in unpaid {
        crowd.book.ended(&order.order_no);
        count(noted, "expired");
    }
    Ok(())
}
