//! What one buyer does: takes a token, orders, comes back when asked to, looks.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::json;

use super::book::{Book, buyer_name};
use super::client::{Call, Client, NoReply, Reply};
use super::garbage::Garbage;
use super::measure::{Kind, Measures};
use super::plan::{Ask, Quirk, Visit};
use crate::checks::Answer;
use crate::gateway::jwt::Authorizer;

/// How long a buyer goes on asking.
const PATIENCE: Duration = Duration::from_secs(90);
/// Pause where the answer names none.
const PAUSE: Duration = Duration::from_secs(1);
/// Longest pause, and what each pause is longer than the one before.
const PAUSE_MAX: Duration = Duration::from_secs(4);
const PAUSE_GROWTH: f64 = 1.5;
/// How long after hanging up a client tries again.
const AFTER_HANG_UP: Duration = Duration::from_millis(700);
/// Pause before a replay.
const BEFORE_REPLAY: Duration = Duration::from_millis(150);
/// How often a buyer takes another token after a submission that was given up.
const TOKENS_MAX: u32 = 3;
/// Buyers from here on belong to nobody: they send garbage.
const STRANGERS: u32 = 1_000_000_000;

/// The answer to an order whose coupon another order holds.
const COUPON_USED: &str = "coupon_used";

/// What all buyers of one sale share.
pub struct Crowd {
    pub client: Client,
    pub measures: Measures,
    pub book: Book,
    pub authorizer: Arc<Authorizer>,
    pub activity: String,
    /// The coupons that were issued for it.
    pub coupons: OnceLock<Vec<String>>,
    /// The token that was issued last, and its buyer.
    pub last_token: Mutex<(u32, String)>,
}

/// What an answer to an order means.
enum Verdict {
    Final(Answer),
    /// Come back, after this time if it was told.
    Later(Option<Duration>),
}

impl Crowd {
    /// Everything that this visit is about.
    pub async fn visit(&self, visit: Visit) {
        match visit {
            Visit::Order { buyer, want, quirk } => self.buy(Ask::first(buyer, want), quirk).await,
            Visit::SeeActivity => self.see_activity().await,
            Visit::SeeOrder { buyer } => self.see_order(buyer).await,
            Visit::SeeOrders { buyer } => self.see_orders(buyer).await,
            Visit::Garbage(garbage, number) => self.send_garbage(garbage, number).await,
        }
    }

    /// Takes a token and orders; again with another token when the submission was given up, and without the coupon
    /// when that was used.
    pub async fn buy_once(&self, mut ask: Ask) -> Answer {
        for _ in 0..TOKENS_MAX {
            let Some(token) = self.take_token(ask.buyer).await else { return Answer::Open };
            let answer = self.submit(ask, &token).await;
            match &answer {
                Answer::Refused(code) if code == COUPON_USED => {
                    ask.coupon = None;
                    self.measures.extra("another token after a coupon that was used");
                }
                Answer::Refused(code) if code == "order_aborted" => {
                    self.measures.extra("another token after a submission that was given up");
                }
                _ => return answer,
            }
        }
        Answer::Open
    }

    async fn buy(&self, ask: Ask, quirk: Quirk) {
        let answer = match quirk {
            Quirk::None => self.buy_once(ask).await,
            Quirk::Replay(times) => {
                let Some(token) = self.take_token(ask.buyer).await else { return };
                let answer = self.submit(ask, &token).await;
                for _ in 0..times {
                    tokio::time::sleep(BEFORE_REPLAY).await;
                    self.submit(ask, &token).await;
                }
                answer
            }
            Quirk::DoubleClick => {
                let (first, second) = (self.take_token(ask.buyer).await, self.take_token(ask.buyer).await);
                let (Some(first), Some(second)) = (first, second) else { return };
                tokio::join!(self.submit(ask, &first), self.submit(ask, &second)).0
            }
            Quirk::LostReply => {
                let Some(token) = self.take_token(ask.buyer).await else { return };
                if let Some(order_no) = self.book.open(&self.activity, ask, &token) {
                    self.client.call_and_hang_up(&self.order(ask, &token)).await;
                    self.measures.hung_up(Kind::Order);
                    self.book.unanswered(&order_no);
                }
                tokio::time::sleep(AFTER_HANG_UP).await;
                self.submit(ask, &token).await
            }
        };
        if answer == Answer::Refused(COUPON_USED.to_owned()) {
            self.measures.extra("another token after a coupon that was used");
            self.buy_once(Ask::plain(ask.buyer, ask.want)).await;
        }
    }

    /// A buyer's access token, as the login would give it.
    pub(super) fn login(&self, buyer: u32) -> String {
        self.authorizer.login(&buyer_name(buyer), &[], jiff::Timestamp::now().as_second())
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/activities/{}{rest}", self.activity)
    }

    fn order(&self, ask: Ask, token: &str) -> Call {
        let lines: Vec<_> = ask.want.skus().iter().map(|sku| json!({ "sku": sku, "quantity": 1 })).collect();
        let mut body = json!({ "token": token, "lines": lines });
        if let Some(coupon) = ask.coupon {
            body["coupon"] = json!(self.coupons.get().and_then(|coupons| coupons.get(usize::from(coupon))));
        }
        Call::post(self.path("/orders"), &self.login(ask.buyer), body.to_string())
    }

    pub(super) async fn take_token(&self, buyer: u32) -> Option<String> {
        let call = Call::post(self.path("/tokens"), &self.login(buyer), "{}".to_owned());
        let mut patience = Patience::new(buyer);
        loop {
            let reply = self.client.call(&call).await;
            self.measures.note(Kind::Token, &reply);
            match &reply {
                Ok(reply) if reply.status == 201 => {
                    let token = reply.body["token"].as_str().unwrap_or_default().to_owned();
                    *self.last_token.lock().unwrap_or_else(PoisonError::into_inner) = (buyer, token.clone());
                    return Some(token);
                }
                Ok(reply) if !matches!(reply.status, 429 | 503) => {
                    self.book.surprise(|| format!("a token request was answered {} {}", reply.status, reply.body));
                    return None;
                }
                Ok(_) | Err(NoReply) => {
                    if !patience.wait(reply.ok().and_then(|reply| reply.retry_after_s)).await {
                        return None;
                    }
                    self.measures.extra("token again after 429 or 503");
                }
            }
        }
    }

    /// Sends the order until the answer is final or the buyer's patience ends.
    pub(super) async fn submit(&self, ask: Ask, token: &str) -> Answer {
        let buyer = ask.buyer;
        let Some(order_no) = self.book.open(&self.activity, ask, token) else {
            self.book.surprise(|| format!("buyer {buyer} was given a token that nobody signed"));
            return Answer::Open;
        };
        let call = self.order(ask, token);
        let mut patience = Patience::new(buyer);
        loop {
            let reply = self.client.call(&call).await;
            self.measures.note(Kind::Order, &reply);
            let after = match self.judge(&order_no, &reply) {
                Verdict::Final(Answer::Confirming) => match self.watch(buyer, &order_no).await {
                    Some(answer) => return answer,
                    None => None,
                },
                Verdict::Final(answer) => return answer,
                Verdict::Later(after) => after,
            };
            if !patience.wait(after.map(|after| after.as_secs())).await {
                return Answer::Open;
            }
            self.measures.extra("order again after 429, 503 or not started");
        }
    }

    fn judge(&self, order_no: &str, reply: &Result<Reply, NoReply>) -> Verdict {
        let Ok(reply) = reply else {
            self.book.unanswered(order_no);
            return Verdict::Later(None);
        };
        let answer = match (reply.status, reply.code()) {
            (200 | 201, _) => Answer::Accepted,
            (202, _) => Answer::Confirming,
            (429 | 503, _) | (409, "not_started") => {
                return Verdict::Later(reply.retry_after_s.map(Duration::from_secs));
            }
            (409, code @ ("sold_out" | "limit_reached" | "order_aborted" | COUPON_USED)) => {
                Answer::Refused(code.to_owned())
            }
            (status, code) => {
                self.book.surprise(|| format!("{order_no} was answered {status} {code}"));
                if status >= 500 {
                    self.book.unanswered(order_no);
                    return Verdict::Later(None);
                }
                Answer::Refused(code.to_owned())
            }
        };
        self.book.told(order_no, &answer, reply);
        Verdict::Final(answer)
    }

    /// Looks at an order that is being settled until it is; `None` when it has to be sent again.
    async fn watch(&self, buyer: u32, order_no: &str) -> Option<Answer> {
        let call = Call::get(self.path(&format!("/orders/{order_no}")), Some(&self.login(buyer)));
        let mut patience = Patience::new(buyer);
        while patience.wait(None).await {
            self.measures.extra("look at an order that is being settled");
            let reply = self.client.call(&call).await;
            self.measures.note(Kind::SeeOrder, &reply);
            let Ok(reply) = reply else { continue };
            let answer = match reply.body["status"].as_str() {
                Some("PENDING_PAYMENT") => Answer::Accepted,
                Some("ABORTED") => Answer::Refused("order_aborted".to_owned()),
                Some("CONFIRMING") => continue,
                _ if reply.status == 404 => return None,
                _ => continue,
            };
            self.book.told(order_no, &answer, &reply);
            return Some(answer);
        }
        None
    }

    async fn see_activity(&self) {
        let reply = self.client.call(&Call::get(self.path(""), None)).await;
        self.measures.note(Kind::SeeActivity, &reply);
        self.expect_ok("the activity", &reply);
    }

    /// The buyer's order, which has to be there once the buyer was told of it.
    async fn see_order(&self, buyer: u32) {
        let Some(order_no) = self.book.order_of(buyer) else { return self.see_orders(buyer).await };
        let call = Call::get(self.path(&format!("/orders/{order_no}")), Some(&self.login(buyer)));
        let reply = self.client.call(&call).await;
        self.measures.note(Kind::SeeOrder, &reply);
        if let Ok(reply) = &reply
            && reply.status != 503
            && reply.body["status"] != "PENDING_PAYMENT"
        {
            self.book.surprise(|| format!("{order_no} was accepted, and looking at it shows {}", reply.body));
        }
    }

    async fn see_orders(&self, buyer: u32) {
        let known = self.book.order_of(buyer);
        let reply = self.client.call(&Call::get(self.path("/orders"), Some(&self.login(buyer)))).await;
        self.measures.note(Kind::SeeOrders, &reply);
        self.expect_ok("a buyer's orders", &reply);
        if let (Ok(reply), Some(order_no)) = (&reply, known)
            && reply.status == 200
        {
            let orders = reply.body["orders"].as_array();
            if !orders.is_some_and(|orders| orders.iter().any(|order| order["order_no"] == *order_no)) {
                self.book.surprise(|| format!("{order_no} was accepted and is not in its buyer's list"));
            }
        }
    }

    fn expect_ok(&self, what: &str, reply: &Result<Reply, NoReply>) {
        if let Ok(reply) = reply
            && !matches!(reply.status, 200 | 503)
        {
            self.book.surprise(|| format!("{what} was answered {} {}", reply.status, reply.body));
        }
    }

    async fn send_garbage(&self, garbage: Garbage, number: u32) {
        let (owner, token) = self.last_token.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let stranger = self.login(STRANGERS + number % STRANGERS);
        let call = garbage.call(&self.activity, &stranger, &self.login(owner), &token);
        let reply = self.client.call(&call).await;
        self.measures.note(Kind::Garbage, &reply);
        let expected = garbage.expected();
        let as_expected = |reply: &Reply| {
            // A store that does not answer may come first, before the request is looked at.
            reply.status == 503
                || (reply.status == expected.status && expected.code.is_none_or(|code| code == reply.code()))
        };
        match &reply {
            Ok(reply) if as_expected(reply) => {}
            Ok(reply) => {
                self.book.surprise(|| format!("{garbage:?} was answered {} {}", reply.status, reply.body));
            }
            Err(NoReply) => self.book.surprise(|| format!("{garbage:?} was not answered")),
        }
    }
}

/// How long a buyer still waits, and how long the next pause is.
struct Patience {
    until: Instant,
    factor: f64,
    random: fastrand::Rng,
}

impl Patience {
    fn new(buyer: u32) -> Self {
        Self { until: Instant::now() + PATIENCE, factor: 1.0, random: fastrand::Rng::with_seed(u64::from(buyer)) }
    }

    /// Waits as long as was told or a default, each time longer, never exactly as long as others do;
    /// false when patience is at its end.
    async fn wait(&mut self, told_s: Option<u64>) -> bool {
        let told = told_s.map_or(PAUSE, Duration::from_secs).mul_f64(self.factor).min(PAUSE_MAX);
        let pause = told.mul_f64(1.0 + self.random.f64() / 2.0);
        self.factor *= PAUSE_GROWTH;
        if Instant::now() + pause > self.until {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }
}
