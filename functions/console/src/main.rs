use holdfast::lambda::{Needs, Start, run};

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let (wiring, telemetry) =
        Start::begin().await.connect(Needs { gate: true, roll_back_queue: true, ..Needs::default() })?;
    run::serve_http(telemetry, console::handler(wiring)).await
}
