//! Serving events for ever, many at a time where Lambda allows it.

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use lambda_http::{Body, Request, Response, service_fn};
use lambda_runtime::{Error, LambdaEvent};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    http::{self, HttpHandler},
    telemetry::Telemetry,
};
use crate::telemetry::Trace;

/// Serves HTTP API events for ever.
pub async fn serve_http(telemetry: Telemetry, handler: impl HttpHandler) -> Result<(), Error> {
    let handler = Arc::new(handler);
    lambda_http::run_concurrent(service_fn(move |request: Request| {
        let (telemetry, handler) = (telemetry.clone(), Arc::clone(&handler));
        async move { Ok::<_, Infallible>(answer(&telemetry, &*handler, request).await) }
    }))
    .await
}

/// One request, as [`serve_http`] serves it.
pub async fn answer(telemetry: &Telemetry, handler: &impl HttpHandler, request: Request) -> Response<Body> {
    telemetry.invocation(http::trace(&request), Box::pin(handler.handle(request))).await
}

/// Serves events of another kind for ever. A failed one is Lambda's to repeat.
pub async fn serve_events<E, R, F>(
    telemetry: Telemetry,
    work: impl Fn(LambdaEvent<E>) -> F + Clone + Send + 'static,
) -> Result<(), Error>
where
    E: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Future<Output = Result<R, Error>> + Send + 'static,
{
    lambda_runtime::run_concurrent(lambda_runtime::service_fn(move |event: LambdaEvent<E>| {
        let telemetry = telemetry.clone();
        let trace = event.context.xray_trace_id.as_deref().and_then(Trace::parse);
        // Boxed: the futures of the schedules nest too deep for the compiler otherwise.
        let work: BoxFuture<'_, Result<R, Error>> = Box::pin(work(event));
        async move { telemetry.invocation(trace, work).await }
    }))
    .await
}

/// Serves a schedule for ever, whatever its event says. The work is told how long the function has for it.
pub async fn serve_schedule<R, F>(
    telemetry: Telemetry,
    work: impl Fn(Duration) -> F + Clone + Send + 'static,
) -> Result<(), Error>
where
    R: Serialize + Send + 'static,
    F: Future<Output = Result<R, Error>> + Send + 'static,
{
    serve_events(telemetry, move |event: LambdaEvent<Value>| {
        work(event.context.deadline().duration_since(SystemTime::now()).unwrap_or(Duration::ZERO))
    })
    .await
}
