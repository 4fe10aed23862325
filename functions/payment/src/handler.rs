//! `POST /v1/payments/webhook`: what the payment provider tells.

use std::sync::Arc;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate, sqs::Queues},
    app::settle_payment::{Outcome, SettlePayment},
    domain::{payment::Payment, webhook::WebhookSecrets},
    lambda::{
        Wiring,
        http::{self, HttpHandler},
        problem::Problem,
    },
    ports::{Clock as _, SystemClock},
};
use lambda_http::{Body, Request, Response};
use serde_json::json;

/// The header of the signature.
pub const SIGNATURE: &str = "holdfast-signature";

pub struct Handler {
    use_case: SettlePayment<Database, Gate, Queues, SystemClock>,
    secrets: Arc<WebhookSecrets>,
}

#[must_use]
pub fn handler(wiring: Wiring, secrets: Arc<WebhookSecrets>) -> Handler {
    let Wiring { gate, database, queues, cache, .. } = wiring;
    let use_case = SettlePayment { cache, store: database, gate, messages: queues, clock: SystemClock };
    Handler { use_case, secrets }
}

impl HttpHandler for Handler {
    async fn handle(&self, request: Request) -> Response<Body> {
        let id = http::request_id(&request);
        self.answer(&request).await.unwrap_or_else(|problem| problem.response(&id))
    }
}

impl Handler {
    async fn answer(&self, request: &Request) -> Result<Response<Body>, Problem> {
        http::check_size(request)?;
        // Before anything is read: what is not signed is not looked at.
        let signature = request.headers().get(SIGNATURE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let signed = self.secrets.verify(signature, request.body().as_ref(), SystemClock.now());
        signed.map_err(|_| Problem::new(401, "not_signed", "No valid signature of these bytes and this time."))?;
        let payment: Payment = http::json(request)?;
        if payment.event_id.is_reserved() {
            return Err(Problem::invalid("event_id: must not begin with operator-"));
        }
        let outcome = self.use_case.run(&payment).await.map_err(Problem::fault)?;
        tracing::info!(
            activity = %payment.activity, order_no = %payment.order_no, event = payment.event_id.as_str(),
            status = ?payment.status, ?outcome, "payment"
        );
        respond(&payment, outcome)
    }
}

fn respond(payment: &Payment, outcome: Outcome) -> Result<Response<Body>, Problem> {
    let told = match outcome {
        Outcome::Nothing => "no_effect",
        Outcome::Paid => "paid",
        Outcome::PaidLate => "paid_late",
        Outcome::Refunded => "refunded",
        Outcome::RefundDue(reason) => {
            let answer = json!({"event_id": payment.event_id, "outcome": "refund_due", "reason": reason});
            return Ok(http::ok(200, &answer));
        }
        Outcome::NotPaidYet => {
            return Err(Problem::new(409, "not_paid", "The order is not paid. Tell it again after its payment."));
        }
        Outcome::PartialRefund => return Err(Problem::partial_refund()),
    };
    Ok(http::ok(200, &json!({"event_id": payment.event_id, "outcome": told})))
}
