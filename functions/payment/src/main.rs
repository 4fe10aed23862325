use std::sync::Arc;

use holdfast::{
    config::Reader,
    lambda::{Needs, run, wiring::Settings},
};

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let mut reader = Reader::environment();
    run::start_telemetry(&reader.log_filter());
    let settings = Settings::read(&mut reader, Needs { gate: true, roll_back_queue: true, ..Needs::default() });
    let secrets = reader.webhook_secrets();
    reader.finish()?;
    // The reader told about missing secrets.
    let Some(secrets) = secrets else { return Ok(()) };
    run::serve_http(payment::handler(settings.connect().await, Arc::new(secrets))).await
}
