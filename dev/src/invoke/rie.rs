//! A function as a process of this machine, under the emulator of Lambda's runtime interface that comes with SAM.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use harness::Backend;
use hyper::Method;
use serde_json::Value;
use servers::{Process, free_port};
use tempfile::NamedTempFile;
use tokio::net::TcpStream;

use super::Answer;
use super::built::Function;
use super::program::tail;
use super::site::{Endpoints, REGION, variables};
use crate::sale::client::{Call, Client};
use crate::stack::StartError;

/// Where the emulator takes events.
const PATH: &str = "/2015-03-31/functions/function/invocations";
/// How long it may take until it listens, and until it is gone with its function.
const START_LIMIT: Duration = Duration::from_secs(20);
const STOP_LIMIT: Duration = Duration::from_secs(3);
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// How long a function may work, in seconds: the longest of the template.
const FUNCTION_LIMIT_S: &str = "300";
/// How often another process may have taken a port first.
const ATTEMPTS: usize = 5;
/// Runs the rest of its arguments with 8 GB of addresses each, of which the emulator reserves one: a function
/// that runs away ends.
const BOUNDED: &str = r#"ulimit -v 8388608 && exec "$0" "$@""#;

/// One running emulator with its function.
struct Emulator {
    process: Process,
    address: SocketAddr,
}

impl Drop for Emulator {
    /// Gently first: the function has a process group of its own, which only the emulator kills, however busy it is.
    fn drop(&mut self) {
        // It fails for one that is gone already.
        let _ = self.process.signal("TERM");
        let deadline = Instant::now() + STOP_LIMIT;
        while matches!(self.process.ended(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(LOOK_PAUSE);
        }
    }
}

/// The emulator.
pub struct Rie {
    program: PathBuf,
}

impl Rie {
    /// `tools` is a virtual environment with SAM.
    ///
    /// # Errors
    /// When the emulator is not in it.
    pub fn ready(tools: &Path) -> Result<Self, StartError> {
        let name = format!("aws-lambda-rie-{}", super::architecture()?);
        for python in std::fs::read_dir(tools.join("lib"))? {
            let program = python?.path().join("site-packages/samcli/local/rapid").join(&name);
            if program.is_file() {
                return Ok(Self { program: std::path::absolute(program)? });
            }
        }
        Err(format!("{name} is not in {}", tools.display()).into())
    }

    /// Calls a function with an event, in a process of its own.
    ///
    /// # Errors
    /// When it does not start or does not answer; the text has what it printed.
    pub async fn call(&self, function: &Function, event: &Value, backend: &Backend) -> Result<Answer, StartError> {
        let log = NamedTempFile::new()?;
        let read_log = || std::fs::read_to_string(&log).unwrap_or_default();
        for _ in 0..ATTEMPTS {
            let Some(emulator) = self.start(function, backend, &log).await? else { continue };
            let call = Call { method: Method::POST, body: Some(event.to_string()), ..Call::get(PATH.to_owned(), None) };
            return match Client::new(emulator.address, 1).call(&call).await {
                Ok(reply) => Ok(Answer { value: reply.body, log: read_log() }),
                Err(_) => Err(format!("no answer: {}", tail(&read_log())).into()),
            };
        }
        Err(format!("the emulator does not start: {}", tail(&read_log())).into())
    }

    /// `None` when it ended by itself, as it does when a port was taken meanwhile.
    async fn start(
        &self,
        function: &Function,
        backend: &Backend,
        log: &NamedTempFile,
    ) -> Result<Option<Emulator>, StartError> {
        let local = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let (address, runtime) = (local(free_port()?), local(free_port()?));
        let mut command = Command::new("sh");
        command.args(["-c", BOUNDED]).arg(&self.program);
        command.args(["--runtime-interface-emulator-address", &address.to_string()]);
        command.args(["--runtime-api-address", &runtime.to_string()]).arg(&function.program);
        // As on AWS: nothing of this machine's environment.
        command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("AWS_REGION", REGION);
        command.env("AWS_ACCESS_KEY_ID", "local").env("AWS_SECRET_ACCESS_KEY", "local");
        command.env("AWS_LAMBDA_FUNCTION_NAME", &function.name).env("AWS_LAMBDA_FUNCTION_TIMEOUT", FUNCTION_LIMIT_S);
        command.envs(variables(backend, &Endpoints::here(backend)));
        let output: File = log.reopen()?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let mut emulator = Emulator { process: Process::spawn(&mut command, "TERM")?, address };
        let deadline = Instant::now() + START_LIMIT;
        loop {
            if emulator.process.ended()?.is_some() {
                return Ok(None);
            }
            if TcpStream::connect(address).await.is_ok() {
                return Ok(Some(emulator));
            }
            if Instant::now() >= deadline {
                return Err(format!("the emulator does not listen within {} s", START_LIMIT.as_secs()).into());
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }
}
