//! `POST /v1/activities/{activity}/orders/{order_no}/cancel`: gives an order up before it is paid.

use std::sync::Arc;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate, sqs::Queues},
    app::{
        cancel_order::{CancelOrder, Cancellation, Cancelled},
        roll_back::RollBackOrder,
    },
    domain::{order::Status, token::TokenKeys},
    lambda::{
        Wiring,
        http::{self, HttpHandler},
        problem::Problem,
        views::{BareOrder, OrderDocument},
    },
    ports::SystemClock,
};
use lambda_http::{Body, Request, Response};
use serde::Deserialize;

pub struct Handler {
    use_case: CancelOrder<Database, Gate, Queues, SystemClock>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelRequest {
    token: Option<String>,
}

#[must_use]
pub fn handler(wiring: Wiring, keys: Arc<TokenKeys>) -> Handler {
    let Wiring { gate, database, queues, cache, .. } = wiring;
    let roll_back = RollBackOrder { cache, store: database, gate, clock: SystemClock };
    Handler { use_case: CancelOrder { roll_back, messages: queues, keys } }
}

impl HttpHandler for Handler {
    async fn handle(&self, request: Request) -> Response<Body> {
        let id = http::request_id(&request);
        self.answer(&request).await.unwrap_or_else(|problem| problem.response(&id))
    }
}

impl Handler {
    async fn answer(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let (activity, buyer, order_no) = (http::activity(request)?, http::caller(request)?, http::order_no(request)?);
        // Without a body: the order is known, and no token is needed.
        let CancelRequest { token } =
            if request.body().is_empty() { CancelRequest::default() } else { http::json(request)? };
        let buyer_log_id = buyer.log_id();
        let asked = Cancellation { activity, buyer, order_no, token };
        let answer = self.use_case.run(&asked).await.map_err(Problem::fault).and_then(respond);
        let outcome = answer.as_ref().map_or_else(|problem| problem.code, |_| "cancelled");
        tracing::info!(
            activity = %asked.activity, buyer = buyer_log_id, order_no = %asked.order_no, outcome, "cancel_order"
        );
        answer
    }
}

fn respond(cancelled: Cancelled) -> Result<Response<Body>, Problem> {
    match cancelled {
        Cancelled::Order(order) => Ok(http::ok(200, &OrderDocument::of(&order, false))),
        Cancelled::Aborted(order_no) => {
            Ok(http::ok(200, &BareOrder { order_no: &order_no, status: Status::Aborted.as_str() }))
        }
        Cancelled::UnknownActivity => Err(Problem::unknown_activity()),
        Cancelled::UnknownOrder => Err(Problem::unknown_order()),
        Cancelled::AlreadyPaid => Err(Problem::already_paid()),
        Cancelled::Ended(status) => Err(Problem::not_possible(status)),
    }
}
