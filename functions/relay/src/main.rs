use std::sync::Arc;

use holdfast::{
    config::Reader,
    lambda::{Needs, run, wiring::Settings},
};
use lambda_runtime::LambdaEvent;
use relay::StreamEvent;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let mut reader = Reader::environment();
    run::start_telemetry(&reader.log_filter());
    let settings = Settings::read(&mut reader, Needs { relay_queues: true, ..Needs::default() });
    reader.finish()?;
    let handler = Arc::new(relay::handler(settings.connect().await));
    run::serve_events(move |event: LambdaEvent<StreamEvent>| {
        let handler = Arc::clone(&handler);
        async move { Ok(handler.handle(event.payload).await) }
    })
    .await
}
