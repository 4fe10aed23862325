//! The HTTP API under calls that schemathesis makes of `openapi.yaml`, valid ones and others.
//!
//! `dev/fuzz/` tells what is called, what with, and what an answer is checked for.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::args::Fuzz;
use crate::gateway::local::StateError;
use crate::stack::{Stack, StackOptions, StartError};

/// The activities in which orders are placed, and which no call changes.
const SOLD_IN: [&str; 2] = ["running", "cas"];
/// Of the reconciliation: often enough to meet orders under way.
const RECONCILE_EVERY: Duration = Duration::from_secs(20);

/// The stack that is fuzzed: as quick as it can be, because one call waits for the other.
#[must_use]
pub fn stack() -> StackOptions {
    StackOptions {
        port: 0,
        latency: Duration::ZERO,
        redis_url: None,
        redis_deadline_ms: 1_000,
        reconcile_every: RECONCILE_EVERY,
        fulfil: true,
    }
}

/// Runs schemathesis to its end; answers whether it found nothing and both stores tell the same afterwards.
/// It ends with this future.
///
/// # Errors
/// When it cannot be started, or the stores cannot be read.
pub async fn run(stack: &Stack, options: &Fuzz) -> Result<bool, StartError> {
    let held = schemathesis(&format!("http://{}", stack.address()), options).await?;
    Ok(stores_agree(stack).await? && held)
}

async fn stores_agree(stack: &Stack) -> Result<bool, StartError> {
    let read = stack.stores.clone().state_reader();
    let mut agree = true;
    for activity in SOLD_IN {
        let state = read(activity.to_owned()).await.map_err(|error| match error {
            StateError::UnknownActivity => format!("{activity} was never created"),
            StateError::Broken(error) => error,
        })?;
        println!("{activity}: Redis and the database agree: {}; {}", state["agree"], state["differences"]);
        agree &= state["agree"] == true;
    }
    Ok(agree)
}

async fn schemathesis(api: &str, options: &Fuzz) -> Result<bool, StartError> {
    let dev = Path::new(env!("CARGO_MANIFEST_DIR"));
    println!("{api}, --seed {}", options.seed);
    // It is started in another folder than this one.
    let mut command = Command::new(std::path::absolute(&options.schemathesis)?);
    command.current_dir(dev.join("fuzz")).kill_on_drop(true);
    command.env("HOLDFAST_FUZZ_API", api).env("HOLDFAST_FUZZ_SEED", options.seed.to_string());
    // Nothing is left in the sources.
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("HYPOTHESIS_STORAGE_DIRECTORY", dev.join("../report/hypothesis"));
    command.args(["run", "--url", api]);
    command.args(["--seed", &options.seed.to_string(), "--max-examples", &options.examples.to_string()]);
    if let Some(operation) = &options.only {
        command.args(["--include-operation-id", operation]);
    }
    let ended = command.arg(dev.join("../openapi.yaml")).status().await;
    Ok(ended.map_err(|error| format!("{}: {error}", options.schemathesis.display()))?.success())
}
