//! A function in a container, by `sam local invoke`.

use std::net::IpAddr;
use std::path::Path;
use std::time::Duration;

use harness::Backend;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::Answer;
use super::built::{Built, Function};
use super::engine::Engine;
use super::forks::Forks;
use super::program::tail;
use super::site::{REGION, Site, variables};
use crate::stack::StartError;

/// How long one `sam local invoke` may take; the first adds the emulator to the image.
const INVOKE_LIMIT: Duration = Duration::from_mins(2);

/// SAM, an engine for it, and this machine as a container reaches it.
pub struct Sam {
    engine: Engine,
    host: IpAddr,
    forks: Forks,
    /// That of `sam build`, beside the functions.
    template: String,
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
        match Self::prepare(&mut engine, tools, architecture).await {
            Ok((host, forks)) => {
                let template = built.folder.join("template.yaml").display().to_string();
                Ok(Self { engine, host, forks, template, architecture })
            }
            Err(error) => {
                engine.end(built).await?;
                Err(error)
            }
        }
    }

    async fn prepare(engine: &mut Engine, tools: &Path, architecture: &str) -> Result<(IpAddr, Forks), StartError> {
        engine.base_image(architecture).await?;
        let python = std::path::absolute(tools)?.join("bin/python");
        let mut command = engine.command(&python.to_string_lossy());
        command.env("SAM_CLI_TELEMETRY", "0").env("AWS_DEFAULT_REGION", REGION).env_remove("AWS_REGION");
        // SAM hands the caller's keys to the function, and asks AWS whose they are: it is to find none.
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"] {
            command.env_remove(name);
        }
        for name in ["AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"] {
            command.env(name, "/dev/null");
        }
        command.env("AWS_EC2_METADATA_DISABLED", "true");
        Ok((engine.gateway().await?, Forks::start(command).await?))
    }

    /// Calls a function with an event, in a container of its own.
    ///
    /// # Errors
    /// When SAM fails, or the function answers something that is not JSON.
    pub async fn call(&self, function: &Function, event: &Value, backend: &Backend) -> Result<Answer, StartError> {
        let site = Site::at(self.host, backend).await?;
        let work = TempDir::with_prefix("holdfast-invoke-")?;
        let write = |name: &str, value: &Value| {
            let path = work.path().join(name);
            std::fs::write(&path, value.to_string()).map(|()| path.display().to_string())
        };
        let event = write("event.json", event)?;
        let variables = write("variables.json", &json!({"Parameters": variables(backend, &site.endpoints)}))?;
        let mut arguments: Vec<String> =
            ["local", "invoke", &function.name, "--skip-pull-image"].map(str::to_owned).into();
        arguments.extend(
            ["--template-file", &self.template, "--event", &event, "--env-vars", &variables].map(str::to_owned),
        );
        // As many as follow. Those that make the template declare what `--env-vars` then sets.
        arguments.extend(["--parameter-overrides".to_owned(), format!("Architecture={}", self.architecture)]);
        let overridden = ["DynamoDbEndpoint", "SqsEndpoint", "RedisUrl"].iter().zip(site.endpoints.all());
        arguments.extend(overridden.map(|(name, value)| format!("{name}={value}")));
        let printed = self.forks.call(&arguments, work.path(), INVOKE_LIMIT).await?;
        match serde_json::from_str(&printed.stdout) {
            Ok(value) => Ok(Answer { value, log: printed.stderr }),
            Err(error) => Err(format!("no answer ({error}): {}{}", printed.stdout, tail(&printed.stderr)).into()),
        }
    }

    /// Removes what this run left behind in the engine, and the engine if it is this run's.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub async fn end(self, built: &Built) -> Result<(), StartError> {
        // First: it would go on with what it is at.
        drop(self.forks);
        self.engine.end(built).await
    }
}
