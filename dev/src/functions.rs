//! The functions as the local runner calls them: each behind one closure, so that the gateway and
//! the pollers know the shape of an event and nothing else.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent};
use lambda_http::{Body, Request, Response};
use serde_json::Value;

/// What a function's call comes to.
pub type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A function behind the HTTP API.
pub type HttpFunction = Arc<dyn Fn(Request) -> Later<Response<Body>> + Send + Sync>;
/// A function behind a queue.
pub type QueueFunction = Arc<dyn Fn(SqsEvent) -> Later<SqsBatchResponse> + Send + Sync>;
/// A function behind the table's stream. Event and answer in JSON, as Lambda passes them on: the
/// function has types of its own for both.
pub type StreamFunction = Arc<dyn Fn(Value) -> Later<Value> + Send + Sync>;
/// A function that a schedule starts; its report, or the text of what broke.
pub type ScheduledFunction = Arc<dyn Fn() -> Later<Result<Value, String>> + Send + Sync>;

/// All of them.
#[derive(Clone)]
pub struct Functions {
    pub issue_token: HttpFunction,
    pub place_order: HttpFunction,
    pub cancel_order: HttpFunction,
    pub payment: HttpFunction,
    pub query: HttpFunction,
    pub console: HttpFunction,
    pub roll_back: QueueFunction,
    pub relay: StreamFunction,
    pub reconcile: ScheduledFunction,
    pub expire_orders: ScheduledFunction,
    pub rebalance_stock: ScheduledFunction,
}
