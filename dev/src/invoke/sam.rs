//! A function in a container, by `sam local invoke`.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use harness::Backend;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Answer;
use super::built::{Built, Function};
use super::engine::Engine;
use super::program::{self, tail};
use super::site::{REGION, Site, variables};
use crate::stack::StartError;

/// How long one `sam local invoke` may take: a second or two of it is Python, and the first adds the emulator to the
/// image.
const INVOKE_LIMIT: Duration = Duration::from_mins(2);

/// SAM, an engine for it, and how a container reaches this machine.
pub struct Sam {
    engine: Engine,
    host: IpAddr,
    tools: PathBuf,
    /// That of `sam build`, beside the functions.
    template: PathBuf,
    architecture: &'static str,
}

impl Sam {
    /// `tools` is a virtual environment with SAM.
    ///
    /// # Errors
    /// When no engine can be had, or no base image.
    pub async fn ready(tools: &Path, built: &Built) -> Result<Self, StartError> {
        let mut engine = Engine::ready().await?;
        let architecture = super::architecture()?;
        let prepared = match engine.base_image(architecture).await {
            Ok(()) => engine.gateway().await,
            Err(error) => Err(error),
        };
        match prepared {
            Ok(host) => {
                let template = built.folder.join("template.yaml");
                Ok(Self { engine, host, tools: std::path::absolute(tools)?, template, architecture })
            }
            Err(error) => {
                engine.end(built).await?;
                Err(error)
            }
        }
    }

    /// Calls a function with an event, in a container of its own.
    ///
    /// # Errors
    /// When SAM fails, or the function answers something that is not JSON.
    pub async fn call(&self, function: &Function, event: &Value, backend: &Backend) -> Result<Answer, StartError> {
        let site = Site::at(self.host, backend).await?;
        let directory = TempDir::with_prefix("holdfast-invoke-")?;
        let write = |name: &str, value: &Value| {
            let path = directory.path().join(name);
            std::fs::write(&path, value.to_string()).map(|()| path)
        };
        let variables = write("variables.json", &json!({"Parameters": variables(backend, &site.endpoints)}))?;
        let mut command = self.command(function, &site);
        command.arg("--event").arg(write("event.json", event)?).arg("--env-vars").arg(variables);
        let ended = program::run(command, INVOKE_LIMIT).await?;
        let log = ended.stderr.clone();
        let text = ended.succeeded()?;
        match serde_json::from_str(&text) {
            Ok(value) => Ok(Answer { value, log }),
            Err(error) => Err(format!("no answer ({error}): {text}{}", tail(&log)).into()),
        }
    }

    fn command(&self, function: &Function, site: &Site) -> Command {
        let bin = self.tools.join("bin");
        let mut command = self.engine.command(&bin.join("sam").to_string_lossy());
        command.args(["local", "invoke", &function.name, "--skip-pull-image", "--template-file"]).arg(&self.template);
        // As many as follow, up to the next option. Those that make the template declare what `--env-vars` then sets.
        command.args(["--parameter-overrides", &format!("Architecture={}", self.architecture)]);
        command.args(
            ["DynamoDbEndpoint", "SqsEndpoint", "RedisUrl"]
                .iter()
                .zip(site.endpoints.all())
                .map(|(name, value)| format!("{name}={value}")),
        );
        command.env("SAM_CLI_TELEMETRY", "0").env("AWS_DEFAULT_REGION", REGION).env_remove("AWS_REGION");
        // SAM hands the caller's keys to the function, and asks AWS whose they are: it is to find none.
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"] {
            command.env_remove(name);
        }
        for name in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"] {
            command.env(name, "/dev/null");
        }
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        command
    }

    /// Removes what this run left behind in the engine, and the engine if it is this run's.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub async fn end(self, built: &Built) -> Result<(), StartError> {
        self.engine.end(built).await
    }
}
