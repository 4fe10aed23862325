// The future of a batch of settlements nests deep.
#![recursion_limit = "256"]

use std::sync::Arc;

use aws_lambda_events::sqs::SqsEvent;
use holdfast::lambda::{Needs, Start, run};
use lambda_runtime::LambdaEvent;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let (wiring, telemetry) =
        Start::begin().await.connect(Needs { gate: true, roll_back_queue: true, ..Needs::default() })?;
    let handler = Arc::new(roll_back::handler(wiring));
    run::serve_events(telemetry, move |event: LambdaEvent<SqsEvent>| {
        let handler = Arc::clone(&handler);
        async move { Ok(handler.handle(event.payload).await) }
    })
    .await
}
