use std::sync::Arc;

use holdfast::{
    config::Reader,
    lambda::{Needs, run, wiring::Settings},
};

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let mut reader = Reader::environment();
    run::start_telemetry(&reader.log_filter());
    let settings = Settings::read(&mut reader, Needs { gate: true, ..Needs::default() });
    let keys = reader.token_keys();
    reader.finish()?;
    let keys = Arc::new(keys.ok_or("HOLDFAST_TOKEN_KEYS is missing")?);
    run::serve_http(issue_token::handler(settings.connect().await, keys)).await
}
