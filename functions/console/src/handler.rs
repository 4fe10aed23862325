//! What operators do: `PUT` of an activity, preheat, freeze and unfreeze, reconcile.

mod orders;
mod reconciliation;
mod stock;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate},
    app::{
        adjust_stock::AdjustStock,
        admin::{Admin, BucketSwitch, Expected, LoadState, PreheatResult, SavedActivity, SwitchResult},
        end_order::OperateOrder,
    },
    domain::{
        activity::{Activity, ActivityDraft},
        ids::Sku,
        reason::Reason,
    },
    lambda::{
        Wiring,
        http::{self, HttpHandler, Role},
        problem::Problem,
    },
    ports::SystemClock,
};
use lambda_http::{
    Body, Request, Response,
    http::header::{ETAG, IF_MATCH, IF_NONE_MATCH},
};
use serde::Deserialize;
use serde_json::{Value, json};

use orders::Orders;
use reconciliation::Reconciliations;
use stock::Stock;

pub struct Handler {
    use_case: Admin<Database, Gate, SystemClock>,
    reconciliations: Reconciliations,
    orders: Orders,
    stock: Stock,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchRequest {
    sku: Option<Sku>,
    reason: String,
}

#[must_use]
pub fn handler(wiring: Wiring) -> Handler {
    let Wiring { gate, database, queues, cache, .. } = wiring;
    let (store, clock) = (database.clone(), SystemClock);
    Handler {
        reconciliations: Reconciliations::new(database.clone(), gate.clone()),
        orders: Orders(OperateOrder { store: store.clone(), gate: gate.clone(), messages: queues, clock }),
        stock: Stock(AdjustStock { store: store.clone(), gate: gate.clone(), clock }),
        use_case: Admin { store, cache, gate, clock },
    }
}

impl HttpHandler for Handler {
    async fn handle(&self, request: Request) -> Response<Body> {
        let id = http::request_id(&request);
        let answer = match http::route(&request).as_str() {
            "PUT /v1/admin/activities/{activity}" => self.save(&request).await,
            "POST /v1/admin/activities/{activity}/preheat" => self.preheat(&request).await,
            "POST /v1/admin/activities/{activity}/freeze" => self.switch(&request, false).await,
            "POST /v1/admin/activities/{activity}/unfreeze" => self.switch(&request, true).await,
            "GET /v1/admin/activities/{activity}/reconciliation" => self.reconciliations.show(&request).await,
            "POST /v1/admin/activities/{activity}/reconcile" => self.reconciliations.run(&request).await,
            "POST /v1/admin/activities/{activity}/adjust" => self.stock.adjust(&request).await,
            "POST /v1/admin/activities/{activity}/end" => self.end(&request).await,
            "POST /v1/admin/activities/{activity}/orders/{order_no}/cancel" => self.orders.cancel(&request).await,
            "POST /v1/admin/activities/{activity}/orders/{order_no}/refund" => self.orders.refund(&request).await,
            _ => return http::method_not_allowed(&request, "GET, POST, PUT"),
        };
        answer.unwrap_or_else(|problem| problem.response(&id))
    }
}

impl Handler {
    async fn save(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let operator = http::caller_in_role(request, Role::Operator)?;
        let (id, expected) = (http::activity(request)?, expected(request)?);
        let draft: ActivityDraft = http::json(request)?;
        let saved = self.use_case.save(id.clone(), draft, expected).await.map_err(Problem::fault)?;
        let (status, activity) = match saved {
            SavedActivity::Created(activity) => (201, activity),
            SavedActivity::Changed(activity) => (200, activity),
            SavedActivity::PreconditionFailed => {
                return Err(Problem::new(412, "precondition_failed", "The activity has another version."));
            }
            SavedActivity::Running(field) => {
                return Err(Problem::new(409, "running", format!("{field} is fixed while stock is on sale.")));
            }
            SavedActivity::Invalid(invalid) => return Err(invalid.into()),
        };
        tracing::info!(activity = %id, operator = operator.log_id(), version = activity.version, "save_activity");
        let response = http::ok(status, &document(&activity));
        Ok(http::with_header(response, ETAG, &format!("\"{}\"", activity.version)))
    }

    async fn preheat(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let operator = http::caller_in_role(request, Role::Operator)?;
        let id = http::activity(request)?;
        match self.use_case.preheat(&id, operator.as_str()).await.map_err(Problem::fault)? {
            PreheatResult::UnknownActivity => Err(Problem::unknown_activity()),
            PreheatResult::Ended => Err(Problem::ended()),
            PreheatResult::Done(progress) => {
                let complete = progress.buckets.iter().all(|(_, state)| *state != LoadState::Pending);
                tracing::info!(activity = %id, operator = operator.log_id(), complete, "preheat");
                let buckets: Vec<Value> =
                    progress.buckets.iter().map(|(bucket, state)| json!({"bucket": bucket, "state": state})).collect();
                let body = json!({
                    "activity": id, "version": progress.version, "complete": complete, "buckets": buckets
                });
                Ok(http::ok(200, &body))
            }
        }
    }

    async fn end(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let operator = http::caller_in_role(request, Role::Operator)?;
        let id = http::activity(request)?;
        let ended = self.use_case.end(&id).await.map_err(Problem::fault)?;
        let activity = ended.ok_or_else(Problem::unknown_activity)?;
        tracing::info!(activity = %id, operator = operator.log_id(), version = activity.version, "end_activity");
        let response = http::ok(200, &document(&activity));
        Ok(http::with_header(response, ETAG, &format!("\"{}\"", activity.version)))
    }

    async fn switch(&self, request: &Request, on_sale: bool) -> Result<Response<Body>, Problem> {
        let operator = http::caller_in_role(request, Role::Operator)?;
        let id = http::activity(request)?;
        let SwitchRequest { sku, reason } = http::json(request)?;
        let reason = Reason::parse(&reason)?;
        let switched = self.use_case.switch(&id, sku.as_ref(), on_sale, operator.as_str(), &reason).await;
        match switched.map_err(Problem::fault)? {
            SwitchResult::UnknownActivity => Err(Problem::unknown_activity()),
            SwitchResult::UnknownSku => Err(Problem::new(404, "unknown_sku", "It is not sold in this activity.")),
            SwitchResult::NotPreheated => Err(Problem::not_preheated()),
            SwitchResult::Done(buckets) => {
                let in_force = buckets.iter().all(BucketSwitch::in_force);
                tracing::info!(activity = %id, operator = operator.log_id(), on_sale, in_force, "switch");
                let buckets: Vec<Value> = buckets
                    .iter()
                    .map(|bucket| json!({"bucket": bucket.bucket, "in_force": bucket.in_force()}))
                    .collect();
                let mut body = json!({"activity": id, "frozen": !on_sale, "in_force": in_force, "buckets": buckets});
                if let Some(sku) = sku {
                    body["sku"] = json!(sku);
                }
                Ok(http::ok(200, &body))
            }
        }
    }
}

/// `If-None-Match: *` creates, `If-Match: "<version>"` changes; one of them must be there.
fn expected(request: &Request) -> Result<Expected, Problem> {
    let header = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or_default().trim());
    match (header(IF_NONE_MATCH), header(IF_MATCH)) {
        (Some("*"), None) => Ok(Expected::Absent),
        (None, Some(tag)) => {
            let version =
                tag.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).and_then(|tag| tag.parse().ok());
            let never = || Problem::new(412, "precondition_failed", "The activity has another version.");
            version.map(Expected::Version).ok_or_else(never)
        }
        (None, None) => {
            let detail = "Send If-None-Match: * to create, or If-Match with the version to change.";
            Err(Problem::new(428, "precondition_required", detail))
        }
        _ => Err(Problem::invalid("If-None-Match must be * and goes without If-Match")),
    }
}

fn document(activity: &Activity) -> Value {
    json!({
        "activity": activity.id, "version": activity.version, "opened": activity.ready, "name": activity.name,
        "starts_at": activity.window.starts_at, "ends_at": activity.window.ends_at, "time_zone": activity.zone,
        "strategy": activity.strategy, "buckets": activity.buckets, "bucket_rate": activity.bucket_rate,
        "limit": activity.limit, "on_cancel": activity.on_cancel, "payment_minutes": activity.payment_minutes,
        "admission_ratio": activity.admission_ratio.get(), "currency": activity.currency, "skus": activity.skus
    })
}
