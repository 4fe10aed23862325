//! One script on both stores: each is asked by itself, as if the other had agreed.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::types::AttributeValue;
use holdfast::{
    adapters::redis::keys::{BucketKeys, mark_field},
    domain::{
        limit::{Charge, PLACEMENTS_MAX, ScopeKey},
        order::{EndedBy, Event, Order, Placement, Status, Stored, Take, Transition, next},
        payment::{Payment, PaymentId, PaymentStatus},
        stock::{Allotment, ChangeMark, Operation},
    },
    ports::{
        Changed, Claim, Commit, Ending, GateRefusal, OrderGate as _, OrderLife as _, OrderStore as _, PlaceAnswer,
        PlaceCall, Restocked, Restored, Revival, StockGate as _, StockStore as _,
    },
};
use proptest::test_runner::TestCaseError;
use redis::cmd;

use super::{
    sale::{BUYERS, Sale, Submission},
    script::{How, Script, Step, many},
};
use crate::{
    database::server::{Key, Server as Dynamodb, of},
    gate::server::Server as Redis,
    run::Met,
};

/// Both stores.
pub struct Servers {
    pub redis: Redis,
    pub dynamodb: Dynamodb,
    pub met: Met,
}

/// What one store counts for a buyer in a scope: units by order number. A guard's dead entries count nothing.
type Counted = BTreeMap<String, u32>;

/// One buyer's scope, as each store has it.
#[derive(Debug, Default)]
struct Both {
    mark: Counted,
    guard: Counted,
    guard_units: u32,
}

/// What became of an order number, by what it was told.
#[derive(Clone, Debug)]
enum Fate {
    /// Counts: it is live, or its quota is kept.
    Counts(Placement),
    /// Was placed and counts no more.
    Released(Placement),
}

pub struct Stage<'a> {
    servers: &'a Servers,
    sale: Sale,
    scopes: Vec<(u8, ScopeKey)>,
    fates: BTreeMap<(u8, u8), Fate>,
}

fn fail<T>(what: impl Into<String>) -> Result<T, TestCaseError> {
    Err(TestCaseError::fail(what.into()))
}

/// What a store says of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Admitted,
    LimitReached,
    /// The number is known.
    Known,
}

impl<'a> Stage<'a> {
    pub async fn open(servers: &'a Servers, script: &Script) -> Self {
        let sale = Sale::new(script.scope, script.max, script.policy);
        let mark = ChangeMark { operation: Operation::Manual, operator: "tests".to_owned(), reference: String::new() };
        let stock = sale.stock();
        for item in &stock {
            servers.dynamodb.database.open_stock(item, &mark).await.unwrap();
        }
        let allotments: Vec<Allotment> = stock.iter().map(|item| sale.activity.allotment(item)).collect();
        let _ = servers.redis.gate.preheat(&sale.activity, stock[0].bucket, &allotments, sale.now).await.unwrap();
        let scopes = sale.scopes();
        let scopes = (0..BUYERS).flat_map(|buyer| scopes.iter().map(move |scope| (buyer, scope.clone()))).collect();
        Self { servers, sale, scopes, fates: BTreeMap::new() }
    }

    pub async fn play(&mut self, script: &Script) -> Result<(), TestCaseError> {
        for (number, step) in (1..).zip(&script.steps) {
            let played = match step {
                Step::Place(of) => self.place(*of).await.map(|_| ()),
                Step::End { buyer, order, how } => self.end(*buyer, *order, *how).await,
                Step::PayLate { buyer, order } => self.pay_late(*buyer, *order).await,
                Step::GiveUp(of) => self.give_up(*of).await,
                Step::Many { buyer, count, dead } => self.many(*buyer, *count, *dead).await,
            };
            let checked = match played {
                Ok(()) => self.check().await,
                Err(differs) => Err(differs),
            };
            checked.map_err(|error| TestCaseError::fail(format!("  step {number}, {step:?}:\n  {error}")))?;
        }
        Ok(())
    }

    async fn many(&mut self, buyer: u8, count: u8, dead: bool) -> Result<(), TestCaseError> {
        for order in many(count) {
            self.place(Submission { buyer, order, cart: 0, tomorrow: false }).await?;
            if dead {
                self.end(buyer, order, How::Operator { keep: false }).await?;
            }
        }
        Ok(())
    }

    /// Asks both, and settles what they do not agree on as the product does.
    pub async fn place(&mut self, asked: Submission) -> Result<(Verdict, Verdict), TestCaseError> {
        let (sale, Servers { redis, dynamodb, met }) = (&self.sale, self.servers);
        let placement = sale.placement(asked);
        let before = self.expected();
        let call = PlaceCall { activity: &sale.activity, placement: &placement, look: false };
        let gate = redis.gate.place(call).await.unwrap();
        let order = placement.clone().into_order(Sale::parts(&placement));
        let commit = dynamodb.database.commit(&order, sale.activity.limit.max).await.unwrap();
        let by_gate = match &gate {
            PlaceAnswer::Admitted(_) => Verdict::Admitted,
            PlaceAnswer::Refused(GateRefusal::LimitReached(_)) => Verdict::LimitReached,
            PlaceAnswer::Replayed(_) | PlaceAnswer::GivenBack | PlaceAnswer::Mismatch => Verdict::Known,
            other => return fail(format!("the script says {other:?}")),
        };
        let by_database = match &commit {
            Commit::Committed => Verdict::Admitted,
            Commit::LimitReached => Verdict::LimitReached,
            Commit::Exists => Verdict::Known,
            other => return fail(format!("the transaction says {other:?}")),
        };
        let name = format!("{gate:?}");
        met.add(&format!("{} {by_database:?}", name.split(['(', ' ']).next().unwrap()));
        // The one way in which they may differ: placements that count nothing any more are no longer in the
        // mark, and still fill the guard.
        let scopes = placement.charges.iter().filter_map(|charge| before.get(&(asked.buyer, charge.scope.clone())));
        let mut full = scopes.filter(|both| both.guard.len() >= PLACEMENTS_MAX).peekable();
        let differs = by_gate == Verdict::Admitted && full.peek().is_some();
        if by_gate == Verdict::LimitReached && full.any(|both| both.mark.len() >= PLACEMENTS_MAX) {
            met.add("twenty that count");
        }
        let expected = if differs { Verdict::LimitReached } else { by_gate };
        if by_database != expected {
            return fail(format!("the script says {gate:?}, the transaction {commit:?}; before, {before:?}"));
        }
        if by_database == Verdict::Admitted {
            self.fates.insert((asked.buyer, asked.order), Fate::Counts(placement));
        } else if by_gate == Verdict::Admitted {
            // Claimed and given back before it is told: the number never becomes an order.
            self.claim(&placement).await?;
            self.restock(&placement, Take::FIRST, false).await?;
        }
        Ok((by_gate, by_database))
    }

    async fn claim(&self, placement: &Placement) -> Result<bool, TestCaseError> {
        let tombstone = placement.clone().into_tombstone(self.sale.now);
        let claim = self.servers.dynamodb.database.claim(&tombstone).await.unwrap();
        Ok(claim == Claim::Aborted)
    }

    async fn restock(&self, placement: &Placement, take: Take, keep_mark: bool) -> Result<(), TestCaseError> {
        let Placement { order_no, home, .. } = placement;
        let (gate, activity) = (&self.servers.redis.gate, &self.sale.activity);
        match gate.restock(activity, order_no, *home, take, keep_mark, Some(placement)).await.unwrap() {
            Restocked::Done { .. } | Restocked::Already => Ok(()),
            other => fail(format!("the restock says {other:?}")),
        }
    }

    async fn stored(&self, buyer: u8, order: u8) -> Option<Order> {
        match self.servers.dynamodb.database.order(&self.sale.number(buyer, order)).await.unwrap() {
            Some(Stored::Order(order)) => Some(order),
            _ => None,
        }
    }

    /// Ends an order that is live, and gives back what any dead one held: once, however often.
    async fn end(&mut self, buyer: u8, order: u8, how: How) -> Result<(), TestCaseError> {
        let Some(found) = self.stored(buyer, order).await else { return Ok(()) };
        let policy = self.sale.activity.on_cancel;
        let (event, operation) = match (found.status, how) {
            (Status::Paid, _) => (Event::Refund, Operation::Refund),
            (_, How::Expire) => (Event::Expire, Operation::Expiry),
            _ => (Event::Cancel, Operation::Cancel),
        };
        let mut dead = found.clone();
        if let Transition::To(status, _) = next(Some(found.status), event) {
            let by = |keep| EndedBy { operator: "olga".to_owned(), reason: "asked".to_owned(), quota_kept: keep };
            let ended_by = match how {
                How::Operator { keep } => Some(by(keep)),
                How::Cancel | How::Expire => None,
            };
            dead = Order { status, ended_by: ended_by.clone(), ..found.clone() };
            let keep_quota = dead.keeps_quota(policy);
            let at = found.placement.pay_before.plus_ms(1);
            let actor = "tests".to_owned();
            let ending = Ending { event, at, keep_quota, operation, actor, ended_by, refund: None };
            if self.servers.dynamodb.database.end(&found, &ending).await.unwrap() != Changed::Done {
                return fail(format!("{ending:?} did not end {found:?}"));
            }
            self.servers.met.add(if keep_quota { "quota kept" } else { "quota given back" });
            let placement = found.placement.clone();
            let fate = if keep_quota { Fate::Counts(placement) } else { Fate::Released(placement) };
            self.fates.insert((buyer, order), fate);
        }
        if dead.status.is_live() {
            return Ok(());
        }
        self.restock(&dead.placement, dead.take, dead.keeps_quota(policy)).await
    }

    /// A late payment is the database's alone to judge, by units and not as a placement; Redis follows.
    async fn pay_late(&mut self, buyer: u8, order: u8) -> Result<(), TestCaseError> {
        let Some(closed) = self.stored(buyer, order).await else { return Ok(()) };
        if closed.status != Status::Closed {
            return Ok(());
        }
        let (placement, activity) = (&closed.placement, &self.sale.activity);
        let payment = Payment {
            event_id: PaymentId::parse("late").unwrap(),
            activity: activity.id.clone(),
            order_no: placement.order_no.clone(),
            status: PaymentStatus::Paid,
            amount: placement.total(),
            currency: placement.currency.clone(),
        };
        let (charge, limit_max) = (!closed.keeps_quota(activity.on_cancel), activity.limit.max);
        let (parts, at) = (closed.parts.clone(), self.sale.now);
        let revival = Revival { closed: &closed, payment: &payment, parts: parts.clone(), charge, limit_max, at };
        let (Servers { redis, dynamodb, met }, counted) = (self.servers, self.expected());
        let fits = |it: &Charge| counted[&(buyer, it.scope.clone())].guard_units + it.units <= limit_max;
        let fits = !charge || placement.charges.iter().all(fits);
        match dynamodb.database.pay_late(&revival).await.unwrap() {
            Commit::Committed if fits => {}
            Commit::LimitReached if !fits => {
                met.add("paid too late for the limit");
                return Ok(());
            }
            other => return fail(format!("the late payment is told {other:?}")),
        }
        met.add(if charge { "paid late, charged again" } else { "paid late, with its quota kept" });
        match redis.gate.restore(activity, placement, placement.home, Take::SECOND, &parts).await.unwrap() {
            Restored::Done { .. } => {}
            other => return fail(format!("the restore says {other:?}")),
        }
        self.fates.insert((buyer, order), Fate::Counts(placement.clone()));
        Ok(())
    }

    /// The claim, and what it has to give back.
    async fn give_up(&mut self, of: Submission) -> Result<(), TestCaseError> {
        let placement = self.sale.placement(of);
        if self.claim(&placement).await? {
            self.restock(&placement, Take::FIRST, false).await?;
        }
        Ok(())
    }

    /// What both stores should count, by what they said so far.
    fn expected(&self) -> BTreeMap<(u8, ScopeKey), Both> {
        let mut expected: BTreeMap<(u8, ScopeKey), Both> = BTreeMap::new();
        for ((buyer, _), fate) in &self.fates {
            let (Fate::Counts(placement) | Fate::Released(placement)) = fate;
            for charge in &placement.charges {
                let both = expected.entry((*buyer, charge.scope.clone())).or_default();
                both.guard.insert(placement.order_no.to_string(), charge.units);
                if matches!(fate, Fate::Counts(_)) {
                    both.mark.insert(placement.order_no.to_string(), charge.units);
                    both.guard_units += charge.units;
                }
            }
        }
        expected
    }

    /// What both stores count now, and that it is the same but for dead placements.
    async fn check(&self) -> Result<(), TestCaseError> {
        let counted = self.counted().await?;
        let expected = self.expected();
        let told = |all: &BTreeMap<(u8, ScopeKey), Both>| format!("{all:#?}");
        if told(&counted) != told(&expected) {
            return fail(format!("counted:  {}\n  expected: {}", told(&counted), told(&expected)));
        }
        for both in counted.values() {
            let marked: u32 = both.mark.values().sum();
            let within = both.guard_units <= self.sale.activity.limit.max && both.guard.len() <= PLACEMENTS_MAX;
            if marked != both.guard_units || !within {
                return fail(format!("{both:?} with a limit of {}", self.sale.activity.limit.max));
            }
        }
        Ok(())
    }

    /// Of every scope in which anything was ever counted.
    async fn counted(&self) -> Result<BTreeMap<(u8, ScopeKey), Both>, TestCaseError> {
        let id = &self.sale.activity.id;
        let key = |(buyer, scope): &(u8, ScopeKey)| -> Key {
            (format!("B#{id}#{}", self.sale.buyer(*buyer).as_str()), format!("G#{}", scope.as_str()))
        };
        let keys: Vec<Key> = self.scopes.iter().map(key).collect();
        let guards = self.servers.dynamodb.items(&keys.iter().cloned().collect()).await;
        let mut ask = cmd("HMGET");
        ask.arg(BucketKeys::new(id, self.sale.stock()[0].bucket).orders);
        for (buyer, scope) in &self.scopes {
            ask.arg(mark_field(scope, self.sale.buyer(*buyer)));
        }
        let marks: Vec<Option<String>> = self.servers.redis.raw(&ask).await;
        let mut counted = BTreeMap::new();
        for ((scope, key), mark) in self.scopes.iter().zip(&keys).zip(marks) {
            let mut both = Both::default();
            for entry in mark.iter().flat_map(|mark| mark.split(';')) {
                let (number, units) = entry.split_once('=').unwrap();
                both.mark.insert(number.to_owned(), units.parse().unwrap());
            }
            if let Some(guard) = guards.get(key) {
                both.guard_units = of(guard, "units").parse().unwrap();
                for entry in guard["orders"].as_l().unwrap() {
                    let entry: &AttributeValue = entry;
                    let entry = entry.as_m().unwrap();
                    if both.guard.insert(of(entry, "order_no"), of(entry, "units").parse().unwrap()).is_some() {
                        return fail(format!("the guard lists an order twice: {guard:?}"));
                    }
                }
            }
            if mark_or_guard(&both) {
                counted.insert(scope.clone(), both);
            }
        }
        Ok(counted)
    }
}

fn mark_or_guard(both: &Both) -> bool {
    !both.mark.is_empty() || !both.guard.is_empty()
}
