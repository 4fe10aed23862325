//! What the two subcommands do.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Faults, Fuzz, Sale, Serve, Soak};
use crate::faults::{soak, suite};
use crate::report::{Report, Settings, html, text};
use crate::sale::shape::Shape;
use crate::stack::{Stack, StartError};

/// Keeps the stack up until SIGINT or SIGTERM, then stops all of it.
///
/// # Errors
/// When the stack does not start.
pub async fn serve(options: Serve) -> Result<(), StartError> {
    let mut interrupted = Interrupted::listen()?;
    let stack = tokio::select! {
        started = Stack::start(options.common.stack(options.port, false)) => started?,
        () = interrupted.wait() => return Ok(()),
    };
    for (name, value) in stack.describe() {
        println!("{name:<22} {value}");
    }
    println!("Log in with POST /dev/login {{\"sub\": \"alice\"}}; stop with Ctrl-C.");
    interrupted.wait().await;
    stack.stop().await;
    Ok(())
}

/// Runs a sale; answers whether everything held.
///
/// # Errors
/// When the options make no sense, the stack does not start or does not answer, or the sale was
/// interrupted.
pub async fn sale(options: Sale) -> Result<bool, StartError> {
    let shape = Shape::of(options.requests, options.buyers, options.units)?;
    let mut interrupted = Interrupted::listen()?;
    let stack = tokio::select! {
        started = Stack::start(options.common.stack(0, true)) => started?,
        () = interrupted.wait() => return Err("interrupted".into()),
    };
    let settings = settings(&options);
    let ran = tokio::select! {
        ran = crate::sale::run(&stack, settings.clone(), shape) => ran,
        () = interrupted.wait() => Err("interrupted".into()),
    };
    // One that this process started ends with it.
    let forgotten = if options.common.redis_url.is_some() { forget(&stack, &settings).await } else { Ok(()) };
    stack.stop().await;
    let report = ran?;
    forgotten?;
    print(&report)?;
    Ok(report.holds())
}

/// Plays the fault suite; answers whether everything held.
///
/// # Errors
/// When no case is chosen, a report cannot be written, or the suite was interrupted.
pub async fn faults(options: Faults) -> Result<bool, StartError> {
    let mut interrupted = Interrupted::listen()?;
    let options = suite::Options {
        filter: options.filter,
        seed: options.seed,
        program: std::env::current_exe()?,
        report: options.report,
        document: options.document,
    };
    tokio::select! {
        played = suite::run(&options) => played,
        () = interrupted.wait() => Err("interrupted".into()),
    }
}

/// Soaks the stack in faults; answers whether everything held.
///
/// # Errors
/// When a server does not start, or the run was interrupted.
pub async fn soak(options: Soak) -> Result<bool, StartError> {
    let mut interrupted = Interrupted::listen()?;
    let time = Duration::from_secs(options.minutes * 60);
    let options = soak::Options { time, seed: options.seed, round: options.round, program: std::env::current_exe()? };
    tokio::select! {
        soaked = soak::run(&options) => soaked,
        () = interrupted.wait() => Err("interrupted".into()),
    }
}

/// Fuzzes the HTTP API; answers whether every answer was as the contract says.
///
/// # Errors
/// When the stack or schemathesis does not start, or the run was interrupted.
pub async fn fuzz(options: Fuzz) -> Result<bool, StartError> {
    let mut interrupted = Interrupted::listen()?;
    let stack = tokio::select! {
        started = Stack::start(crate::fuzz::stack()) => started?,
        () = interrupted.wait() => return Err("interrupted".into()),
    };
    let held = tokio::select! {
        held = crate::fuzz::run(&stack, &options) => held,
        () = interrupted.wait() => Err("interrupted".into()),
    };
    stack.stop().await;
    held
}

/// Runs the built functions with the files of `events/`; answers whether all answers were as expected.
///
/// # Errors
/// When something does not start, cannot be removed, or the run was interrupted.
pub async fn invoke(options: crate::args::Invoke) -> Result<bool, StartError> {
    let mut interrupted = Interrupted::listen()?;
    let options = crate::invoke::Options {
        how: options.how,
        tools: options.tools,
        built: options.built,
        only: options.function.zip(options.event),
    };
    crate::invoke::run(&options, interrupted.wait()).await
}

/// Reconciles at size; answers whether exactly what was planted was found and repaired.
///
/// # Errors
/// When a server does not start, or a pass does not end.
pub async fn size(options: crate::args::Size) -> Result<bool, StartError> {
    let size = crate::size::Size {
        activities: options.activities,
        orders: options.orders,
        buckets: options.buckets,
        run_time: Duration::from_millis(options.run_ms),
        program: std::env::current_exe()?,
    };
    let measured = crate::size::run(&size).await?;
    println!("{}", measured.text());
    Ok(measured.holds())
}

/// One run of a reconciliation; prints what it did.
///
/// # Errors
/// When a server does not answer.
pub async fn size_pass(options: crate::args::SizePass) -> Result<(), StartError> {
    let done = crate::size::run_pass(options).await?;
    println!("{}", serde_json::to_string(&done)?);
    Ok(())
}

/// Measures ratios; answers whether all of them could be measured.
///
/// # Errors
/// When no part is chosen, or the run was interrupted.
pub async fn bench(options: crate::args::Bench) -> Result<bool, StartError> {
    let mut interrupted = Interrupted::listen()?;
    let options = crate::bench::Options {
        filter: options.filter,
        rounds: options.rounds,
        order_rate: options.order_rate,
        phase: Duration::from_secs(options.phase_s),
        units: options.units,
        calls: options.calls,
        latency: Duration::from_millis(options.latency_ms),
    };
    let measured = tokio::select! {
        measured = crate::bench::run(&options) => measured?,
        () = interrupted.wait() => return Err("interrupted".into()),
    };
    println!("{}", measured.text());
    Ok(measured.is_complete())
}

/// Measures how functions start, and tells it.
///
/// # Errors
/// When one is missing or does not start.
pub async fn bench_start(options: crate::args::BenchStart) -> Result<(), StartError> {
    let all = crate::bench::start::functions()?;
    let chosen = if options.functions.is_empty() { all } else { options.functions };
    println!("{}", crate::bench::start::run(&options.folder, &chosen, options.rounds).await?);
    Ok(())
}

/// Measures what an order costs, and tells it.
///
/// # Errors
/// When something could not be measured, or it was interrupted.
pub async fn cost(options: crate::args::Cost) -> Result<(), StartError> {
    let mut interrupted = Interrupted::listen()?;
    let told = tokio::select! {
        told = crate::cost::run(options.times, Duration::from_millis(options.latency_ms)) => told?,
        () = interrupted.wait() => return Err("interrupted".into()),
    };
    println!("{told}");
    Ok(())
}

async fn forget(stack: &Stack, settings: &Settings) -> Result<(), StartError> {
    for name in crate::sale::ACTIVITIES {
        stack.stores.forget_gate(&settings.activity(name)).await?;
    }
    Ok(())
}

fn print(report: &Report) -> Result<(), StartError> {
    println!("{}", text::render(report));
    let path = html::save(report)?;
    println!("  Report with charts: {}", path.display());
    Ok(())
}

fn settings(options: &Sale) -> Settings {
    // A Redis that was there before may know an activity of an earlier run.
    let suffix = options.common.redis_url.as_ref().map(|_| format!("-{}", jiff::Timestamp::now().as_second()));
    Settings {
        seed: options.seed,
        strategy: options.strategy.name().to_owned(),
        buckets: options.buckets,
        bucket_rate: options.bucket_rate,
        latency_ms: options.common.latency_ms,
        connections: usize::from(options.connections),
        suffix: suffix.unwrap_or_default(),
        directory: options.report.clone(),
    }
}

/// SIGINT and SIGTERM, from the moment on when this is made.
struct Interrupted {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Interrupted {
    fn listen() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
