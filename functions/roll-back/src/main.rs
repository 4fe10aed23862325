// The future of a batch of settlements nests deep.
#![recursion_limit = "256"]

use std::sync::Arc;

use aws_lambda_events::sqs::SqsEvent;
use holdfast::{
    config::Reader,
    lambda::{Needs, run, wiring::Settings},
};
use lambda_runtime::LambdaEvent;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let mut reader = Reader::environment();
    run::start_telemetry(&reader.log_filter());
    let settings = Settings::read(&mut reader, Needs { gate: true, roll_back_queue: true, ..Needs::default() });
    reader.finish()?;
    let handler = Arc::new(roll_back::handler(settings.connect().await));
    run::serve_events(move |event: LambdaEvent<SqsEvent>| {
        let handler = Arc::clone(&handler);
        async move { Ok(handler.handle(event.payload).await) }
    })
    .await
}
