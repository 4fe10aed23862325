//! The local runner. See `dev --help`.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use dev::args::{Cli, Command};
use dev::commands;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    start_log(&cli);
    let done = match cli.command {
        Command::Serve(serve) => Box::pin(commands::serve(serve)).await.map(|()| true),
        Command::Sale(sale) => Box::pin(commands::sale(sale)).await,
        Command::Faults(faults) => Box::pin(commands::faults(faults)).await,
        Command::Soak(soak) => Box::pin(commands::soak(soak)).await,
        Command::Worker => Box::pin(dev::faults::worker::run()).await.map(|()| true),
        Command::Fuzz(fuzz) => Box::pin(commands::fuzz(fuzz)).await,
        Command::Invoke(invoke) => Box::pin(commands::invoke(invoke)).await,
        Command::Size(size) => Box::pin(commands::size(size)).await,
        Command::Cost(cost) => Box::pin(commands::cost(cost)).await.map(|()| true),
        Command::BenchStart(options) => Box::pin(commands::bench_start(options)).await.map(|()| true),
        Command::Plan(expected) => dev::plan::text(&expected).map(|text| {
            println!("{text}");
            true
        }),
        Command::Bench(bench) => Box::pin(commands::bench(bench)).await,
        Command::SizePass(pass) => Box::pin(commands::size_pass(pass)).await.map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("dev: {}", chain(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

/// To stderr, so that stdout has the report and nothing else. A sale refuses tens of thousands of
/// requests by design: only what is broken is logged then, unless `HOLDFAST_LOG` says otherwise.
fn start_log(cli: &Cli) {
    let quiet = match cli.command {
        // It counts what is logged.
        Command::Cost(_) => return,
        Command::Serve(_) => "info",
        Command::Sale(_)
        | Command::Fuzz(_)
        | Command::Invoke(_)
        | Command::Bench(_)
        | Command::BenchStart(_)
        | Command::Plan(_) => "error",
        // Repairs by the thousand are the purpose of the first two; in the others everything breaks on purpose.
        Command::Size(_) | Command::SizePass(_) | Command::Faults(_) | Command::Soak(_) | Command::Worker => "off",
    };
    let filter = std::env::var("HOLDFAST_LOG").unwrap_or_else(|_| quiet.to_owned());
    tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter)).with_writer(std::io::stderr).init();
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |error| (*error).source());
    std::iter::once(error.to_string()).chain(causes.map(ToString::to_string)).collect::<Vec<_>>().join(": ")
}
