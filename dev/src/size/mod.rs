//! Reconciliation at size: many activities and orders written straight into both stores, differences of
//! each kind planted among them, and the passes that have to find and repair exactly those. Passes run in
//! a process of their own, as the function does, so that its memory is its own.

mod pass;
mod seed;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use harness::{Backend, Options};
use holdfast::domain::repair::{Finding, GRACE_MS};
use serde::{Deserialize, Serialize};

pub use pass::{Done, run_pass};

use crate::stack::StartError;

/// Most runs of one pass: it has to get further with each.
const RUNS_MAX: u32 = 1_000;

/// How much of it.
#[derive(Clone, Debug)]
pub struct Size {
    pub activities: u16,
    pub orders: u32,
    pub buckets: u16,
    /// Time of one run; the next one goes on.
    pub run_time: Duration,
    /// This program, which runs the passes.
    pub program: PathBuf,
}

/// One pass, of one run or more.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Passed {
    pub runs: u32,
    pub seconds: f64,
    pub compared: u64,
    pub full_buckets: u32,
    /// Found and repaired, by kind.
    pub found: BTreeMap<Finding, (u64, u64)>,
    pub faults: u32,
    /// Most memory that a run's process had, in KB.
    pub peak_kb: u64,
    /// The longest that one bucket took.
    pub slowest_bucket_ms: u64,
}

/// What was measured.
#[derive(Clone, Debug)]
pub struct Measured {
    pub seed_s: f64,
    /// What was planted before the full pass, and after it.
    pub planted: BTreeMap<Finding, u64>,
    pub planted_later: BTreeMap<Finding, u64>,
    pub full: Passed,
    pub incremental: Passed,
    /// Everything compared again: nothing is left.
    pub check: Passed,
    /// The longest that Redis worked on one command, in microseconds, and which one.
    pub slowest: (u64, String),
}

impl Measured {
    /// Whether exactly what was planted was found, all of it was repaired, and nothing is left.
    #[must_use]
    pub fn holds(&self) -> bool {
        let exactly = |passed: &Passed, planted: &BTreeMap<Finding, u64>| {
            let all = planted.iter().map(|(kind, count)| (*kind, (*count, *count)));
            passed.found == all.collect()
        };
        exactly(&self.full, &self.planted)
            && exactly(&self.incremental, &self.planted_later)
            && self.incremental.full_buckets == 0
            && exactly(&self.check, &BTreeMap::new())
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let pass = |name: &str, passed: &Passed| {
            format!(
                "  {name:<12} {:>7.1} s in {} runs, {} compared, {} buckets wholly, the slowest in {} ms, peak memory {} MB\n    found {:?}, {} \
                 faults\n",
                passed.seconds,
                passed.runs,
                passed.compared,
                passed.full_buckets,
                passed.slowest_bucket_ms,
                passed.peak_kb / 1_024,
                passed.found,
                passed.faults
            )
        };
        format!(
            "Reconciliation at size\n  written in {:.1} s; planted {:?}, later {:?}\n{}{}{}  slowest command of Redis: \
             {} µs ({})\n  {}",
            self.seed_s,
            self.planted,
            self.planted_later,
            pass("full", &self.full),
            pass("incremental", &self.incremental),
            pass("full again", &self.check),
            self.slowest.0,
            self.slowest.1,
            if self.holds() { "Exactly what was planted was found and repaired." } else { "IT DOES NOT HOLD." }
        )
    }
}

/// Writes, plants, reconciles and measures.
///
/// # Errors
/// When a server does not start, or a pass does not end.
pub async fn run(size: &Size) -> Result<Measured, StartError> {
    let backend = Backend::start(Options::default()).await?;
    let client = redis::Client::open(backend.redis_config.urls[0].as_str())?;
    let mut redis = client.get_multiplexed_async_connection().await?;
    let began = Instant::now();
    let planted = seed::all(&backend, &mut redis, size).await?;
    let seed_s = began.elapsed().as_secs_f64();
    redis::pipe()
        .cmd("CONFIG")
        .arg("SET")
        .arg("slowlog-log-slower-than")
        .arg(1_000)
        .cmd("CONFIG")
        .arg("SET")
        .arg("slowlog-max-len")
        .arg(100_000)
        .cmd("SLOWLOG")
        .arg("RESET")
        .exec_async(&mut redis)
        .await?;
    let full = pass(&backend, size, Ahead(0), false).await?;
    let planted_later = seed::later(&backend, size).await?;
    let incremental = pass(&backend, size, Ahead(2 * GRACE_MS), false).await?;
    let slowest = slowest(&mut redis).await?;
    let check = pass(&backend, size, Ahead(2 * GRACE_MS), true).await?;
    Ok(Measured { seed_s, planted, planted_later, full, incremental, check, slowest })
}

/// Milliseconds that the pass's clock is ahead.
struct Ahead(i64);

async fn slowest(redis: &mut redis::aio::MultiplexedConnection) -> Result<(u64, String), StartError> {
    type Entry = (u64, u64, u64, Vec<String>, String, String);
    let entries: Vec<Entry> = redis::cmd("SLOWLOG").arg("GET").arg(-1).query_async(redis).await?;
    let slowest = entries.into_iter().map(|(_, _, us, words, ..)| (us, words)).max();
    Ok(slowest.map_or((0, "none over 1 ms".to_owned()), |(us, words)| {
        (us, words.into_iter().take(3).collect::<Vec<_>>().join(" ").chars().take(60).collect())
    }))
}

/// Runs until the pass is complete. `anew`: everything, as on demand.
async fn pass(backend: &Backend, size: &Size, ahead: Ahead, anew: bool) -> Result<Passed, StartError> {
    let mut passed = Passed::default();
    if anew {
        for index in 0..size.activities {
            merge(&mut passed, one_run(backend, size, &ahead, Some(seed::name(index))).await?);
        }
        return Ok(passed);
    }
    loop {
        let done = one_run(backend, size, &ahead, None).await?;
        // A call that failed, on a busy machine, leaves its bucket to the next run.
        let complete = done.complete && done.faults == 0;
        merge(&mut passed, done);
        if complete {
            return Ok(passed);
        }
        if passed.runs >= RUNS_MAX {
            return Err("the pass does not end".into());
        }
    }
}

fn merge(passed: &mut Passed, done: Done) {
    passed.runs += 1;
    passed.seconds += done.seconds;
    passed.compared += done.compared;
    passed.full_buckets += done.full_buckets;
    passed.faults += done.faults;
    passed.slowest_bucket_ms = passed.slowest_bucket_ms.max(done.slowest_bucket_ms);
    passed.peak_kb = passed.peak_kb.max(done.peak_kb);
    for (kind, (count, repaired)) in done.found {
        let found = passed.found.entry(kind).or_default();
        *found = (found.0 + count, found.1 + repaired);
    }
}

async fn one_run(backend: &Backend, size: &Size, ahead: &Ahead, only: Option<String>) -> Result<Done, StartError> {
    let mut command = tokio::process::Command::new(&size.program);
    command.arg("size-pass").args(["--dynamodb", backend.dynamodb.endpoint()]);
    command.args(["--redis", &backend.redis_config.urls[0]]).args(["--ahead-ms", &ahead.0.to_string()]);
    command.args(["--time-ms", &size.run_time.as_millis().to_string()]);
    if let Some(only) = only {
        command.args(["--only", &only]);
    }
    let ended = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).kill_on_drop(true).output().await?;
    Ok(serde_json::from_slice(&ended.stdout)?)
}
