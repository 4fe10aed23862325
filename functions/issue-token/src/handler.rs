//! `POST /v1/activities/{activity}/tokens`: a signed right to submit one order. Coupons are issued here as well.

mod coupons;

use std::sync::Arc;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate},
    app::{
        issue_coupons::IssueCoupons,
        issue_token::{IssueToken, Issued, LocalCounts},
    },
    domain::token::{Page, TokenKeys},
    lambda::{
        Wiring,
        http::{self, HttpHandler},
        problem::Problem,
    },
    ports::{Clock, SystemClock},
};
use lambda_http::{Body, Request, Response};
use serde::Deserialize;
use serde_json::json;

use coupons::Coupons;

pub struct Handler<C = SystemClock> {
    use_case: IssueToken<Database, Gate, C>,
    coupons: Coupons,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRequest {
    #[serde(default)]
    page: String,
}

#[must_use]
pub fn handler(wiring: Wiring, keys: Arc<TokenKeys>) -> Handler {
    handler_at(wiring, keys, SystemClock)
}

/// The same by another clock.
#[must_use]
pub fn handler_at<C: Clock>(wiring: Wiring, keys: Arc<TokenKeys>, clock: C) -> Handler<C> {
    let Wiring { cache, gate, .. } = wiring;
    Handler {
        coupons: Coupons(IssueCoupons { cache: cache.clone(), keys: Arc::clone(&keys) }),
        use_case: IssueToken { cache, gate, clock, keys, counts: LocalCounts::default() },
    }
}

impl<C: Clock + 'static> HttpHandler for Handler<C> {
    async fn handle(&self, request: Request) -> Response<Body> {
        let id = http::request_id(&request);
        let answer = match http::route(&request).as_str() {
            "POST /v1/admin/activities/{activity}/coupons" => self.coupons.issue(&request).await,
            _ => self.answer(&request).await,
        };
        answer.unwrap_or_else(|problem| problem.response(&id))
    }
}

impl<C: Clock> Handler<C> {
    async fn answer(&self, request: &Request) -> Result<Response<Body>, Problem> {
        let (activity, buyer) = (http::activity(request)?, http::caller(request)?);
        let page = Page::parse(&http::json::<TokenRequest>(request)?.page)?;
        let buyer_log_id = buyer.log_id();
        let outcome = match self.use_case.run(&activity, buyer, page).await {
            Ok(Issued::Token { text, expires_at }) => {
                Ok(http::ok(201, &json!({"token": text, "expires_at": expires_at})))
            }
            Ok(Issued::UnknownActivity) => Err(Problem::unknown_activity()),
            Ok(Issued::Ended) => Err(Problem::ended()),
            Ok(Issued::TooMany { retry_after_s }) => {
                Err(Problem::new(429, "limited", "Too many tokens in a minute.").retry_after(retry_after_s))
            }
            Err(fault) => Err(Problem::fault(fault)),
        };
        let code = outcome.as_ref().map_or_else(|problem| problem.code, |_| "issued");
        tracing::info!(%activity, buyer = buyer_log_id, outcome = code, "issue_token");
        outcome
    }
}
