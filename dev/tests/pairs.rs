//! Ten thousand random pairs of orders, each with a failure at a random step: refused, lost before or
//! after its effect, or the process dead from there on. Retries, rollback messages lost, doubled and
//! reordered, and a reconciliation that dies half way follow. Then the invariants of docs/protocol.md
//! hold, read raw from both stores.

#![recursion_limit = "256"]
#![allow(clippy::unwrap_used)]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use dev::{
    checks::{self, Answer, Submission as Told},
    sale::settle::drain,
    stack::{Stack, StackOptions},
};
use fastrand::Rng;
use futures_util::{StreamExt as _, stream};
use harness::{
    events,
    faulty::{Faulty, Saboteur, Strike},
    sample,
};
use holdfast::{
    app::{
        activity_cache::ActivityCache,
        admission::AdmissionControl,
        place_order::{PlaceOrder, Placed, Refusal, Submission},
        reconcile::Reconcile,
        roll_back::RollBackOrder,
    },
    domain::{
        cart::Cart,
        ids::{ActivityId, BuyerId, Sku},
        money::Quantity,
        order_no::OrderNo,
        repair::GRACE_MS,
        time::UnixMillis,
        token::{Page, Token, TokenId},
    },
    ports::{Clock, Fault, Messages, OrderEvent, RollBack, SystemClock},
};
use serde_json::json;
use tokio::time::{Duration, Instant};

const PAIRS: u64 = 10_000;
const PAIRS_PER_ROUND: u64 = 500;
/// Pairs under way at once.
const PARALLEL: usize = 8;
/// More steps than any submission takes, so that some meet no failure.
const STEPS: u32 = 10;

/// Keeps the messages, so that the test decides what becomes of them.
#[derive(Clone, Default)]
struct Outbox(Arc<Mutex<Vec<RollBack>>>);

impl Messages for Outbox {
    async fn send_refund(&self, _event: &holdfast::ports::RefundEvent) -> Result<(), Fault> {
        Ok(())
    }

    async fn send_roll_back(&self, message: &RollBack, _: u16) -> Result<(), Fault> {
        self.0.lock().unwrap().push(message.clone());
        Ok(())
    }

    async fn send_event(&self, _: &OrderEvent) -> Result<(), Fault> {
        Ok(())
    }

    async fn send_dead_letter(&self, _: &str) -> Result<(), Fault> {
        Ok(())
    }
}

/// A clock past every grace.
#[derive(Clone, Copy)]
struct Later;

impl Clock for Later {
    fn now(&self) -> UnixMillis {
        SystemClock.now().plus_ms(2 * GRACE_MS)
    }
}

struct Round {
    /// Follows the stream, so that the audit trail can be checked too.
    stack: Stack,
    outbox: Outbox,
    told: Mutex<BTreeMap<String, Told>>,
}

/// One submission: who, which token, what.
#[derive(Clone)]
struct Order {
    buyer: String,
    token: [u8; 16],
    lines: BTreeMap<&'static str, u32>,
    /// Whether both orders of the pair are one submission: what one call is refused, the other may get.
    shared: bool,
}

fn random_lines(rng: &mut Rng) -> BTreeMap<&'static str, u32> {
    let skus = [&["a"][..], &["a"], &["b"], &["a", "b"]][rng.usize(..4)];
    skus.iter().map(|sku| (*sku, rng.u32(1..=2))).collect()
}

/// The two orders of a pair: the same submission twice, one buyer twice, or two buyers.
fn random_pair(rng: &mut Rng, index: u64) -> [Order; 2] {
    let order = |rng: &mut Rng, who: &str| Order {
        buyer: format!("{who}{index}"),
        token: std::array::from_fn(|_| rng.u8(..)),
        lines: random_lines(rng),
        shared: false,
    };
    let mut first = order(rng, "x");
    let kind = rng.u8(..4);
    first.shared = kind < 2;
    let second = match kind {
        0 => first.clone(),
        1 => Order { lines: random_lines(rng), ..first.clone() },
        2 => order(rng, "x"),
        _ => order(rng, "y"),
    };
    [first, second]
}

impl Round {
    async fn start() -> Self {
        let stack = Stack::start(StackOptions {
            port: 0,
            latency: Duration::ZERO,
            redis_url: None,
            redis_deadline_ms: 1_000,
            reconcile_every: Duration::from_hours(1),
            fulfil: true,
        });
        let stack = stack.await.unwrap();
        let skus = json!([{"sku": "a", "stock": 300, "price": 3}, {"sku": "b", "stock": 120, "price": 5}]);
        let fields = json!({"skus": skus, "buckets": 3, "limit": {"scope": "activity", "max": 3}});
        events::open(&stack.backend.wiring, "sale", &sample::with(sample::activity("a", 1), &fields)).await;
        Self { stack, outbox: Outbox::default(), told: Mutex::default() }
    }

    async fn submit(&self, order: &Order, saboteur: &Saboteur) {
        let (activity, buyer) = (ActivityId::parse("sale").unwrap(), BuyerId::parse(&order.buyer).unwrap());
        let id = TokenId::from_bytes(order.token);
        let order_no = OrderNo::derive(&activity, &buyer, &id).to_string();
        let expires_at = SystemClock.now().plus_ms(300_000);
        let token = Token { activity: activity.clone(), buyer: buyer.clone(), page: Page::default(), id, expires_at };
        let lines = order.lines.iter().map(|(sku, units)| (Sku::parse(sku).unwrap(), Quantity::new(*units).unwrap()));
        let cart = Cart::new(lines).unwrap();
        let wiring = self.stack.backend.wiring.clone();
        let process = PlaceOrder {
            memory: holdfast::app::stock_memory::StockMemory::default(),
            cache: ActivityCache::new(Faulty { inner: wiring.database.clone(), saboteur: saboteur.clone() }),
            admission: AdmissionControl::new(
                Faulty { inner: wiring.database.clone(), saboteur: saboteur.clone() },
                wiring.degraded_rate,
            ),
            store: Faulty { inner: wiring.database, saboteur: saboteur.clone() },
            gate: Faulty { inner: wiring.gate, saboteur: saboteur.clone() },
            messages: Faulty { inner: self.outbox.clone(), saboteur: saboteur.clone() },
            clock: SystemClock,
            keys: Arc::clone(&self.stack.backend.keys),
        };
        let token = self.stack.backend.keys.sign(&token);
        let placed = Box::pin(process.run(Submission { activity, buyer, token, cart, coupon: None })).await;
        self.note(order, &order_no, placed.ok().filter(|_| !saboteur.is_dead()));
    }

    /// What the client now knows of the submission; `None` when it heard nothing.
    fn note(&self, order: &Order, order_no: &str, placed: Option<Placed>) {
        let mut told = self.told.lock().unwrap();
        let lines: BTreeMap<String, u32> = order.lines.iter().map(|(sku, units)| ((*sku).to_owned(), *units)).collect();
        let told = told.entry(order_no.to_owned()).or_insert_with(|| Told {
            order_no: order_no.to_owned(),
            buyer: order.buyer.clone(),
            lines: lines.clone(),
            accepted: false,
            ended: false,
            last: Answer::Open,
            unanswered: 0,
        });
        match placed {
            None => told.unanswered += 1,
            Some(Placed::Created(_) | Placed::Replayed(_)) => {
                told.accepted = true;
                told.lines = lines;
                told.last = Answer::Accepted;
            }
            Some(Placed::Confirming(_)) => told.last = Answer::Confirming,
            // The other lines of this token are another request: the first one's fate is untouched.
            Some(Placed::Refused(Refusal::TokenMismatch | Refusal::Unavailable | Refusal::Limited)) => {}
            Some(Placed::Refused(Refusal::OrderAborted)) => told.last = Answer::Refused("order_aborted".to_owned()),
            Some(Placed::Refused(refusal)) => {
                assert!(matches!(refusal, Refusal::SoldOut | Refusal::LimitReached(_)), "{refusal:?}");
                told.last = Answer::Refused("refused".to_owned());
                told.unanswered += u32::from(order.shared);
            }
        }
    }

    async fn pair(&self, mut rng: Rng, index: u64) {
        let [first, second] = random_pair(&mut rng, index);
        let mut saboteur = || Saboteur::at(rng.u32(..STEPS), Strike::ALL[rng.usize(..Strike::ALL.len())]);
        let (one, other) = (saboteur(), saboteur());
        tokio::join!(Box::pin(self.submit(&first, &one)), Box::pin(self.submit(&second, &other)));
        // Some clients try again, in a process that works.
        for order in [&first, &second] {
            if rng.bool() {
                Box::pin(self.submit(order, &Saboteur::at(u32::MAX - 1, Strike::Refused))).await;
            }
        }
    }

    /// Messages lost, doubled, in any order, and a consumer that fails at a random step.
    async fn deliver(&self, rng: &mut Rng) {
        let mut messages = self.outbox.0.lock().unwrap().clone();
        messages.retain(|_| rng.u8(..10) > 0);
        let doubles: Vec<RollBack> = messages.iter().filter(|_| rng.bool()).cloned().collect();
        messages.extend(doubles);
        rng.shuffle(&mut messages);
        for message in messages {
            let saboteur = Saboteur::at(rng.u32(..STEPS), Strike::ALL[rng.usize(..Strike::ALL.len())]);
            let wiring = self.stack.backend.wiring.clone();
            let store = Faulty { inner: wiring.database, saboteur: saboteur.clone() };
            let consumer = RollBackOrder {
                cache: ActivityCache::new(store.clone()),
                store,
                gate: Faulty { inner: wiring.gate, saboteur },
                clock: SystemClock,
            };
            let _ = consumer.run(&message).await;
        }
    }

    async fn reconcile(&self, saboteur: Saboteur) {
        let wiring = self.stack.backend.wiring.clone();
        let run = Reconcile { store: wiring.database, gate: Faulty { inner: wiring.gate, saboteur }, clock: Later };
        run.run(Instant::now() + Duration::from_mins(1)).await.unwrap();
    }

    async fn check(&self, seed: u64) {
        drain(&self.stack).await.unwrap();
        let snapshot = self.stack.stores.snapshot("sale").await.unwrap().unwrap();
        let told: Vec<Told> = self.told.lock().unwrap().values().cloned().collect();
        for check in checks::invariants(&snapshot, &told) {
            assert!(check.holds(), "seed {seed}: {check:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f30_ten_thousand_pairs_with_a_failure_at_a_random_step() {
    let first_seed = std::env::var("HOLDFAST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (mut accepted, mut messages) = (0, 0);
    for seed in first_seed..first_seed + PAIRS / PAIRS_PER_ROUND {
        let (round, mut rng) = (Round::start().await, Rng::with_seed(seed));
        let pairs: Vec<Rng> = (0..PAIRS_PER_ROUND).map(|_| rng.fork()).collect();
        let round_ref = &round;
        stream::iter(pairs.into_iter().zip(0..))
            .for_each_concurrent(PARALLEL, |(rng, index)| round_ref.pair(rng, index))
            .await;
        round.deliver(&mut rng).await;
        round.reconcile(Saboteur::at(rng.u32(..200), Strike::CrashAfter)).await;
        for _ in 0..2 {
            round.reconcile(Saboteur::at(u32::MAX - 1, Strike::Refused)).await;
        }
        round.check(seed).await;
        accepted += round.told.lock().unwrap().values().filter(|told| told.accepted).count();
        messages += round.outbox.0.lock().unwrap().len();
    }
    println!("{PAIRS} pairs: {accepted} submissions accepted, {messages} sent for rollback");
    // A run in which little happens proves little.
    assert!(accepted > 2_000 && messages > 200, "{accepted} accepted, {messages} messages");
}
