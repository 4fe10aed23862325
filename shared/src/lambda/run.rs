//! Starting a function: telemetry, then the runtime, many requests at a time where Lambda allows it.

use std::{convert::Infallible, sync::Arc};

use lambda_http::{Request, service_fn};
use lambda_runtime::{Error, LambdaEvent};
use serde::{Serialize, de::DeserializeOwned};
use tracing_subscriber::{EnvFilter, fmt, layer::SubscriberExt as _, util::SubscriberInitExt as _};

use super::http::HttpHandler;

/// JSON logs on standard output, one event per line, filtered by `HOLDFAST_LOG`.
pub fn start_telemetry(filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = fmt::layer().json().flatten_event(true).with_current_span(false).with_target(false);
    // A second start in one process, as in tests, keeps the first one.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}

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
    lambda_runtime::run_concurrent(lambda_runtime::service_fn(work)).await
}
