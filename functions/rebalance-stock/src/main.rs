use std::{sync::Arc, time::Duration};

use holdfast::{
    config::Reader,
    lambda::{Needs, run, wiring::Settings},
};
use lambda_runtime::LambdaEvent;
use serde_json::Value;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let mut reader = Reader::environment();
    run::start_telemetry(&reader.log_filter());
    let settings = Settings::read(&mut reader, Needs { gate: true, ..Needs::default() });
    reader.finish()?;
    let handler = Arc::new(rebalance_stock::handler(settings.connect().await));
    run::serve_events(move |event: LambdaEvent<Value>| {
        let handler = Arc::clone(&handler);
        async move {
            let left = event.context.deadline().duration_since(std::time::SystemTime::now());
            Ok(handler.handle(left.unwrap_or(Duration::ZERO)).await?)
        }
    })
    .await
}
