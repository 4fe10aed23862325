//! A local Redis: `redis-server` from the `PATH`.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::process::Process;
use crate::tls::Certificate;
use crate::wait;

/// Where ports are looked for: below those that Linux gives to outgoing connections, so that a
/// port is still free when a killed server comes back to it.
const PORTS: Range<u16> = 10_240..32_000;
/// How many random ports are tried before the machine is taken to have none left.
const PORT_ATTEMPTS: usize = 50;
/// How often a start is tried again when another process took the port first.
const START_ATTEMPTS: usize = 5;
/// How long a server may take until it answers; only a loaded machine needs more than 50 ms.
const START_LIMIT: Duration = Duration::from_secs(10);
/// How many characters of a server's log an error shows.
const LOG_TAIL: usize = 600;

/// How a [`Redis`] is configured.
#[derive(Clone, Debug, Default)]
pub struct RedisOptions {
    /// `maxmemory` as Redis writes it, such as `64mb`. None by default. The policy is
    /// `noeviction`: a full server refuses writes.
    pub maxmemory: Option<String>,
    /// Whether writes survive [`Redis::stop_hard`] in an append-only file. Off by default, which
    /// means that nothing is persisted at all.
    pub appendonly: bool,
    /// How long each command takes when the append-only file is loaded, in microseconds.
    pub load_delay_us: u32,
    /// Speaks TLS, too, with this certificate: see [`Redis::tls_url`].
    pub certificate: Option<Arc<Certificate>>,
}

/// A `redis-server` on a free port of 127.0.0.1 with a temporary directory, killed on drop.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    url: String,
    settings: Settings,
    directory: TempDir,
    process: Option<Process>,
}

/// What a server is started with, in addition to its port and directory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    /// Arguments of `redis-server`.
    pub arguments: Vec<String>,
    /// For a member of a cluster: the port of the cluster bus.
    pub bus_port: Option<u16>,
    pub tls_port: Option<u16>,
}

impl Settings {
    pub(crate) fn speaking_tls(mut self, certificate: Option<&Certificate>) -> io::Result<Self> {
        if let Some(certificate) = certificate {
            let port = free_port()?;
            self.arguments.extend(certificate.redis_arguments(port));
            self.tls_port = Some(port);
        }
        Ok(self)
    }
}

impl Redis {
    /// Starts a server; it answers when this returns.
    ///
    /// # Errors
    /// When `redis-server` is not on the `PATH`, no port is free, or the server ends by itself
    /// (the text has the end of its log) or does not answer in ten seconds.
    pub async fn start(options: RedisOptions) -> io::Result<Self> {
        let appendonly = if options.appendonly { "yes" } else { "no" };
        let mut arguments = vec!["--appendonly".to_owned(), appendonly.to_owned()];
        if let Some(maxmemory) = options.maxmemory {
            arguments.extend(["--maxmemory".to_owned(), maxmemory]);
        }
        if options.load_delay_us > 0 {
            arguments.extend(["--key-load-delay".to_owned(), options.load_delay_us.to_string()]);
        }
        let settings = || {
            let settings = Settings { arguments: arguments.clone(), ..Settings::default() };
            settings.speaking_tls(options.certificate.as_deref())
        };
        Self::start_with(settings).await
    }

    /// Starts a server with new settings at each attempt, because they may have a port in them.
    pub(crate) async fn start_with(settings: impl Fn() -> io::Result<Settings>) -> io::Result<Self> {
        let mut attempt = 1;
        loop {
            let port = free_port()?;
            let mut server = Self {
                port,
                url: format!("redis://127.0.0.1:{port}"),
                settings: settings()?,
                directory: TempDir::with_prefix("redis-")?,
                process: None,
            };
            match server.launch().await {
                Ok(()) => return Ok(server),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && attempt < START_ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// `redis://127.0.0.1:port`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `rediss://localhost:port`; nothing without a certificate.
    #[must_use]
    pub fn tls_url(&self) -> Option<String> {
        self.settings.tls_port.map(|port| format!("rediss://localhost:{port}"))
    }

    /// The port, which stays the same over a [`Self::restart`].
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server with SIGKILL; it is gone when this returns. Does nothing to one that is
    /// stopped already.
    pub fn stop_hard(&mut self) {
        self.process = None;
    }

    /// Starts the server again on the same port, after killing it if it runs. With `appendonly`
    /// it has its data again, otherwise it is empty.
    ///
    /// # Errors
    /// As [`Self::start`]; [`io::ErrorKind::AddrInUse`] when another process took the port.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.stop_hard();
        self.launch().await
    }

    /// Suspends the server with SIGSTOP: connections stay open, and nothing is answered.
    ///
    /// # Errors
    /// When the server is stopped.
    pub fn pause(&self) -> io::Result<()> {
        self.signal("STOP")
    }

    /// Ends a [`Self::pause`]: the server answers what has piled up.
    ///
    /// # Errors
    /// When the server is stopped.
    pub fn resume(&self) -> io::Result<()> {
        self.signal("CONT")
    }

    /// Whether the process has not been stopped by [`Self::stop_hard`].
    pub(crate) fn is_running(&self) -> bool {
        self.process.is_some()
    }

    /// The port of the cluster bus, for a member of a cluster.
    pub(crate) fn bus_port(&self) -> Option<u16> {
        self.settings.bus_port
    }

    fn signal(&self, name: &str) -> io::Result<()> {
        let stopped = || io::Error::new(io::ErrorKind::NotConnected, "the Redis server is stopped");
        self.process.as_ref().ok_or_else(stopped)?.signal(name)
    }

    async fn launch(&mut self) -> io::Result<()> {
        let port = self.port.to_string();
        let mut command = Command::new("redis-server");
        command
            .current_dir(self.directory.path())
            .args(["--bind", "127.0.0.1", "--port", &port, "--save", ""])
            .args(["--logfile", "redis.log", "--maxmemory-policy", "noeviction"])
            .args(&self.settings.arguments);
        if let Some(bus_port) = self.settings.bus_port {
            command.args(["--cluster-enabled", "yes", "--cluster-port", &bus_port.to_string()]);
        }
        let mut process = Process::start(&mut command)?;
        let answered = wait::until("redis-server answers", START_LIMIT, async || {
            if process.ended()?.is_some() {
                return Err(self.explain_end());
            }
            Ok(self.answers_as(process.id()).await.then_some(()))
        });
        answered.await?;
        self.process = Some(process);
        Ok(())
    }

    /// Whether the server on the port is ours and has loaded its data. Another process may have
    /// taken the port, and ours is about to end then.
    async fn answers_as(&self, id: u32) -> bool {
        let Ok(client) = redis::Client::open(self.url.as_str()) else {
            return false;
        };
        let Ok(mut connection) = client.get_multiplexed_async_connection().await else {
            return false;
        };
        let info: redis::RedisResult<String> = redis::cmd("INFO").query_async(&mut connection).await;
        info.is_ok_and(|info| {
            let lines: Vec<_> = info.lines().collect();
            lines.contains(&format!("process_id:{id}").as_str()) && lines.contains(&"loading:0")
        })
    }

    fn explain_end(&self) -> io::Error {
        let log = fs::read_to_string(self.directory.path().join("redis.log")).unwrap_or_default();
        let kind = if log.contains("in use") { io::ErrorKind::AddrInUse } else { io::ErrorKind::Other };
        let skipped = log.chars().count().saturating_sub(LOG_TAIL);
        let tail: String = log.chars().skip(skipped).collect();
        io::Error::new(kind, format!("redis-server ended by itself: {tail}"))
    }
}

/// A port of 127.0.0.1 that nobody listens on at the moment.
///
/// # Errors
/// When none is found in many tries.
pub fn free_port() -> io::Result<u16> {
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (0..PORT_ATTEMPTS)
        .map(|_| fastrand::u16(PORTS))
        .find(is_free)
        .ok_or_else(|| io::Error::new(io::ErrorKind::AddrNotAvailable, "no free port found"))
}
