//! Reading what a running stack has used so far.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use redis::aio::MultiplexedConnection;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use super::tally::{Tally, as_f64};
use crate::sale::settle::drain;
use crate::stack::{Stack, StartError};

/// The events of the functions and of the shared crate, not those of the runner.
const LOGGED: &str = "info,dev=off,servers=off,hyper=off";

/// Counts the bytes of the functions' log and throws them away.
#[derive(Clone, Debug, Default)]
pub struct LogBytes(Arc<AtomicU64>);

impl LogBytes {
    /// From now on everything that this process logs is counted, in the form in which the functions log. Only the
    /// first of a process counts.
    #[must_use]
    pub fn start() -> Self {
        let bytes = Self::default();
        let lines = tracing_subscriber::fmt().json().flatten_event(true).with_current_span(false).with_target(false);
        let _ = lines.with_env_filter(EnvFilter::new(LOGGED)).with_writer(bytes.clone()).try_init();
        bytes
    }
}

impl io::Write for LogBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogBytes {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// What reads the counters of all servers.
pub struct Meter<'a> {
    stack: &'a Stack,
    redis: MultiplexedConnection,
    log: LogBytes,
}

impl<'a> Meter<'a> {
    /// # Errors
    /// When Redis does not answer.
    pub async fn start(stack: &'a Stack, log: LogBytes) -> Result<Self, StartError> {
        stack.backend.dynamodb.start_metering();
        let url = stack.backend.redis_config.urls.first().ok_or("no Redis")?.as_str();
        let redis = redis::Client::open(url)?.get_multiplexed_async_connection().await?;
        Ok(Self { stack, redis, log })
    }

    /// All that was used until now, once everything asynchronous has come to rest.
    ///
    /// # Errors
    /// When it does not, or Redis does not answer.
    pub async fn total(&self) -> Result<Tally, StartError> {
        drain(self.stack).await?;
        let backend = &self.stack.backend;
        let (calls, units) = (backend.dynamodb.control().counts(), backend.dynamodb.consumed());
        Ok(Tally {
            script_calls: as_f64(self.script_calls().await?),
            messages_sent: as_f64(backend.sqs.control().count("SendMessage")),
            stream_records: as_f64(self.stack.stream.records.load(Ordering::Relaxed)),
            log_bytes: as_f64(self.log.0.load(Ordering::Relaxed)),
            ..Tally::default()
        }
        .with_database(&calls, &units))
    }

    async fn script_calls(&self) -> Result<u64, StartError> {
        let stats: String = redis::cmd("INFO").arg("commandstats").query_async(&mut self.redis.clone()).await?;
        let of = |command: &str| -> u64 {
            let line = stats.lines().find_map(|line| line.strip_prefix(&format!("cmdstat_{command}:calls=")));
            line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
        };
        Ok(of("evalsha") + of("eval"))
    }
}
