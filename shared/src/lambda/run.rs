//! Serving events for ever, many at a time where Lambda allows it.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use lambda_http::{Request, service_fn};
use lambda_runtime::{Error, LambdaEvent};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::http::HttpHandler;

/// Serves HTTP API events for ever.
pub async fn serve_http(handler: impl HttpHandler) -> Result<(), Error> {
    let handler = Arc::new(handler);
    lambda_http::run_concurrent(service_fn(move |request: Request| {
        let handler = Arc::clone(&handler);
        async move { Ok::<_, Infallible>(handler.handle(request).await) }
    }))
    .await
}

/// Serves events of another kind for ever. A failed one is Lambda's to repeat.
pub async fn serve_events<E, R, F>(work: impl Fn(LambdaEvent<E>) -> F + Clone + Send + 'static) -> Result<(), Error>
where
    E: DeserializeOwned + Send + 'static,
    R: Serialize + Send + 'static,
    F: Future<Output = Result<R, Error>> + Send + 'static,
{
    // Boxed: the futures of the schedules nest too deep for the compiler otherwise.
    let work = move |event| -> Pin<Box<dyn Future<Output = Result<R, Error>> + Send>> { Box::pin(work(event)) };
    lambda_runtime::run_concurrent(lambda_runtime::service_fn(work)).await
}

/// Serves a schedule for ever, whatever its event says. The work is told how long the function has for it.
pub async fn serve_schedule<R, F>(work: impl Fn(Duration) -> F + Clone + Send + 'static) -> Result<(), Error>
where
    R: Serialize + Send + 'static,
    F: Future<Output = Result<R, Error>> + Send + 'static,
{
    serve_events(move |event: LambdaEvent<Value>| {
        work(event.context.deadline().duration_since(SystemTime::now()).unwrap_or(Duration::ZERO))
    })
    .await
}
