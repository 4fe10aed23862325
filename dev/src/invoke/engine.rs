//! The Docker engine: the one that runs, or one of this run's own, which leaves nothing behind.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use servers::Process;
use tempfile::TempDir;
use tokio::time::Instant;

use super::built::Built;
use super::program::{self, tail};
use crate::stack::StartError;

/// How long the engine may take until it answers, and until it is gone.
const START_LIMIT: Duration = Duration::from_mins(1);
const STOP_LIMIT: Duration = Duration::from_secs(30);
/// How long one command may take; the base image's is longer, because it downloads.
const COMMAND_LIMIT: Duration = Duration::from_secs(30);
const IMAGE_LIMIT: Duration = Duration::from_mins(5);
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// This machine, as a container on the engine's first bridge sees it, when the engine does not tell.
const HOST: Ipv4Addr = Ipv4Addr::new(172, 17, 0, 1);
/// The bridge that an engine makes, as the system tells of it.
const BRIDGE: &str = "/sys/class/net/docker0";

/// A running engine.
pub struct Engine {
    /// For `DOCKER_HOST`; `None` for the one that was there.
    pub host: Option<String>,
    own: Option<Own>,
    /// The base image that was made here.
    imported: Option<String>,
}

struct Own {
    process: Process,
    directory: TempDir,
    /// Whether the bridge was made by it.
    made_bridge: bool,
}

impl Engine {
    /// The engine that answers, or one that is started for this run.
    ///
    /// # Errors
    /// When none runs and none can be started.
    pub async fn ready() -> Result<Self, StartError> {
        let engine = Self { host: None, own: None, imported: None };
        match engine.docker(&["version", "--format", "{{.Server.Version}}"]).await {
            Ok(version) => {
                println!("Docker engine {}: it ran already", version.trim());
                Ok(engine)
            }
            Err(error) if std::env::var_os("DOCKER_HOST").is_some() => {
                Err(format!("the Docker engine of DOCKER_HOST does not answer: {error}").into())
            }
            Err(_) => Self::start().await,
        }
    }

    async fn start() -> Result<Self, StartError> {
        let directory = TempDir::with_prefix("holdfast-engine-")?;
        let at = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
        let (log, host) = (at("dockerd.log"), format!("unix://{}", at("docker.sock")));
        let made_bridge = !Path::new(BRIDGE).exists();
        let mut command = Command::new("dockerd");
        command.args(["--host", &host, "--data-root", &at("data"), "--exec-root", &at("exec")]);
        // Containers reach this machine and nothing beyond it, so the firewall is left as it is.
        command.args(["--pidfile", &at("pid"), "--iptables=false", "--ip-forward=false", "--ip-masq=false"]);
        let output = File::create(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        // Told gently when this process is killed: it then takes its containers with it.
        let process = Process::spawn(&mut command, "TERM")
            .map_err(|error| format!("no Docker engine runs, and none can be started: {error}"))?;
        let own = Own { process, directory, made_bridge };
        let mut engine = Self { host: Some(host), own: Some(own), imported: None };
        let deadline = Instant::now() + START_LIMIT;
        while engine.docker(&["version"]).await.is_err() {
            let ended = engine.own.as_mut().map(|own| own.process.ended()).transpose()?.flatten();
            if ended.is_some() || Instant::now() >= deadline {
                let log = std::fs::read_to_string(&log).unwrap_or_default();
                engine.end_own().await?;
                return Err(
                    format!("the Docker engine does not start (only root can start one): {}", tail(&log)).into()
                );
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        println!("Docker engine: none ran, started for this run");
        Ok(engine)
    }

    /// The base image of functions, made here if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub async fn base_image(&mut self, architecture: &str) -> Result<(), StartError> {
        let image = format!("public.ecr.aws/lambda/provided:al2023-{architecture}");
        if self.docker(&["image", "inspect", &image]).await.is_ok() {
            println!("{image}: it was there already");
            return Ok(());
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("invoke/base-image.sh");
        let work = TempDir::with_prefix("holdfast-image-")?;
        let mut command = self.command(&script.to_string_lossy());
        command.arg(&image).arg(work.path());
        program::run(command, IMAGE_LIMIT).await?.succeeded().map_err(|error| format!("{image}: {error}"))?;
        println!("{image}: made from this Debian's packages, which Amazon Linux is not");
        self.imported = Some(image);
        Ok(())
    }

    /// This machine as a container sees it.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub async fn gateway(&self) -> Result<IpAddr, StartError> {
        let format = "{{range .IPAM.Config}}{{.Gateway}} {{end}}";
        let gateways = self.docker(&["network", "inspect", "bridge", "--format", format]).await?;
        let first = gateways.split_whitespace().find_map(|text| text.parse::<Ipv4Addr>().ok());
        Ok(first.unwrap_or(HOST).into())
    }

    /// Removes what this run left: the containers of these functions, the image that it made, the engine that it
    /// started.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub async fn end(mut self, built: &Built) -> Result<(), StartError> {
        let containers = self.remove_containers(built).await;
        let image = match self.imported.take() {
            // What SAM made of it would be used in place of AWS's otherwise.
            Some(image) if self.own.is_none() => {
                let with_emulator = image.replace("al2023-", "al2023-rapid-");
                // It is there only if a function got as far.
                let _ = self.docker(&["image", "rm", "--force", &with_emulator]).await;
                self.docker(&["image", "rm", "--force", &image]).await.map(drop)
            }
            _ => Ok(()),
        };
        self.end_own().await?;
        containers.and(image)
    }

    /// Those that run these very programs. SAM removes its containers itself unless it is killed.
    async fn remove_containers(&self, built: &Built) -> Result<(), StartError> {
        let mut ids = Vec::new();
        for function in &built.functions {
            let volume = format!("volume={}", built.folder.join(&function.name).display());
            let found = self.docker(&["ps", "--all", "--quiet", "--filter", &volume]).await?;
            ids.extend(found.split_whitespace().map(str::to_owned));
        }
        for id in &ids {
            println!("container {id} was left: removed");
            self.docker(&["rm", "--force", id]).await?;
        }
        Ok(())
    }

    async fn end_own(&mut self) -> Result<(), StartError> {
        let Some(mut own) = self.own.take() else { return Ok(()) };
        // It fails for one that is gone already.
        let _ = own.process.signal("TERM");
        let deadline = Instant::now() + STOP_LIMIT;
        while own.process.ended()?.is_none() {
            if Instant::now() >= deadline {
                println!("the Docker engine does not end by itself: killed");
                break;
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
        drop(own.process);
        if own.made_bridge && Path::new(BRIDGE).exists() {
            let mut command = Command::new("ip");
            command.args(["link", "delete", "docker0"]);
            program::run(command, COMMAND_LIMIT).await?.succeeded()?;
        }
        Ok(own.directory.close()?)
    }

    async fn docker(&self, arguments: &[&str]) -> Result<String, StartError> {
        let mut command = self.command("docker");
        command.args(arguments);
        program::run(command, COMMAND_LIMIT).await?.succeeded()
    }

    /// A command that talks to this engine.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        if let Some(host) = &self.host {
            command.env("DOCKER_HOST", host);
        }
        command
    }
}
