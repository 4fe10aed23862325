//! The order and token functions with a clock that is wrong. The deployed handlers have the system's
//! clock built in, so their few lines around the use case are repeated here.

use std::sync::Arc;

use holdfast::adapters::{dynamodb::Database, redis::Gate, sqs::Queues};
use holdfast::app::admission::AdmissionControl;
use holdfast::app::issue_token::{IssueToken, Issued, LocalCounts};
use holdfast::app::place_order::{PlaceOrder, Placed, Refusal, Submission};
use holdfast::domain::cart::Cart;
use holdfast::domain::ids::Sku;
use holdfast::domain::money::Quantity;
use holdfast::domain::time::UnixMillis;
use holdfast::domain::token::{Page, TokenKeys};
use holdfast::lambda::problem::Problem;
use holdfast::lambda::views::{BareOrder, CONFIRMING, OrderDocument};
use holdfast::lambda::{Wiring, http};
use holdfast::ports::{Clock, SystemClock};
use lambda_http::{Body, Request, Response};
use serde::Deserialize;
use serde_json::json;

use crate::functions::Functions;
use crate::wire;

/// The system's clock and how far this process is ahead of it, in milliseconds, at each of its times.
#[derive(Clone, Copy)]
pub struct Skewed(pub fn(i64) -> i64);

impl Clock for Skewed {
    fn now(&self) -> UnixMillis {
        let now = SystemClock.now();
        now.plus_ms((self.0)(now.get()))
    }
}

#[derive(Deserialize)]
struct OrderRequest {
    token: String,
    lines: Vec<LineRequest>,
}

#[derive(Deserialize)]
struct LineRequest {
    sku: Sku,
    quantity: Quantity,
}

type Place = PlaceOrder<Database, Gate, Queues, Skewed>;
type Issue = IssueToken<Database, Gate, Skewed>;

/// A process of the deployment with this clock.
#[must_use]
pub fn functions(wiring: &Wiring, keys: &Arc<TokenKeys>, clock: Skewed) -> Functions {
    let Wiring { gate, database, queues, cache, degraded_rate, .. } = wiring.clone();
    let admission = AdmissionControl::new(database.clone(), degraded_rate);
    let issue: Arc<Issue> = Arc::new(IssueToken {
        cache: cache.clone(),
        gate: gate.clone(),
        clock,
        keys: Arc::clone(keys),
        counts: LocalCounts::default(),
    });
    let place: Arc<Place> = Arc::new(PlaceOrder {
        memory: holdfast::app::stock_memory::StockMemory::default(),
        cache,
        admission,
        store: database,
        gate,
        messages: queues,
        clock,
        keys: Arc::clone(keys),
    });
    Functions {
        issue_token: Arc::new(move |request| {
            let issue = Arc::clone(&issue);
            Box::pin(async move { answer(issue_token(&issue, &request).await) })
        }),
        place_order: Arc::new(move |request| {
            let place = Arc::clone(&place);
            Box::pin(async move { answer(place_order(&place, &request).await) })
        }),
        ..wire::functions(wiring, keys)
    }
}

fn answer(answer: Result<Response<Body>, Problem>) -> Response<Body> {
    answer.unwrap_or_else(|problem| problem.response(""))
}

async fn issue_token(issue: &Issue, request: &Request) -> Result<Response<Body>, Problem> {
    let (activity, buyer) = (http::activity(request)?, http::caller(request)?);
    match issue.run(&activity, buyer, Page::default()).await.map_err(Problem::fault)? {
        Issued::Token { text, expires_at } => Ok(http::ok(201, &json!({"token": text, "expires_at": expires_at}))),
        Issued::UnknownActivity => Err(Problem::unknown_activity()),
        Issued::Ended => Err(Problem::ended()),
        Issued::TooMany { .. } => Err(Problem::new(429, "limited", "")),
    }
}

async fn place_order(place: &Place, request: &Request) -> Result<Response<Body>, Problem> {
    let (activity, buyer) = (http::activity(request)?, http::caller(request)?);
    let OrderRequest { token, lines } = http::json(request)?;
    let cart = Cart::new(lines.into_iter().map(|line| (line.sku, line.quantity)))?;
    let submission = Submission { activity, buyer, token, cart };
    match Box::pin(place.run(submission)).await.map_err(Problem::fault)? {
        Placed::Created(order) => Ok(http::ok(201, &OrderDocument::of(&order, false))),
        Placed::Replayed(order) => Ok(http::ok(200, &OrderDocument::of(&order, true))),
        Placed::Confirming(order_no) => Ok(http::ok(202, &BareOrder { order_no: &order_no, status: CONFIRMING })),
        Placed::Refused(refusal) => Err(problem_of(&refusal)),
    }
}

fn problem_of(refusal: &Refusal) -> Problem {
    let (status, code) = match refusal {
        Refusal::UnknownActivity => (404, "unknown_activity"),
        Refusal::TokenInvalid => (403, "token_invalid"),
        Refusal::UnknownSku(_) => (404, "unknown_sku"),
        Refusal::TooLarge => (400, "invalid_request"),
        Refusal::TokenMismatch => (422, "token_mismatch"),
        Refusal::OrderAborted => (409, "order_aborted"),
        Refusal::NotStarted => (409, "not_started"),
        Refusal::Ended => (409, "ended"),
        Refusal::Frozen => (503, "frozen"),
        Refusal::Limited => (429, "limited"),
        Refusal::LimitReached(_) => (409, "limit_reached"),
        Refusal::SoldOut => (409, "sold_out"),
        Refusal::Unavailable => (503, "unavailable"),
    };
    Problem::new(status, code, "")
}
