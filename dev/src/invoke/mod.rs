//! The functions as they were built, with every file of `events/`: in containers by `sam local invoke`, or under
//! SAM's emulator alone. Each file has local servers of its own in the state that the files assume.

pub mod built;
pub mod engine;
pub mod forks;
pub mod program;
pub mod rie;
pub mod sam;
pub mod site;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use futures_util::{FutureExt, StreamExt, stream};
use harness::Backend;
use harness::answers;
use harness::contract::Contract;
use harness::events::{self, Case};
use holdfast::ports::{Clock as _, SystemClock};
use serde_json::Value;

use self::built::{Built, File, Function};
use self::program::tail;
use crate::stack::StartError;

/// Functions that run at a time, each with its servers: a container may take 512 MB.
const AT_ONCE: usize = 3;
/// Answers that are not as expected after which no more files are run, and up to which the logs are shown.
const FAILED_MAX: usize = 20;
const SHOWN_MAX: usize = 3;
/// After how many files it is told how far the run is.
const TOLD_EVERY: usize = 50;
/// How long all files may take.
const RUN_LIMIT: Duration = Duration::from_mins(20);

/// How a function is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// `sam local invoke`, in a container.
    Docker,
    /// SAM's emulator of the runtime interface, without a container.
    Rie,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    pub how: How,
    /// A virtual environment with SAM.
    pub tools: PathBuf,
    /// Where `sam build` put the functions.
    pub built: PathBuf,
    /// This function with this event alone, and its answer shown.
    pub only: Option<(String, PathBuf)>,
}

/// What a function answered, and what it printed meanwhile.
#[derive(Debug)]
pub struct Answer {
    pub value: Value,
    pub log: String,
}

enum Runner {
    Docker(Box<sam::Sam>),
    Rie(rie::Rie),
}

impl Runner {
    async fn call(&self, function: &Function, event: &Value, backend: &Backend) -> Result<Answer, StartError> {
        match self {
            Self::Docker(sam) => sam.call(function, event, backend).await,
            Self::Rie(rie) => rie.call(function, event, backend).await,
        }
    }
}

/// One file's end: `Err` is why it is not as expected.
struct Outcome {
    function: usize,
    file: String,
    held: Result<(), String>,
    took: Duration,
}

/// Runs what was asked for until it is done or `interrupted` is; answers whether every answer was as expected. What
/// it started is gone then, however it ended.
///
/// # Errors
/// When nothing is built, files and functions do not belong together, the engine does not start, or what it
/// left behind cannot be removed.
pub async fn run(options: &Options, interrupted: impl Future<Output = ()>) -> Result<bool, StartError> {
    let built = Built::read(&options.built)?;
    let runner = match options.how {
        How::Docker => Runner::Docker(Box::new(sam::Sam::ready(&options.tools, &built).await?)),
        How::Rie => Runner::Rie(rie::Rie::ready(&options.tools)?),
    };
    let work = async {
        match &options.only {
            Some((function, event)) => one(&runner, built.function(function)?, event).await,
            None => all(&runner, &built).await,
        }
    };
    // A panic is a broken fixture or server; the containers are to go all the same.
    let worked = tokio::select! {
        worked = AssertUnwindSafe(work).catch_unwind() => worked.unwrap_or_else(|_| Err("a panic, told above".into())),
        () = interrupted => Err("interrupted".into()),
        () = tokio::time::sleep(RUN_LIMIT) => Err(format!("not within {} s", RUN_LIMIT.as_secs()).into()),
    };
    let ended = match runner {
        Runner::Docker(sam) => sam.end(&built).await,
        Runner::Rie(_) => Ok(()),
    };
    let held = worked?;
    ended.map(|()| held)
}

async fn all(runner: &Runner, built: &Built) -> Result<bool, StartError> {
    let began = Instant::now();
    let files = built.files()?;
    let contract = Contract::load();
    let runs = built.measure()?;
    println!("{} files of {} functions", files.len(), built.functions.len());
    // The first alone: SAM adds its emulator to the image then.
    let (first, rest) = files.split_at(1);
    let calls = |files| stream::iter(files).map(|file: &File| file_outcome(runner, built, &contract, file));
    let mut outcomes = stream::iter([
        calls(first).buffer_unordered(1).left_stream(),
        calls(rest).buffer_unordered(AT_ONCE).right_stream(),
    ])
    .flatten();
    let mut done = Vec::with_capacity(files.len());
    let mut failed = 0;
    while let Some(outcome) = outcomes.next().await {
        if let Err(why) = &outcome.held {
            failed += 1;
            let shown = if failed <= SHOWN_MAX { why } else { why.lines().next().unwrap_or_default() };
            println!("FAILED {}: {shown}", outcome.file);
        }
        done.push(outcome);
        if done.len().is_multiple_of(TOLD_EVERY) {
            println!("{} of {} after {} s", done.len(), files.len(), began.elapsed().as_secs());
        }
        if failed >= FAILED_MAX {
            println!("{failed} have failed: no more are run");
            break;
        }
    }
    drop(outcomes);
    Ok(summarize(built, files.len(), &done, began.elapsed()) && runs)
}

async fn file_outcome(runner: &Runner, built: &Built, contract: &Contract, file: &File) -> Outcome {
    let function = &built.functions[file.function];
    let began = Instant::now();
    let backend = events::demo().await;
    // At the last moment: a signature grows old.
    let event = file.case.filled_in(SystemClock.now());
    let held = match runner.call(function, &event, &backend).await {
        Ok(answer) => answers::check(contract, &file.case, &backend, &answer.value)
            .await
            .map_err(|why| format!("{why}\n{}", tail(&answer.log))),
        Err(error) => Err(error.to_string()),
    };
    let name = format!("events/{}/{}.json", function.folder, file.case.name);
    Outcome { function: file.function, file: name, held, took: began.elapsed() }
}

/// Prints what was run; answers whether that was every file, and all were answered as expected.
fn summarize(built: &Built, files: usize, done: &[Outcome], took: Duration) -> bool {
    println!("{:<16} {:>6} {:>12} {:>9}", "function", "files", "as expected", "each");
    for (index, function) in built.functions.iter().enumerate() {
        let own: Vec<&Outcome> = done.iter().filter(|outcome| outcome.function == index).collect();
        let held = own.iter().filter(|outcome| outcome.held.is_ok()).count();
        let each =
            own.iter().map(|outcome| outcome.took).sum::<Duration>() / u32::try_from(own.len().max(1)).unwrap_or(1);
        println!("{:<16} {:>6} {held:>12} {:>6} ms", function.name, own.len(), each.as_millis());
    }
    let held = done.iter().filter(|outcome| outcome.held.is_ok()).count();
    println!("{held} of {files} files were answered as expected, {} were run, in {} s", done.len(), took.as_secs());
    held == files && done.len() == files
}

/// One event, wherever its file is; what it must be answered with is looked for beside it.
async fn one(runner: &Runner, function: &Function, event: &Path) -> Result<bool, StartError> {
    let read = |path: &Path| -> Result<Value, StartError> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()).into())
    };
    let beside = event.with_extension("expected.json");
    let expected = if beside.exists() { Some(read(&beside)?) } else { None };
    let case =
        Case { name: event.display().to_string(), event: read(event)?, expected: expected.clone().unwrap_or_default() };
    let backend = events::demo().await;
    let answer = runner.call(function, &case.filled_in(SystemClock.now()), &backend).await?;
    println!("{}", tail(&answer.log));
    println!("{:#}", answer.value);
    if expected.is_none() {
        println!("{} is not there, so nothing is expected", beside.display());
        return Ok(true);
    }
    match answers::check(&Contract::load(), &case, &backend, &answer.value).await {
        Ok(()) => println!("as {} expects", beside.display()),
        Err(why) => {
            println!("FAILED: {why}");
            return Ok(false);
        }
    }
    Ok(true)
}

/// This machine's, as SAM and Lambda name it.
fn architecture() -> Result<&'static str, StartError> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("x86_64"),
        "aarch64" => Ok("arm64"),
        other => Err(format!("Lambda has no {other}").into()),
    }
}
