//! `POST /v1/activities/{activity}/orders`: places an order, or tells why not.

use std::sync::Arc;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate, sqs::Queues},
    app::{
        admission::AdmissionControl,
        place_order::{PlaceOrder, Placed, Refusal, Submission},
        stock_memory::StockMemory,
    },
    domain::{
        cart::Cart,
        ids::{ActivityId, Sku},
        json,
        money::Quantity,
        order_no::OrderNo,
        token::TokenKeys,
    },
    lambda::{
        Wiring,
        http::{self, HttpHandler},
        problem::{Problem, RETRY_LIMITED_S, RETRY_UNAVAILABLE_S},
        views::{BareOrder, CONFIRMING, OrderDocument},
    },
    ports::{Clock, SystemClock},
    telemetry::{self, Metric},
};
use lambda_http::{Body, Request, Response, http::header::LOCATION};
use serde::Deserialize;
use tokio::time::Instant;

pub struct Handler<C = SystemClock> {
    use_case: PlaceOrder<Database, Gate, Queues, C>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OrderRequest {
    token: String,
    #[serde(deserialize_with = "json::objects")]
    lines: Vec<LineRequest>,
    coupon: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LineRequest {
    sku: Sku,
    quantity: Quantity,
}

#[must_use]
pub fn handler(wiring: Wiring, keys: Arc<TokenKeys>) -> Handler {
    handler_at(wiring, keys, SystemClock)
}

/// The same by another clock.
#[must_use]
pub fn handler_at<C: Clock>(wiring: Wiring, keys: Arc<TokenKeys>, clock: C) -> Handler<C> {
    let Wiring { gate, database, queues, cache, degraded_rate, .. } = wiring;
    let admission = AdmissionControl::new(database.clone(), degraded_rate);
    let use_case = PlaceOrder {
        cache,
        admission,
        store: database,
        gate,
        messages: queues,
        clock,
        keys,
        memory: StockMemory::default(),
    };
    Handler { use_case }
}

impl<C: Clock + 'static> HttpHandler for Handler<C> {
    async fn handle(&self, request: Request) -> Response<Body> {
        let (id, began_at) = (http::request_id(&request), Instant::now());
        let (activity, answer) = match self.answer(&request).await {
            Ok((activity, answer)) => (activity, answer),
            Err(problem) => (None, Err(problem)),
        };
        tell(activity.as_ref(), &answer, began_at);
        answer.unwrap_or_else(|problem| problem.response(&id))
    }
}

/// An answer, with the activity if that exists: whoever asks for one that does not must not be counted under it.
type Answer = (Option<ActivityId>, Result<Response<Body>, Problem>);

impl<C: Clock> Handler<C> {
    /// # Errors
    /// The request is bad in itself.
    async fn answer(&self, request: &Request) -> Result<Answer, Problem> {
        let (activity, buyer) = (http::activity(request)?, http::caller(request)?);
        let OrderRequest { token, lines, coupon } = http::json(request)?;
        let cart = Cart::new(lines.into_iter().map(|line| (line.sku, line.quantity)))?;
        let buyer_log_id = buyer.log_id();
        let placed = self.use_case.run(Submission { activity: activity.clone(), buyer, token, cart, coupon }).await;
        let exists = placed.as_ref().is_ok_and(|placed| !matches!(placed, Placed::Refused(Refusal::UnknownActivity)));
        let (order_no, outcome) = match placed {
            Ok(placed) => (number_of(&placed), respond(&activity, placed)),
            Err(fault) => (None, Err(Problem::fault(fault))),
        };
        let code = code(&outcome);
        let order_no = order_no.as_ref().map(OrderNo::as_str);
        tracing::info!(%activity, buyer = buyer_log_id, order_no, outcome = code, "place_order");
        Ok((exists.then_some(activity), outcome))
    }
}

fn code(answer: &Result<Response<Body>, Problem>) -> &'static str {
    match answer {
        Ok(response) => match response.status().as_u16() {
            201 => "created",
            200 => "replayed",
            _ => "confirming",
        },
        Err(problem) => problem.code,
    }
}

/// Counts one request and how it was answered.
fn tell(activity: Option<&ActivityId>, answer: &Result<Response<Body>, Problem>, began_at: Instant) {
    let answered = match code(answer) {
        "created" => Metric::OrdersCreated,
        "replayed" => Metric::OrdersReplayed,
        "confirming" => Metric::OrdersConfirming,
        "sold_out" => Metric::OrdersSoldOut,
        "limit_reached" => Metric::OrdersLimitReached,
        "frozen" => Metric::OrdersFrozen,
        "limited" => Metric::OrdersLimited,
        "unavailable" => Metric::OrdersFailed,
        _ => Metric::OrdersRefused,
    };
    telemetry::count_in(activity, Metric::Orders, 1);
    telemetry::count_in(activity, answered, 1);
    telemetry::record_in(activity, Metric::OrderLatency, telemetry::ms_since(began_at));
}

fn number_of(placed: &Placed) -> Option<OrderNo> {
    match placed {
        Placed::Created(order) | Placed::Replayed(order) => Some(order.placement.order_no.clone()),
        Placed::Confirming(order_no) => Some(order_no.clone()),
        Placed::Refused(_) => None,
    }
}

fn respond(activity: &ActivityId, placed: Placed) -> Result<Response<Body>, Problem> {
    let location = |response, order_no: &OrderNo| {
        http::with_header(response, LOCATION, &format!("/v1/activities/{activity}/orders/{order_no}"))
    };
    match placed {
        Placed::Created(order) => {
            Ok(location(http::ok(201, &OrderDocument::of(&order, false)), &order.placement.order_no))
        }
        Placed::Replayed(order) => Ok(http::ok(200, &OrderDocument::of(&order, true))),
        Placed::Confirming(order_no) => {
            let body = BareOrder { order_no: &order_no, status: CONFIRMING };
            Ok(location(http::ok(202, &body), &order_no))
        }
        Placed::Refused(refusal) => Err(problem_of(refusal)),
    }
}

fn problem_of(refusal: Refusal) -> Problem {
    match refusal {
        Refusal::UnknownActivity => Problem::unknown_activity(),
        Refusal::TokenInvalid => {
            Problem::new(403, "token_invalid", "The token is not one issued to you for this activity, or has expired.")
        }
        Refusal::UnknownSku(sku) => Problem::new(404, "unknown_sku", format!("{sku} is not sold in this activity.")),
        Refusal::TooLarge => Problem::invalid("lines: too many for one order"),
        Refusal::CouponInvalid => Problem::new(403, "coupon_invalid", "It is not a coupon of this activity."),
        Refusal::CouponUsed => Problem::new(
            409,
            "coupon_used",
            "The coupon was used for another order. This submission was given up: take a new token to order without it.",
        ),
        Refusal::TokenMismatch => {
            Problem::new(422, "token_mismatch", "This token was used with other lines or another coupon.")
        }
        Refusal::OrderAborted => {
            Problem::new(409, "order_aborted", "This submission was given up. Take a new token to try again.")
        }
        Refusal::NotStarted => Problem::new(409, "not_started", "The sale has not started."),
        Refusal::Ended => Problem::ended(),
        Refusal::Frozen => Problem::new(503, "frozen", "Sales are paused.").retry_after(RETRY_UNAVAILABLE_S),
        Refusal::Limited => {
            Problem::new(429, "limited", "Too many orders at once. Try again.").retry_after(RETRY_LIMITED_S)
        }
        Refusal::LimitReached(orders) => {
            Problem::new(409, "limit_reached", "You have as many as one buyer may have.").with_orders(orders)
        }
        Refusal::SoldOut => Problem::new(409, "sold_out", "Sold out."),
        Refusal::Unavailable => Problem::unavailable(),
    }
}
