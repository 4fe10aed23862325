use std::sync::Arc;

use holdfast::lambda::{Needs, Start, run};

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let mut start = Start::begin().await;
    let keys = start.reader.token_keys();
    let (wiring, telemetry) = start.connect(Needs { gate: true, ..Needs::default() })?;
    let keys = keys.ok_or("HOLDFAST_TOKEN_KEYS is missing")?;
    run::serve_http(telemetry, issue_token::handler(wiring, Arc::new(keys))).await
}
