//! Programs that end by themselves, within a time limit.

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use servers::Process;
use tempfile::NamedTempFile;
use tokio::time::Instant;

use crate::stack::StartError;

/// Pause between two looks at a program: small beside what any of them takes.
const LOOK_PAUSE: Duration = Duration::from_millis(10);
/// How much of a log an error shows, in characters.
const TAIL: usize = 3_000;

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// # Errors
    /// When the program says that it failed: what it printed.
    pub fn succeeded(self) -> Result<String, StartError> {
        if self.status.success() {
            return Ok(self.stdout);
        }
        Err(format!("{}: {}{}", self.status, tail(&self.stdout), tail(&self.stderr)).into())
    }
}

/// Runs a program to its end; all that it started is killed with it when it takes longer than `limit`, and when
/// this future is dropped.
///
/// # Errors
/// When it cannot be started or takes too long; the text has what it printed.
pub async fn run(mut command: std::process::Command, limit: Duration) -> Result<Ended, StartError> {
    let (stdout, stderr) = (NamedTempFile::new()?, NamedTempFile::new()?);
    command.stdin(Stdio::null()).stdout(stdout.reopen()?).stderr(stderr.reopen()?);
    let read = |file: &NamedTempFile| std::fs::read(file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let mut process = Process::spawn(&mut command, "KILL")?;
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = process.ended()? {
            return Ok(Ended { status, stdout: read(&stdout)?, stderr: read(&stderr)? });
        }
        if Instant::now() >= deadline {
            let program = command.get_program().to_string_lossy();
            return Err(format!("{program}: not within {} s: {}", limit.as_secs(), tail(&read(&stderr)?)).into());
        }
        tokio::time::sleep(LOOK_PAUSE).await;
    }
}

/// The end of a log.
#[must_use]
pub fn tail(log: &str) -> String {
    let skipped = log.chars().count().saturating_sub(TAIL);
    log.chars().skip(skipped).collect()
}
