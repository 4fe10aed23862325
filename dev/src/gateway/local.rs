//! The `/dev` routes: no function has them, and nothing deployed serves them.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::body::Bytes;
use hyper::http::request::Parts;
use serde::Deserialize;
use serde_json::{Value, json};

use super::jwt::Authorizer;
use super::reply::{Reply, json_reply, message};
use super::routes::percent_decode;
use crate::functions::{Functions, Later, ScheduledFunction};

/// Both stores' view of one activity; the error is a text for the caller.
pub type StateReader = Arc<dyn Fn(String) -> Later<Result<Value, StateError>> + Send + Sync>;

/// Why there is no state to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateError {
    UnknownActivity,
    Broken(String),
}

/// What the `/dev` routes call.
#[derive(Clone)]
pub struct LocalApi {
    pub reconcile: ScheduledFunction,
    pub expire_orders: ScheduledFunction,
    pub rebalance_stock: ScheduledFunction,
    pub state: StateReader,
}

/// One of the `/dev` routes.
#[derive(Clone, Copy, Debug)]
pub enum LocalCall {
    Login,
    Reconcile,
    ExpireOrders,
    RebalanceStock,
    State,
}

#[derive(Deserialize)]
struct Login {
    sub: String,
    #[serde(default)]
    groups: Vec<String>,
}

impl LocalApi {
    #[must_use]
    pub fn of(functions: &Functions, state: StateReader) -> Self {
        Self {
            reconcile: Arc::clone(&functions.reconcile),
            expire_orders: Arc::clone(&functions.expire_orders),
            rebalance_stock: Arc::clone(&functions.rebalance_stock),
            state,
        }
    }

    #[must_use]
    pub fn find(&self, parts: &Parts) -> Option<LocalCall> {
        match (parts.method.as_str(), parts.uri.path()) {
            ("POST", "/dev/login") => Some(LocalCall::Login),
            ("POST", "/dev/run/reconcile") => Some(LocalCall::Reconcile),
            ("POST", "/dev/run/expire-orders") => Some(LocalCall::ExpireOrders),
            ("POST", "/dev/run/rebalance-stock") => Some(LocalCall::RebalanceStock),
            ("GET", "/dev/state") => Some(LocalCall::State),
            _ => None,
        }
    }

    pub async fn answer(&self, call: LocalCall, authorizer: &Authorizer, parts: &Parts, body: Bytes) -> Reply {
        match call {
            LocalCall::Login => login(authorizer, &body),
            LocalCall::Reconcile => run(&self.reconcile).await,
            LocalCall::ExpireOrders => run(&self.expire_orders).await,
            LocalCall::RebalanceStock => run(&self.rebalance_stock).await,
            LocalCall::State => match activity(parts.uri.query().unwrap_or("")) {
                None => message(StatusCode::BAD_REQUEST, "activity is missing"),
                Some(activity) => match (self.state)(activity).await {
                    Ok(state) => json_reply(StatusCode::OK, &state),
                    Err(StateError::UnknownActivity) => message(StatusCode::NOT_FOUND, "no such activity"),
                    Err(StateError::Broken(error)) => message(StatusCode::INTERNAL_SERVER_ERROR, &error),
                },
            },
        }
    }
}

/// One scheduled run, now.
async fn run(function: &ScheduledFunction) -> Reply {
    match function().await {
        Ok(report) => json_reply(StatusCode::OK, &report),
        Err(error) => message(StatusCode::INTERNAL_SERVER_ERROR, &error),
    }
}

fn login(authorizer: &Authorizer, body: &[u8]) -> Reply {
    match serde_json::from_slice::<Login>(body) {
        Ok(login) => {
            let token = authorizer.login(&login.sub, &login.groups, jiff::Timestamp::now().as_second());
            json_reply(StatusCode::OK, &json!({ "access_token": token }))
        }
        Err(_) => message(StatusCode::BAD_REQUEST, "expected {\"sub\": \"…\", \"groups\": [\"…\"]}"),
    }
}

fn activity(query: &str) -> Option<String> {
    query.split('&').find_map(|pair| pair.strip_prefix("activity=")).map(percent_decode).filter(|id| !id.is_empty())
}
