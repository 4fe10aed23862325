use std::sync::Arc;

use holdfast::lambda::{Needs, Start, run};

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let mut start = Start::begin().await;
    let secrets = start.reader.webhook_secrets();
    let (wiring, telemetry) = start.connect(Needs { gate: true, roll_back_queue: true, ..Needs::default() })?;
    let secrets = secrets.ok_or("HOLDFAST_WEBHOOK_SECRETS is missing")?;
    run::serve_http(telemetry, payment::handler(wiring, Arc::new(secrets))).await
}
