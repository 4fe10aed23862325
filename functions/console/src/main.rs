use holdfast::{
    config::Reader,
    lambda::{Needs, run, wiring::Settings},
};

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let mut reader = Reader::environment();
    run::start_telemetry(&reader.log_filter());
    let settings = Settings::read(&mut reader, Needs { gate: true, roll_back_queue: true, ..Needs::default() });
    reader.finish()?;
    run::serve_http(console::handler(settings.connect().await)).await
}
