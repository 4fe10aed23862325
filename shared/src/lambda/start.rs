//! Starting a function: telemetry, configuration with its secrets, clients.

use aws_config::SdkConfig;
use futures_util::future::join_all;

use crate::{
    adapters::{
        aws::{self, LazyClient},
        dynamodb::Database,
        redis::Gate,
        secrets_manager::SecretsManager,
        sqs::Queues,
    },
    config::{ConfigError, QueueConfig, Reader},
    lambda::{
        Wiring,
        telemetry::{Telemetry, start_log},
    },
};

/// What a function needs beside the tables.
#[derive(Clone, Copy, Debug, Default)]
pub struct Needs {
    pub gate: bool,
    /// Sends to the roll-back queue.
    pub roll_back_queue: bool,
    /// Sends to the fulfilment queue and to the relay's dead letters.
    pub relay_queues: bool,
}

/// A function that starts: its configuration can be read, and nothing is connected yet.
pub struct Start {
    pub reader: Reader,
    sdk: SdkConfig,
}

impl Start {
    /// From the environment. Logs are written from here on.
    pub async fn begin() -> Self {
        let mut reader = Reader::environment();
        start_log(&reader.log_filter());
        let trust = if reader.trusts_system() { aws::Trust::System } else { aws::Trust::Amazon };
        Self::with(reader, aws::sdk_config(trust).await).await
    }

    /// From these settings. Secrets that they name by reference are fetched, all at once; what fails stays in the
    /// reader, so that it is told with everything else.
    pub async fn with(mut reader: Reader, sdk: SdkConfig) -> Self {
        let references = reader.references();
        if !references.is_empty() {
            let secrets = SecretsManager::new(&sdk);
            let fetched = join_all(references.iter().map(|(_, id)| secrets.text(id))).await;
            for ((name, _), fetched) in references.into_iter().zip(fetched) {
                reader.resolve(name, fetched);
            }
        }
        Self { reader, sdk }
    }

    /// Reads what is left and makes the clients. Redis is connected by its first call, so that a function starts
    /// without it.
    ///
    /// # Errors
    /// Everything that is wrong with the configuration.
    pub fn connect(mut self, needs: Needs) -> Result<(Wiring, Telemetry), ConfigError> {
        let reader = &mut self.reader;
        let tables = reader.tables();
        let redis = if needs.gate { reader.redis() } else { None };
        let queues = match needs {
            Needs { relay_queues: true, .. } => reader.relay_queues(),
            Needs { roll_back_queue: true, .. } => reader.roll_back_queue(),
            Needs { .. } => QueueConfig::default(),
        };
        let (degraded_rate, backlog_max) = (reader.degraded_rate(), reader.backlog_max());
        let metrics = reader.metrics();
        self.reader.finish()?;
        let sdk = self.sdk.clone();
        // Every function needs the database soon: its client is made while the first event is asked for. Few ever
        // send a message.
        let database = Database::new(LazyClient::new(move || aws_sdk_dynamodb::Client::new(&sdk)).prepare(), tables);
        let queues = Queues::new(LazyClient::new(move || aws_sdk_sqs::Client::new(&self.sdk)), queues);
        let wiring = Wiring { degraded_rate, backlog_max, ..Wiring::new(Gate::new(redis), database, queues) };
        Ok((wiring, Telemetry::new(metrics)))
    }
}
