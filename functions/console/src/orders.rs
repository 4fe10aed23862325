//! What operators do to single orders.

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate, sqs::Queues},
    app::end_order::{OperateOrder, OperatorEnded, OperatorRequest},
    domain::{ids::BuyerId, money::Money, reason::Reason},
    lambda::{
        http::{self, Role},
        problem::Problem,
        views::OrderDocument,
    },
    ports::SystemClock,
};
use lambda_http::{Body, Request, Response};
use serde::Deserialize;

pub struct Orders(pub OperateOrder<Database, Gate, Queues, SystemClock>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelRequest {
    reason: String,
    release_quota: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RefundRequest {
    reason: String,
    release_quota: Option<bool>,
    /// The order's whole amount, for who wants it checked.
    amount: Option<Money>,
}

impl Orders {
    pub async fn cancel(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let operator = http::caller_in_role(request, Role::Operator)?;
        let CancelRequest { reason, release_quota } = http::json(request)?;
        let asked = asked(request, operator, &reason, release_quota)?;
        respond("cancel", &asked, self.0.cancel(&asked).await.map_err(Problem::fault)?)
    }

    pub async fn refund(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let operator = http::caller_in_role(request, Role::Operator)?;
        let RefundRequest { reason, release_quota, amount } = http::json(request)?;
        let asked = asked(request, operator, &reason, release_quota)?;
        respond("refund", &asked, self.0.refund(&asked, amount).await.map_err(Problem::fault)?)
    }
}

fn asked(
    request: &Request,
    operator: BuyerId,
    reason: &str,
    release_quota: Option<bool>,
) -> Result<OperatorRequest, Problem> {
    let (activity, order_no) = (http::activity(request)?, http::order_no(request)?);
    Ok(OperatorRequest { activity, order_no, operator, reason: Reason::parse(reason)?, release_quota })
}

fn respond(action: &str, asked: &OperatorRequest, ended: OperatorEnded) -> Result<Response<Body>, Problem> {
    let (activity, order_no) = (&asked.activity, &asked.order_no);
    let done = matches!(ended, OperatorEnded::Order(_));
    tracing::info!(%activity, %order_no, operator = asked.operator.log_id(), action, done, "operate_order");
    Err(match ended {
        OperatorEnded::Order(order) => return Ok(http::ok(200, &OrderDocument::of(&order, false))),
        OperatorEnded::UnknownActivity => Problem::unknown_activity(),
        OperatorEnded::UnknownOrder => Problem::unknown_order(),
        OperatorEnded::AlreadyPaid => Problem::already_paid(),
        OperatorEnded::NotPaid => Problem::new(409, "not_paid", "The order is not paid. It can be cancelled."),
        OperatorEnded::NotPossible(status) => Problem::not_possible(status),
        OperatorEnded::PartialRefund => Problem::partial_refund(),
    })
}
