//! What clients were told, submission by submission: what the stores are held to at the end.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use holdfast::domain::ids::{ActivityId, BuyerId};
use holdfast::domain::order_no::OrderNo;
use holdfast::domain::token::TokenKeys;
use serde_json::Value;

use super::client::Reply;
use super::plan::Ask;
use crate::checks::{Answer, Submission};

/// Most surprises that are kept word by word; the rest is counted.
const SURPRISES_MAX: usize = 50;

/// The book. Shared by all clients.
pub struct Book {
    keys: Arc<TokenKeys>,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    submissions: HashMap<String, Entry>,
    buyers: HashMap<u32, BuyerEntry>,
    surprises: Vec<String>,
    surprise_count: usize,
}

struct Entry {
    ask: Ask,
    /// 201 came for it: once at most.
    created: bool,
    accepted: bool,
    /// Its client was told, or let it happen, that it ended.
    ended: bool,
    last: Answer,
    unanswered: u32,
}

/// An order whose client was told that it is accepted.
#[derive(Clone, Debug)]
pub struct AcceptedOrder {
    pub order_no: String,
    pub buyer: u32,
    /// In minor units.
    pub total: u64,
}

#[derive(Default)]
struct BuyerEntry {
    wants: BTreeSet<&'static str>,
    holds: BTreeSet<&'static str>,
    order: Option<String>,
}

/// The name of a buyer in access tokens.
#[must_use]
pub fn buyer_name(buyer: u32) -> String {
    format!("buyer-{buyer}")
}

impl Book {
    /// The keys are those of the functions: a client needs them to know the order number in advance.
    #[must_use]
    pub fn new(keys: Arc<TokenKeys>) -> Self {
        Self { keys, inner: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the submission of a token; answers its order number, or `None` for a text that is no token
    /// of this activity and buyer.
    pub fn open(&self, activity: &str, ask: Ask, token: &str) -> Option<String> {
        let Ask { buyer, want, .. } = ask;
        let (activity, name) = (ActivityId::parse(activity).ok()?, BuyerId::parse(&buyer_name(buyer)).ok()?);
        let token = self.keys.verify(token).ok()?;
        if token.activity != activity || token.buyer != name {
            self.surprise(|| format!("a token for buyer {buyer} was issued to somebody else"));
            return None;
        }
        let order_no = OrderNo::derive(&activity, &name, &token.id).as_str().to_owned();
        let mut inner = self.lock();
        inner.buyers.entry(buyer).or_default().wants.extend(want.skus());
        inner.submissions.entry(order_no.clone()).or_insert(Entry {
            ask,
            created: false,
            accepted: false,
            ended: false,
            last: Answer::Open,
            unanswered: 0,
        });
        Some(order_no)
    }

    /// A call of this submission got no reply.
    pub fn unanswered(&self, order_no: &str) {
        if let Some(entry) = self.lock().submissions.get_mut(order_no) {
            entry.unanswered += 1;
        }
    }

    /// A call of this submission was answered.
    pub fn told(&self, order_no: &str, answer: &Answer, reply: &Reply) {
        let mut inner = self.lock();
        let Some(entry) = inner.submissions.get_mut(order_no) else { return };
        let twice = reply.status == 201 && entry.created;
        entry.created |= reply.status == 201;
        let took_back = entry.accepted && matches!(answer, Answer::Refused(code) if code != "token_mismatch");
        entry.last = answer.clone();
        let ask = entry.ask;
        let accepted = *answer == Answer::Accepted;
        entry.accepted |= accepted;
        if accepted {
            let facts = inner.buyers.entry(ask.buyer).or_default();
            facts.holds.extend(ask.want.skus());
            facts.order = Some(order_no.to_owned());
        }
        drop(inner);
        if twice {
            self.surprise(|| format!("{order_no} was created twice"));
        }
        if took_back {
            self.surprise(|| format!("{order_no} was accepted, and later {}", reply.code()));
        }
        if accepted && !is_order(&reply.body, order_no, ask) {
            self.surprise(|| format!("{order_no} was told as {}", reply.body));
        }
    }

    /// Something that no client should ever see.
    pub fn surprise(&self, text: impl FnOnce() -> String) {
        let mut inner = self.lock();
        inner.surprise_count += 1;
        if inner.surprises.len() < SURPRISES_MAX {
            inner.surprises.push(text());
        }
    }

    /// All surprises; those beyond the first ones without a text.
    #[must_use]
    pub fn surprises(&self) -> Vec<String> {
        let inner = self.lock();
        let mut surprises = inner.surprises.clone();
        surprises.resize(inner.surprise_count, "and more".to_owned());
        surprises
    }

    /// An order that this buyer was told is accepted.
    #[must_use]
    pub fn order_of(&self, buyer: u32) -> Option<String> {
        self.lock().buyers.get(&buyer)?.order.clone()
    }

    /// Every order that was accepted and has not ended, in order of the numbers.
    #[must_use]
    pub fn accepted_orders(&self) -> Vec<AcceptedOrder> {
        let inner = self.lock();
        let accepted = inner.submissions.iter().filter(|(_, entry)| entry.accepted && !entry.ended);
        let told = |(order_no, entry): (&String, &Entry)| AcceptedOrder {
            order_no: order_no.clone(),
            buyer: entry.ask.buyer,
            total: entry.ask.total(),
        };
        let mut orders: Vec<AcceptedOrder> = accepted.map(told).collect();
        orders.sort_unstable_by(|one, other| one.order_no.cmp(&other.order_no));
        orders
    }

    /// An order was given up, expired or was refunded: its buyer has nothing of it any more.
    pub fn ended(&self, order_no: &str) {
        self.set_ended(order_no, true);
    }

    /// An order that had expired is paid.
    pub fn revived(&self, order_no: &str) {
        self.set_ended(order_no, false);
    }

    fn set_ended(&self, order_no: &str, ended: bool) {
        let inner = &mut *self.lock();
        let Some(entry) = inner.submissions.get_mut(order_no) else { return };
        entry.ended = ended;
        let facts = inner.buyers.entry(entry.ask.buyer).or_default();
        for sku in entry.ask.want.skus() {
            if ended {
                facts.holds.remove(sku);
            } else {
                facts.holds.insert(sku);
            }
        }
    }

    /// How many submissions were accepted.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.lock().submissions.values().filter(|entry| entry.accepted).count()
    }

    /// Buyers who want a unit of this SKU and have none, in their order.
    #[must_use]
    pub fn without(&self, sku: &str) -> Vec<u32> {
        let inner = self.lock();
        let without = inner.buyers.iter().filter(|(_, facts)| facts.wants.contains(sku) && !facts.holds.contains(sku));
        let mut buyers: Vec<u32> = without.map(|(buyer, _)| *buyer).collect();
        buyers.sort_unstable();
        buyers
    }

    /// All submissions, for the checks.
    #[must_use]
    pub fn submissions(&self) -> Vec<Submission> {
        let inner = self.lock();
        let submission = |(order_no, entry): (&String, &Entry)| Submission {
            order_no: order_no.clone(),
            buyer: buyer_name(entry.ask.buyer),
            lines: entry.ask.want.lines(),
            accepted: entry.accepted,
            ended: entry.ended,
            last: entry.last.clone(),
            unanswered: entry.unanswered,
        };
        inner.submissions.iter().map(submission).collect()
    }
}

/// Whether the document is that of a live order with these lines, at this price.
#[must_use]
pub fn is_order(document: &Value, order_no: &str, ask: Ask) -> bool {
    let lines = document["lines"].as_array().map(|lines| {
        lines.iter().filter_map(|line| Some((line["sku"].as_str()?.to_owned(), line["quantity"].as_u64()?))).collect()
    });
    let expected: std::collections::BTreeMap<String, u64> =
        ask.want.lines().into_iter().map(|(sku, units)| (sku, u64::from(units))).collect();
    document["order_no"] == order_no
        && document["status"] == "PENDING_PAYMENT"
        && document["total"] == ask.total()
        && lines == Some(expected)
}
