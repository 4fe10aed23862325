use std::sync::Arc;

use holdfast::lambda::{Needs, Start, run};
use lambda_runtime::LambdaEvent;
use relay::StreamEvent;

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let (wiring, telemetry) = Start::begin().await.connect(Needs { relay_queues: true, ..Needs::default() })?;
    let handler = Arc::new(relay::handler(wiring));
    run::serve_events(telemetry, move |event: LambdaEvent<StreamEvent>| {
        let handler = Arc::clone(&handler);
        async move { Ok(handler.handle(event.payload).await) }
    })
    .await
}
