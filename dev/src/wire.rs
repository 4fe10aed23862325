//! The functions as they are deployed, made of one set of local clients. The only file that names them.

use std::sync::Arc;
use std::time::Duration;

use harness::webhook_secrets;
use holdfast::domain::token::TokenKeys;
use holdfast::lambda::Wiring;
use holdfast::lambda::http::HttpHandler;
use serde_json::Value;

use crate::functions::{Functions, HttpFunction, QueueFunction, ScheduledFunction, StreamFunction};

/// Time that one reconciliation run has, as its function has on AWS.
const RECONCILE_TIME: Duration = Duration::from_mins(4);
/// Time that one run has of a function that runs every minute.
const MINUTE_JOB_TIME: Duration = Duration::from_secs(50);

/// All functions on these clients.
#[must_use]
pub fn functions(wiring: &Wiring, keys: &Arc<TokenKeys>) -> Functions {
    Functions {
        issue_token: http(issue_token::handler(wiring.clone(), Arc::clone(keys))),
        place_order: http(place_order::handler(wiring.clone(), Arc::clone(keys))),
        query: http(query::handler(wiring.clone())),
        console: http(console::handler(wiring.clone())),
        cancel_order: http(cancel_order::handler(wiring.clone(), Arc::clone(keys))),
        payment: http(payment::handler(wiring.clone(), Arc::new(webhook_secrets()))),
        roll_back: roll_back(wiring.clone()),
        relay: relay(wiring.clone()),
        reconcile: reconcile(wiring.clone()),
        expire_orders: expire_orders(wiring.clone()),
        rebalance_stock: rebalance_stock(wiring.clone()),
    }
}

pub(crate) fn http<H: HttpHandler>(handler: H) -> HttpFunction {
    let handler = Arc::new(handler);
    Arc::new(move |request| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { handler.handle(request).await })
    })
}

fn roll_back(wiring: Wiring) -> QueueFunction {
    let handler = Arc::new(roll_back::handler(wiring));
    Arc::new(move |event| {
        let handler = Arc::clone(&handler);
        Box::pin(async move { handler.handle(event).await })
    })
}

fn relay(wiring: Wiring) -> StreamFunction {
    let handler = Arc::new(relay::handler(wiring));
    Arc::new(move |event: Value| {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            // Neither side fails on what the poller makes; if it did, the whole batch would come again.
            let answer = match serde_json::from_value(event) {
                Ok(event) => serde_json::to_value(handler.handle(event).await),
                Err(error) => Err(error),
            };
            answer.unwrap_or_else(|error| {
                tracing::error!(%error, "the relay and its poller do not understand each other");
                serde_json::json!({ "batchItemFailures": [{ "itemIdentifier": null }] })
            })
        })
    })
}

fn expire_orders(wiring: Wiring) -> ScheduledFunction {
    let handler = Arc::new(expire_orders::handler(wiring));
    Arc::new(move || {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            let report = handler.handle(MINUTE_JOB_TIME).await.map_err(|fault| fault.chain())?;
            serde_json::to_value(report).map_err(|error| error.to_string())
        })
    })
}

fn rebalance_stock(wiring: Wiring) -> ScheduledFunction {
    let handler = Arc::new(rebalance_stock::handler(wiring));
    Arc::new(move || {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            let report = handler.handle(MINUTE_JOB_TIME).await.map_err(|fault| fault.chain())?;
            serde_json::to_value(report).map_err(|error| error.to_string())
        })
    })
}

fn reconcile(wiring: Wiring) -> ScheduledFunction {
    let handler = Arc::new(reconcile::handler(wiring));
    Arc::new(move || {
        let handler = Arc::clone(&handler);
        Box::pin(async move {
            let report = handler.handle(RECONCILE_TIME).await.map_err(|fault| fault.chain())?;
            serde_json::to_value(report).map_err(|error| error.to_string())
        })
    })
}
