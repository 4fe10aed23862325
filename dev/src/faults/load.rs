//! The load under which every fault strikes: buyers over HTTP who take tokens, order, come back with the
//! same token when they are asked to or hear nothing, and look.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use holdfast::domain::ids::{ActivityId, BuyerId};
use holdfast::domain::order_no::OrderNo;
use holdfast::domain::token::{SigningKey, TokenKeys};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::tally::{Tally, name_of};
use crate::checks::{Answer, Check, Submission};
use crate::gateway::jwt::Authorizer;
use crate::sale::client::{Call, Client, NoReply, Reply};
use crate::stack::StartError;

/// Pause of a buyer before the same token is sent again, in milliseconds: real ones wait longer.
const AGAIN_MS: std::ops::Range<u64> = 120..360;
/// Pause between two visits of one of the tasks, in milliseconds.
const BETWEEN_MS: std::ops::Range<u64> = 20..100;
/// Tokens that a buyer takes when a submission was given up.
const TOKENS_MAX: u32 = 3;
/// Of a hundred buyers, how many do this beside a plain order.
const REPLAYS_PERCENT: u8 = 10;
const DOUBLE_CLICKS_PERCENT: u8 = 8;
const COMES_AGAIN_PERCENT: u8 = 10;
const LOOKS_PERCENT: u8 = 20;
/// Statuses and codes that an order may always be answered with.
const ORDER_ANSWERS: [&str; 9] = [
    "200",
    "201",
    "202",
    "409 sold_out",
    "409 limit_reached",
    "409 order_aborted",
    "429 limited",
    "503 unavailable",
    "503 frozen",
];

/// The shape of the load.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    pub activity: String,
    /// Tasks that are one buyer after another.
    pub buyers: usize,
    /// Units per buyer.
    pub limit: u32,
    /// The SKUs: the first one is what most want.
    pub skus: Vec<&'static str>,
    /// How long one buyer goes on with one token.
    pub patience: Duration,
    /// Answers that this fault allows beside the usual ones.
    pub allowed: &'static [&'static str],
    pub seed: u64,
}

/// The buyers at work.
pub struct Load {
    pub crowd: Arc<Crowd>,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// What all buyers share.
pub struct Crowd {
    /// Where the functions are; the first one is the gateway that stays.
    clients: Mutex<Vec<Client>>,
    authorizer: Arc<Authorizer>,
    keys: Arc<TokenKeys>,
    options: LoadOptions,
    /// What orders were answered.
    pub orders: Tally,
    /// What everything else was answered, `token 201`, `look 200`.
    pub others: Tally,
    told: Mutex<BTreeMap<String, Submission>>,
    surprises: Mutex<Vec<String>>,
    next: AtomicU64,
}

/// The signing keys of the suite by their ids: 1 is the harness's own.
///
/// # Errors
/// Never: both secrets are long enough.
pub fn signing_key(id: u8) -> Result<SigningKey, StartError> {
    Ok(SigningKey::new(id, vec![id - 1; 32])?)
}

/// With these a client knows the order number of any token.
///
/// # Errors
/// As [`signing_key`].
pub fn client_keys() -> Result<TokenKeys, StartError> {
    Ok(TokenKeys::new(signing_key(2)?, Some(signing_key(1)?))?)
}

impl Load {
    #[must_use]
    pub fn start(address: SocketAddr, authorizer: Arc<Authorizer>, keys: Arc<TokenKeys>, options: LoadOptions) -> Self {
        let stop = watch::Sender::new(false);
        let mut tasks = JoinSet::new();
        let buyers = options.buyers;
        let crowd = Arc::new(Crowd {
            clients: Mutex::new(vec![Client::new(address, 4 * buyers)]),
            authorizer,
            keys,
            options,
            orders: Tally::default(),
            others: Tally::default(),
            told: Mutex::default(),
            surprises: Mutex::default(),
            next: AtomicU64::new(1),
        });
        for _ in 0..buyers {
            let (crowd, stop) = (Arc::clone(&crowd), stop.subscribe());
            tasks.spawn(async move {
                while !*stop.borrow() {
                    crowd.visit().await;
                }
            });
        }
        Self { crowd, stop, tasks }
    }

    /// Whether no visit will begin any more.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        *self.stop.borrow()
    }

    /// No new visits; returns when those under way have ended.
    pub async fn finish(&mut self) {
        self.stop.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                self.crowd.surprise(format!("a buyer broke off: {error}"));
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Crowd {
    /// Submissions that were accepted up to now.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.orders.count("201")
    }

    /// What orders were answered, and tokens where they were not given.
    #[must_use]
    pub fn seen(&self) -> BTreeMap<String, u64> {
        let others = self.others.all().into_iter();
        let tokens = others.filter(|(name, _)| name.starts_with("token ") && name != "token 201");
        self.orders.all().into_iter().chain(tokens).collect()
    }

    /// All that clients were told.
    #[must_use]
    pub fn submissions(&self) -> Vec<Submission> {
        lock(&self.told).values().cloned().collect()
    }

    /// Every answer was one that the contract has.
    #[must_use]
    pub fn answers(&self) -> Check {
        let asked = self.orders.count("") + self.others.count("");
        let surprises = lock(&self.surprises).clone();
        Check::new("answers", "every answer is what the contract says, and no 500", format!("{asked} calls"), surprises)
    }

    /// One more place where the functions are.
    pub fn also_at(&self, address: SocketAddr) {
        lock(&self.clients).push(Client::new(address, 4 * self.options.buyers));
    }

    /// Only the gateway that stays.
    pub fn only_at_first(&self) {
        lock(&self.clients).truncate(1);
    }

    fn surprise(&self, text: String) {
        lock(&self.surprises).push(text);
    }

    async fn visit(&self) {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let mut rng = Rng::with_seed(self.options.seed.wrapping_mul(1_000_003).wrapping_add(number));
        let again = number > 20 && rng.u8(..100) < COMES_AGAIN_PERCENT;
        let buyer = format!("buyer-{}", if again { rng.u64(1..number) } else { number });
        let lines = self.lines(&mut rng);
        if rng.u8(..100) < DOUBLE_CLICKS_PERCENT {
            let (mut one, mut other) = (rng.fork(), rng.fork());
            tokio::join!(self.buy(&buyer, &lines, &mut one), self.buy(&buyer, &lines, &mut other));
        } else {
            self.buy(&buyer, &lines, &mut rng).await;
        }
        if rng.u8(..100) < LOOKS_PERCENT {
            self.look(&buyer, &mut rng).await;
        }
        tokio::time::sleep(Duration::from_millis(rng.u64(BETWEEN_MS))).await;
    }

    fn lines(&self, rng: &mut Rng) -> BTreeMap<String, u32> {
        let skus = &self.options.skus;
        let mut wanted = BTreeSet::from([skus[if rng.u8(..4) == 0 { rng.usize(..skus.len()) } else { 0 }]]);
        if self.options.limit > 1 && rng.u8(..8) == 0 {
            wanted.insert(skus[skus.len() - 1]);
        }
        let units = if wanted.len() == 1 { rng.u32(1..=self.options.limit) } else { 1 };
        wanted.into_iter().map(|sku| (sku.to_owned(), units)).collect()
    }

    fn client(&self, rng: &mut Rng) -> Client {
        let clients = lock(&self.clients);
        clients[rng.usize(..clients.len())].clone()
    }

    fn login(&self, buyer: &str) -> String {
        self.authorizer.login(buyer, &[], jiff::Timestamp::now().as_second())
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/activities/{}{rest}", self.options.activity)
    }

    /// Takes a token and orders, again with another token when the submission was given up.
    async fn buy(&self, buyer: &str, lines: &BTreeMap<String, u32>, rng: &mut Rng) {
        for _ in 0..TOKENS_MAX {
            let Some(token) = self.take_token(buyer, rng).await else { return };
            let answer = self.submit(buyer, lines, &token, rng).await;
            if rng.u8(..100) < REPLAYS_PERCENT {
                self.submit(buyer, lines, &token, rng).await;
            }
            if answer != Answer::Refused("order_aborted".to_owned()) {
                return;
            }
        }
    }

    async fn take_token(&self, buyer: &str, rng: &mut Rng) -> Option<String> {
        let call = Call::post(self.path("/tokens"), &self.login(buyer), "{}".to_owned());
        let until = Instant::now() + self.options.patience;
        loop {
            let reply = self.client(rng).call(&call).await;
            let name = name_of(&reply);
            self.others.add(&format!("token {name}"));
            match &reply {
                Ok(reply) if reply.status == 201 => return reply.body["token"].as_str().map(str::to_owned),
                Err(NoReply) => {}
                Ok(reply) if matches!(reply.status, 429 | 503) || self.is_allowed(&name) => {}
                Ok(reply) => {
                    self.surprise(format!("a token request was answered {} {}", reply.status, reply.body));
                    return None;
                }
            }
            if !wait(until, rng).await {
                return None;
            }
        }
    }

    fn is_allowed(&self, name: &str) -> bool {
        self.options.allowed.contains(&name)
    }

    /// Sends the order until the answer is final or the buyer's patience ends.
    async fn submit(&self, buyer: &str, lines: &BTreeMap<String, u32>, token: &str, rng: &mut Rng) -> Answer {
        let Some(order_no) = self.open(buyer, lines, token) else { return Answer::Open };
        let body: Vec<_> = lines.iter().map(|(sku, units)| json!({"sku": sku, "quantity": units})).collect();
        let body = json!({"token": token, "lines": body}).to_string();
        let call = Call::post(self.path("/orders"), &self.login(buyer), body);
        let until = Instant::now() + self.options.patience;
        loop {
            let reply = self.client(rng).call(&call).await;
            self.orders.add(&name_of(&reply));
            let answer = Self::judge(&reply);
            self.note(&order_no, &answer, &reply);
            let settled = matches!(answer, Answer::Accepted | Answer::Refused(_));
            if settled || !wait(until, rng).await {
                return answer;
            }
            if answer == Answer::Confirming {
                self.look_at(buyer, &order_no, rng).await;
            }
        }
    }

    /// Opens the submission in the book.
    fn open(&self, buyer: &str, lines: &BTreeMap<String, u32>, token: &str) -> Option<String> {
        let order_no = || {
            let (activity, buyer) = (ActivityId::parse(&self.options.activity).ok()?, BuyerId::parse(buyer).ok()?);
            let token = self.keys.verify(token).ok()?;
            (token.activity == activity && token.buyer == buyer)
                .then(|| OrderNo::derive(&activity, &buyer, &token.id).as_str().to_owned())
        };
        let Some(order_no) = order_no() else {
            self.surprise(format!("{buyer} was given a token that is not one"));
            return None;
        };
        lock(&self.told).entry(order_no.clone()).or_insert_with(|| Submission {
            order_no: order_no.clone(),
            buyer: buyer.to_owned(),
            lines: lines.clone(),
            accepted: false,
            ended: false,
            last: Answer::Open,
            unanswered: 0,
        });
        Some(order_no)
    }

    fn judge(reply: &Result<Reply, NoReply>) -> Answer {
        let Ok(reply) = reply else { return Answer::Open };
        match (reply.status, reply.code()) {
            (200 | 201, _) => Answer::Accepted,
            (202, _) => Answer::Confirming,
            (409, code @ ("sold_out" | "limit_reached" | "order_aborted")) => Answer::Refused(code.to_owned()),
            _ => Answer::Open,
        }
    }

    fn note(&self, order_no: &str, answer: &Answer, reply: &Result<Reply, NoReply>) {
        let name = name_of(reply);
        let known = ORDER_ANSWERS.contains(&name.as_str()) || self.is_allowed(&name);
        if let (Ok(reply), false) = (reply, known) {
            self.surprise(format!("{order_no} was answered {name}: {}", reply.body));
        }
        let mut told = lock(&self.told);
        let Some(entry) = told.get_mut(order_no) else { return };
        // A function that died has not told anything either.
        let silent = reply.as_ref().map_or(true, |reply| reply.status == 500);
        entry.unanswered += u32::from(silent);
        entry.accepted |= *answer == Answer::Accepted;
        match answer {
            Answer::Refused(code) if entry.accepted => {
                let text = format!("{order_no} was accepted, and later {code}");
                drop(told);
                self.surprise(text);
            }
            // Asked to come back: what was told before stands.
            Answer::Open => {}
            answer => entry.last = answer.clone(),
        }
    }

    /// A buyer looks at an order that is being settled.
    async fn look_at(&self, buyer: &str, order_no: &str, rng: &mut Rng) {
        let call = Call::get(self.path(&format!("/orders/{order_no}")), Some(&self.login(buyer)));
        let reply = self.client(rng).call(&call).await;
        self.expect_look(&reply, &[200, 404, 429, 503]);
    }

    async fn look(&self, buyer: &str, rng: &mut Rng) {
        let client = self.client(rng);
        self.expect_look(&client.call(&Call::get(self.path(""), None)).await, &[200, 429, 503]);
        let orders = Call::get(self.path("/orders"), Some(&self.login(buyer)));
        self.expect_look(&client.call(&orders).await, &[200, 429, 503]);
    }

    fn expect_look(&self, reply: &Result<Reply, NoReply>, expected: &[u16]) {
        let name = name_of(reply);
        self.others.add(&format!("look {name}"));
        if let Ok(reply) = reply
            && !expected.contains(&reply.status)
            && !self.is_allowed(&name)
        {
            self.surprise(format!("a look was answered {name}: {}", reply.body));
        }
    }
}

/// A pause before the next try; false when patience is at its end.
async fn wait(until: Instant, rng: &mut Rng) -> bool {
    let pause = Duration::from_millis(rng.u64(AGAIN_MS));
    if Instant::now() + pause > until {
        return false;
    }
    tokio::time::sleep(pause).await;
    true
}
