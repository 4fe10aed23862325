//! `POST /v1/activities/{activity}/tokens`: a signed right to submit one order.

use std::sync::Arc;

use holdfast::{
    adapters::{dynamodb::Database, redis::Gate},
    app::issue_token::{IssueToken, Issued, LocalCounts},
    domain::token::{Page, TokenKeys},
    lambda::{
        Wiring,
        http::{self, HttpHandler},
        problem::Problem,
    },
    ports::SystemClock,
};
use lambda_http::{Body, Request, Response};
use serde::Deserialize;
use serde_json::json;

pub struct Handler {
    use_case: IssueToken<Database, Gate, SystemClock>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenRequest {
    #[serde(default)]
    page: String,
}

#[must_use]
pub fn handler(wiring: Wiring, keys: Arc<TokenKeys>) -> Handler {
    let Wiring { cache, gate, .. } = wiring;
    Handler { use_case: IssueToken { cache, gate, clock: SystemClock, keys, counts: LocalCounts::default() } }
}

impl HttpHandler for Handler {
    async fn handle(&self, request: Request) -> Response<Body> {
        let id = http::request_id(&request);
        self.answer(&request).await.unwrap_or_else(|problem| problem.response(&id))
    }
}

impl Handler {
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
