//! How long a function takes from the start of its process until it asks for its first event, beside one that does
//! nothing; and how many instructions that is.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use servers::RuntimeApi;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::ratio::{Aim, Row, heading, median};
use crate::stack::StartError;

const EMPTY: &str = "empty-function";
const LIMIT: Duration = Duration::from_secs(20);
/// A process under valgrind is some fifty times slower.
const COUNTED_LIMIT: Duration = Duration::from_mins(2);
/// Half as long again as a function that does nothing.
const AIM: Aim = Aim::AtMost(1.5);
/// What Lambda unpacks before the start.
const MEGABYTES_MAX: f64 = 10.0;

/// Everything that a function may ask for; nothing of it is reached before the first event.
const ENVIRONMENT: [(&str, &str); 11] = [
    ("AWS_ENDPOINT_URL", "http://127.0.0.1:1"),
    ("HOLDFAST_TABLE", "orders"),
    ("HOLDFAST_AUDIT_TABLE", "audit"),
    ("HOLDFAST_REDIS_URL", "redis://127.0.0.1:1"),
    ("HOLDFAST_REDIS_CLUSTER", "true"),
    ("HOLDFAST_TOKEN_KEYS", "1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    ("HOLDFAST_WEBHOOK_SECRETS", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
    ("HOLDFAST_ROLL_BACK_QUEUE_URL", "http://127.0.0.1:1/0/roll-back"),
    ("HOLDFAST_FULFILMENT_QUEUE_URL", "http://127.0.0.1:1/0/fulfilment"),
    ("HOLDFAST_DEAD_LETTER_QUEUE_URL", "http://127.0.0.1:1/0/dead"),
    ("HOLDFAST_LOG", "warn"),
];

/// Measures each of these functions, whose binaries lie in this folder, in so many rounds; answers what to show.
///
/// # Errors
/// When one is missing or does not start.
pub async fn run(folder: &Path, functions: &[String], rounds: u32) -> Result<String, StartError> {
    // Copied, as Lambda unpacks them: how a linker leaves a file in the system's cache makes a difference of its own.
    let unpacked = tempfile::tempdir()?;
    let unpack = |name: &str| -> Result<PathBuf, StartError> {
        let (from, to) = (folder.join(name), unpacked.path().join(name));
        std::fs::copy(&from, &to).map_err(|error| named(&from, &error))?;
        Ok(to)
    };
    let empty = unpack(EMPTY)?;
    let mut lines =
        vec!["From the start of a process to the first event that it asks for, beside an empty function".to_owned()];
    lines.push(heading());
    let mut notes = Vec::new();
    let empty_instructions = instructions(&empty).await?;
    for name in functions {
        let binary = unpack(name)?;
        let (mut ratios, mut took, mut took_empty) = (Vec::new(), Vec::new(), Vec::new());
        // The first pair reads the files from the disk.
        for round in 0..=rounds {
            let (nothing, function) = (started_ms(&empty).await?, started_ms(&binary).await?);
            if round > 0 {
                ratios.push(function / nothing);
                took.push(function);
                took_empty.push(nothing);
            }
        }
        lines.push(Row::new(name, ratios, AIM)?.line());
        let megabytes = crate::cost::gigabytes(std::fs::metadata(&binary)?.len()) * 1_000.0;
        let counted = instructions(&binary).await?;
        notes.push(format!(
            "  {name:<18} {:>5.1} ms beside {:>5.1} ms; {:>5.1} million instructions beside {:>5.1} ({:.2}); {:.2} MB{}",
            median(&took).unwrap_or(f64::NAN),
            median(&took_empty).unwrap_or(f64::NAN),
            counted / 1e6,
            empty_instructions / 1e6,
            counted / empty_instructions,
            megabytes,
            if megabytes > MEGABYTES_MAX { ", MORE THAN 10" } else { "" },
        ));
    }
    lines.extend(notes);
    Ok(lines.join("\n"))
}

fn spawn(command: &mut Command, api: &RuntimeApi) -> Result<Child, StartError> {
    let command = command.env_clear().envs(api.environment()).envs(ENVIRONMENT);
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true).spawn()?)
}

/// Milliseconds from the start of the process until it asks.
async fn started_ms(binary: &Path) -> Result<f64, StartError> {
    let api = RuntimeApi::start().await?;
    let began = Instant::now();
    let mut child = spawn(Command::new(binary).stderr(Stdio::null()), &api).map_err(|error| named(binary, &*error))?;
    let asked = timeout(LIMIT, api.first_asked()).await.map_err(|_| named(binary, "it never asked for an event"))?;
    child.kill().await?;
    Ok(asked.duration_since(began).as_secs_f64() * 1_000.0)
}

/// Instructions until it asks, as valgrind counts them; and those of ending because nobody answers any more.
async fn instructions(binary: &Path) -> Result<f64, StartError> {
    let api = RuntimeApi::start().await?;
    let mut valgrind = Command::new("/usr/bin/valgrind");
    valgrind.args(["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]).arg(binary);
    let child = spawn(valgrind.stderr(Stdio::piped()), &api).map_err(|error| named(binary, &*error))?;
    timeout(COUNTED_LIMIT, api.first_asked()).await.map_err(|_| named(binary, "it never asked under valgrind"))?;
    api.end();
    let output =
        timeout(COUNTED_LIMIT, child.wait_with_output()).await.map_err(|_| named(binary, "it does not end"))??;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let line = told.lines().find_map(|line| line.split("refs:").nth(1));
    let count = line.and_then(|digits| digits.trim().replace(',', "").parse().ok());
    count.ok_or_else(|| named(binary, &told))
}

fn named(binary: &Path, what: impl std::fmt::Display) -> StartError {
    format!("{}: {what}", binary.display()).into()
}

/// Every function of the workspace, by the names of its folder.
///
/// # Errors
/// When there is no such folder here.
pub fn functions() -> Result<Vec<String>, StartError> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../functions");
    let names = std::fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_, std::io::Error>>()?;
    names.sort();
    Ok(names)
}
