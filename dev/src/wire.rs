//! The functions as they are deployed, made of one set of local clients. The only file that names them.

use std::sync::Arc;
use std::time::Duration;

use harness::webhook_secrets;
use holdfast::domain::token::TokenKeys;
use holdfast::lambda::http::HttpHandler;
use holdfast::lambda::{Telemetry, Wiring, run};
use serde_json::Value;

use crate::functions::{Functions, HttpFunction, QueueFunction, ScheduledFunction, StreamFunction};

/// Time that one reconciliation run has, as its function has on AWS.
const RECONCILE_TIME: Duration = Duration::from_mins(4);
/// Time that one run has of a function that runs every minute.
const MINUTE_JOB_TIME: Duration = Duration::from_secs(50);

/// All functions on these clients. Their metrics are told to nobody.
#[must_use]
pub fn functions(wiring: &Wiring, keys: &Arc<TokenKeys>) -> Functions {
    telling(wiring, keys, &Telemetry::default)
}

/// All functions, each as a process of its own tells of itself.
#[must_use]
pub fn telling(wiring: &Wiring, keys: &Arc<TokenKeys>, process: &dyn Fn() -> Telemetry) -> Functions {
    Functions {
        issue_token: http(&process(), issue_token::handler(wiring.clone(), Arc::clone(keys))),
        place_order: http(&process(), place_order::handler(wiring.clone(), Arc::clone(keys))),
        query: http(&process(), query::handler(wiring.clone())),
        console: http(&process(), console::handler(wiring.clone())),
        cancel_order: http(&process(), cancel_order::handler(wiring.clone(), Arc::clone(keys))),
        payment: http(&process(), payment::handler(wiring.clone(), Arc::new(webhook_secrets()))),
        roll_back: roll_back(&process(), wiring.clone()),
        relay: relay(&process(), wiring.clone()),
        reconcile: reconcile(&process(), wiring.clone()),
        expire_orders: expire_orders(&process(), wiring.clone()),
        rebalance_stock: rebalance_stock(&process(), wiring.clone()),
    }
}

pub(crate) fn http<H: HttpHandler>(telemetry: &Telemetry, handler: H) -> HttpFunction {
    let (telemetry, handler) = (telemetry.clone(), Arc::new(handler));
    Arc::new(move |request| {
        let (telemetry, handler) = (telemetry.clone(), Arc::clone(&handler));
        Box::pin(async move { run::answer(&telemetry, &*handler, request).await })
    })
}

fn roll_back(telemetry: &Telemetry, wiring: Wiring) -> QueueFunction {
    let (telemetry, handler) = (telemetry.clone(), Arc::new(roll_back::handler(wiring)));
    Arc::new(move |event| {
        let (telemetry, handler) = (telemetry.clone(), Arc::clone(&handler));
        Box::pin(async move { telemetry.invocation(None, Box::pin(handler.handle(event))).await })
    })
}

fn relay(telemetry: &Telemetry, wiring: Wiring) -> StreamFunction {
    let (telemetry, handler) = (telemetry.clone(), Arc::new(relay::handler(wiring)));
    Arc::new(move |event: Value| {
        let (telemetry, handler) = (telemetry.clone(), Arc::clone(&handler));
        Box::pin(async move {
            // Neither side fails on what the poller makes; if it did, the whole batch would come again.
            let answer = match serde_json::from_value(event) {
                Ok(event) => serde_json::to_value(telemetry.invocation(None, Box::pin(handler.handle(event))).await),
                Err(error) => Err(error),
            };
            answer.unwrap_or_else(|error| {
                tracing::error!(%error, "the relay and its poller do not understand each other");
                serde_json::json!({ "batchItemFailures": [{ "itemIdentifier": null }] })
            })
        })
    })
}

fn expire_orders(telemetry: &Telemetry, wiring: Wiring) -> ScheduledFunction {
    let (telemetry, handler) = (telemetry.clone(), Arc::new(expire_orders::handler(wiring)));
    Arc::new(move || {
        let (telemetry, handler) = (telemetry.clone(), Arc::clone(&handler));
        Box::pin(async move {
            let run = Box::pin(handler.handle(MINUTE_JOB_TIME));
            let report = telemetry.invocation(None, run).await.map_err(|fault| fault.chain())?;
            serde_json::to_value(report).map_err(|error| error.to_string())
        })
    })
}

fn rebalance_stock(telemetry: &Telemetry, wiring: Wiring) -> ScheduledFunction {
    let (telemetry, handler) = (telemetry.clone(), Arc::new(rebalance_stock::handler(wiring)));
    Arc::new(move || {
        let (telemetry, handler) = (telemetry.clone(), Arc::clone(&handler));
        Box::pin(async move {
            let run = Box::pin(handler.handle(MINUTE_JOB_TIME));
            let report = telemetry.invocation(None, run).await.map_err(|fault| fault.chain())?;
            serde_json::to_value(report).map_err(|error| error.to_string())
        })
    })
}

fn reconcile(telemetry: &Telemetry, wiring: Wiring) -> ScheduledFunction {
    let (telemetry, handler) = (telemetry.clone(), Arc::new(reconcile::handler(wiring)));
    Arc::new(move || {
        let (telemetry, handler) = (telemetry.clone(), Arc::clone(&handler));
        Box::pin(async move {
            let run = Box::pin(handler.handle(RECONCILE_TIME));
            let report = telemetry.invocation(None, run).await.map_err(|fault| fault.chain())?;
            serde_json::to_value(report).map_err(|error| error.to_string())
        })
    })
}
