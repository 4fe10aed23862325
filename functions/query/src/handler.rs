//! What buyers and the public may see: `GET` of an activity, an order, a buyer's orders.

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate},
    app::query::{ActivityView, Available, OrderView, Phase, Query},
    domain::{ids::Sku, money::Money, order::Status},
    lambda::{
        Wiring,
        http::{self, HttpHandler},
        problem::Problem,
        views::{BareOrder, CONFIRMING, OrderDocument},
    },
    ports::SystemClock,
};
use lambda_http::{Body, Request, Response, http::header::CACHE_CONTROL};
use serde::Serialize;
use serde_json::json;

pub struct Handler {
    use_case: Query<Database, Gate, SystemClock>,
}

#[must_use]
pub fn handler(wiring: Wiring) -> Handler {
    let Wiring { gate, database, cache, .. } = wiring;
    Handler { use_case: Query::new(cache, database, gate, SystemClock) }
}

impl HttpHandler for Handler {
    async fn handle(&self, request: Request) -> Response<Body> {
        let id = http::request_id(&request);
        let answer = match http::route(&request).as_str() {
            "GET /v1/activities/{activity}" => self.activity(&request).await,
            "GET /v1/activities/{activity}/orders" => self.orders(&request).await,
            "GET /v1/activities/{activity}/orders/{order_no}" => self.order(&request).await,
            _ => return http::method_not_allowed(&request, "GET"),
        };
        answer.unwrap_or_else(|problem| problem.response(&id))
    }
}

#[derive(Serialize)]
struct OfferDocument<'a> {
    sku: &'a Sku,
    price: Money,
    /// Left out when it cannot be told right now.
    #[serde(skip_serializing_if = "Option::is_none")]
    available: Option<Available>,
}

impl Handler {
    async fn activity(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let id = http::activity(request)?;
        let view = self.use_case.activity(&id).await.map_err(Problem::fault)?.ok_or_else(Problem::unknown_activity)?;
        let response = http::ok(200, &document(&view));
        Ok(http::with_header(response, CACHE_CONTROL, "max-age=1"))
    }

    async fn order(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let (activity, buyer) = (http::activity(request)?, http::caller(request)?);
        let order_no = http::order_no(request)?;
        let view = self.use_case.order(&activity, &buyer, &order_no).await.map_err(Problem::fault)?;
        Ok(match view {
            None => return Err(Problem::unknown_order()),
            Some(OrderView::Order(order)) => http::ok(200, &OrderDocument::of(&order, false)),
            Some(OrderView::Confirming(order_no)) => {
                http::ok(200, &BareOrder { order_no: &order_no, status: CONFIRMING })
            }
            Some(OrderView::Aborted(tombstone)) => match &tombstone.placement {
                Some(placement) => http::ok(200, &OrderDocument::of_placement(placement, Status::Aborted, false)),
                None => http::ok(200, &BareOrder { order_no: &tombstone.order_no, status: Status::Aborted.as_str() }),
            },
        })
    }

    async fn orders(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let (activity, buyer) = (http::activity(request)?, http::caller(request)?);
        let orders = self
            .use_case
            .orders(&activity, &buyer)
            .await
            .map_err(Problem::fault)?
            .ok_or_else(Problem::unknown_activity)?;
        let orders: Vec<OrderDocument<'_>> = orders.iter().map(|order| OrderDocument::of(order, false)).collect();
        Ok(http::ok(200, &json!({"orders": orders})))
    }
}

fn document(view: &ActivityView) -> serde_json::Value {
    let activity = &view.activity;
    let available = |index: usize| view.available.as_ref().and_then(|all| all.get(index).copied());
    let offers = activity.skus.iter().enumerate();
    let skus: Vec<OfferDocument<'_>> = offers
        .map(|(index, offer)| OfferDocument { sku: &offer.sku, price: offer.price, available: available(index) })
        .collect();
    let status = match view.phase {
        Phase::NotStarted => "not_started",
        Phase::Running => "running",
        Phase::Ended => "ended",
    };
    json!({
        "activity": activity.id, "name": activity.name, "status": status, "starts_at": activity.window.starts_at,
        "ends_at": activity.window.ends_at, "time_zone": activity.zone, "currency": activity.currency,
        "limit": activity.limit, "skus": skus
    })
}
