//! How much is on sale: adjusting it while the sale runs.

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate},
    app::adjust_stock::{AdjustStock, Adjusted, AdjustedBucket, Adjustment},
    domain::{ids::Sku, money::STOCK_MAX, reason::Reason, stock::MoveId},
    lambda::{
        http::{self, Role},
        problem::Problem,
    },
    ports::SystemClock,
};
use lambda_http::{Body, Request, Response};
use serde::Deserialize;
use serde_json::{Value, json};

/// The header that makes an adjustment one.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

pub struct Stock(pub AdjustStock<Database, Gate, SystemClock>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AdjustRequest {
    sku: Sku,
    delta: i64,
    reason: String,
}

impl Stock {
    pub async fn adjust(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let operator = http::caller_in_role(request, Role::Operator)?;
        let activity = http::activity(request)?;
        let key = request.headers().get(IDEMPOTENCY_KEY).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let id = MoveId::of_operator(key)?;
        let AdjustRequest { sku, delta, reason } = http::json(request)?;
        if delta == 0 || delta.unsigned_abs() > STOCK_MAX {
            return Err(Problem::invalid("delta: must be -1000000000 to 1000000000, and not 0"));
        }
        let asked = Adjustment { activity, sku, delta, id, operator, reason: Reason::parse(&reason)? };
        let adjusted = self.0.run(&asked).await.map_err(Problem::fault)?;
        let (activity, sku, done) = (&asked.activity, &asked.sku, matches!(adjusted, Adjusted::Done(_)));
        tracing::info!(%activity, %sku, delta, operator = asked.operator.log_id(), done, "adjust");
        respond(&asked, adjusted)
    }
}

fn respond(asked: &Adjustment, adjusted: Adjusted) -> Result<Response<Body>, Problem> {
    Err(match adjusted {
        Adjusted::Done(buckets) => {
            let in_force = buckets.iter().all(|bucket| bucket.in_force);
            let buckets: Vec<Value> = buckets.iter().map(told).collect();
            return Ok(http::ok(
                200,
                &json!({
                    "activity": asked.activity, "sku": asked.sku, "delta": asked.delta, "in_force": in_force,
                    "buckets": buckets
                }),
            ));
        }
        Adjusted::UnknownActivity => Problem::unknown_activity(),
        Adjusted::UnknownSku => Problem::new(404, "unknown_sku", "It is not sold in this activity."),
        Adjusted::NotPreheated => Problem::not_preheated(),
        Adjusted::StockSold { available } => {
            Problem::new(409, "stock_sold", format!("Only {available} units are left to take off sale."))
        }
        Adjusted::Mismatch => {
            Problem::new(422, "idempotency_mismatch", "This Idempotency-Key was used for another adjustment.")
        }
    })
}

fn told(bucket: &AdjustedBucket) -> Value {
    json!({
        "bucket": bucket.bucket, "units": bucket.units, "allotted": bucket.allotted, "available": bucket.available,
        "in_force": bucket.in_force
    })
}
