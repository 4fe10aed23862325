//! SAM, imported once: `dev/invoke/sam-forks.py`, and calls of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;
use servers::Process;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout};

use super::program::tail;
use crate::stack::StartError;

/// How long SAM may take until it is imported.
const START_LIMIT: Duration = Duration::from_mins(1);
const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// How much longer than a call may take its end is waited for: it ends by itself.
const GRACE: Duration = Duration::from_secs(10);

/// The process that has SAM in it. It is killed with its forks when this is dropped.
pub struct Forks {
    _process: Process,
    directory: TempDir,
}

/// What one call printed.
#[derive(Debug)]
pub struct Printed {
    pub stdout: String,
    pub stderr: String,
}

impl Forks {
    /// Calls are taken when it returns. `command` has the environment that SAM is to have; `python` is the one that
    /// SAM is installed for.
    ///
    /// # Errors
    /// When it does not start; the text has what it printed.
    pub async fn start(mut command: Command) -> Result<Self, StartError> {
        let directory = TempDir::with_prefix("holdfast-sam-")?;
        let log = directory.path().join("log");
        let output = std::fs::File::create(&log)?;
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("invoke/sam-forks.py");
        command.arg("-B").arg(script).arg(socket(directory.path()));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut process = Process::spawn(&mut command, "KILL")?;
        let deadline = Instant::now() + START_LIMIT;
        while UnixStream::connect(socket(directory.path())).await.is_err() {
            if process.ended()?.is_some() || Instant::now() >= deadline {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("SAM does not start: {}", tail(&log)).into());
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        Ok(Self { _process: process, directory })
    }

    /// Runs SAM with these arguments; `work` is an empty folder.
    ///
    /// # Errors
    /// When it fails or takes longer than `limit`, at which it is killed; the text has what it printed.
    pub async fn call(&self, arguments: &[String], work: &Path, limit: Duration) -> Result<Printed, StartError> {
        let (stdout, stderr) = (work.join("stdout"), work.join("stderr"));
        let call = json!({ "arguments": arguments, "stdout": stdout, "stderr": stderr, "limit_s": limit.as_secs() });
        let asked = async {
            let mut stream = UnixStream::connect(socket(self.directory.path())).await?;
            stream.write_all(format!("{call}\n").as_bytes()).await?;
            let mut status = String::new();
            BufReader::new(stream).read_line(&mut status).await?;
            Ok::<_, std::io::Error>(status)
        };
        let status = timeout(limit + GRACE, asked).await.map_err(|_| "SAM does not end")??;
        let read = |path: &PathBuf| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let printed = Printed { stdout: read(&stdout).unwrap_or_default(), stderr: read(&stderr).unwrap_or_default() };
        match status.trim() {
            "0" => Ok(printed),
            "" => Err(format!("sam: not within {} s: {}", limit.as_secs(), tail(&printed.stderr)).into()),
            status => Err(format!("sam: exit status {status}: {}", tail(&printed.stderr)).into()),
        }
    }
}

fn socket(directory: &Path) -> PathBuf {
    directory.join("socket")
}
