use std::sync::Arc;

use holdfast::lambda::{Needs, Start, run};

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let (wiring, telemetry) =
        Start::begin().await.connect(Needs { gate: true, roll_back_queue: true, ..Needs::default() })?;
    let handler = Arc::new(reconcile::handler(wiring));
    run::serve_schedule(telemetry, move |time_left| {
        let handler = Arc::clone(&handler);
        async move { Ok(handler.handle(time_left).await?) }
    })
    .await
}
