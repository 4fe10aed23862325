use holdfast::lambda::{Needs, Start, run};

#[tokio::main]
async fn main() -> Result<(), lambda_runtime::Error> {
    let (wiring, telemetry) = Start::begin().await.connect(Needs { gate: true, ..Needs::default() })?;
    run::serve_http(telemetry, query::handler(wiring)).await
}
