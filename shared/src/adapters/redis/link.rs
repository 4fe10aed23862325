//! The one connection of a process, shared by all tasks: opened at the first call, by one task while
//! the others wait, and dropped for good once it timed out or broke.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use data_encoding::BASE64;
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionInfo, ErrorKind, IntoConnectionInfo, ProtocolVersion, PushInfo,
    PushKind, RedisError, RedisResult, TlsCertificates, Value, aio::MultiplexedConnection,
    cluster::ClusterClientBuilder, cluster_async::ClusterConnection,
};
use secrecy::ExposeSecret;
use tokio::sync::watch;

use crate::config::RedisConfig;

/// How long opening the connection may take, name look-up and TLS included. Longer than a call:
/// a new function does it once, on a slow core.
const CONNECT_DEADLINE: Duration = Duration::from_millis(500);
/// How long one node of a cluster may take. A node that hangs is met twice: as a seed, and where
/// the slots are read.
const NODE_DEADLINE: Duration = Duration::from_millis(200);
/// Calls that may wait to be written. More wait for their turn.
const QUEUE_CALLS: usize = 512;

type Opened = Option<RedisResult<Live>>;

#[derive(Clone)]
enum Connection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// An open connection. Clones share it.
#[derive(Clone)]
pub(super) struct Live {
    connection: Connection,
    /// Set when the server closed it: what is sent afterwards is lost, so nothing is.
    closed: Arc<AtomicBool>,
    /// Whether another one is being opened to take its place.
    renewing: Arc<AtomicBool>,
}

impl Live {
    pub async fn send(&mut self, command: &Cmd) -> RedisResult<Value> {
        match &mut self.connection {
            Connection::Single(connection) => command.query_async(connection).await,
            Connection::Cluster(connection) => command.query_async(connection).await,
        }
    }

    pub const fn is_cluster(&self) -> bool {
        matches!(self.connection, Connection::Cluster(_))
    }
}

enum State {
    Idle,
    Opening(watch::Receiver<Opened>),
    Open(Live),
}

#[derive(Clone)]
pub(super) struct Link {
    config: Arc<RedisConfig>,
    /// No call may take longer, whatever its own deadline.
    longest: Duration,
    state: Arc<Mutex<State>>,
}

impl Link {
    pub fn new(config: RedisConfig, longest: Duration) -> Self {
        Self { config: Arc::new(config), longest, state: Arc::new(Mutex::new(State::Idle)) }
    }

    /// The connection, opened if there is none.
    ///
    /// # Errors
    /// When it cannot be opened in time. Nothing was sent then.
    pub async fn get(&self) -> RedisResult<Live> {
        let mut opened = match self.open_or_wait() {
            Ok(live) => return Ok(live),
            Err(opened) => opened,
        };
        let result = opened.wait_for(Option::is_some).await.ok().and_then(|result| result.clone());
        result.unwrap_or_else(|| {
            // Its task was dropped together with its runtime.
            self.forget(&opened);
            Err(RedisError::from((ErrorKind::Client, "connecting was interrupted")))
        })
    }

    /// Drops this connection, unless another one took its place. Calls that wait for its reply go on.
    ///
    /// That of a cluster serves on until there is a new one: a node that hangs must not stop the calls
    /// to the others, and its own are held off by their breaker.
    pub fn discard(&self, live: &Live) {
        let mut state = self.state();
        match &*state {
            State::Open(open) if !Arc::ptr_eq(&open.closed, &live.closed) => {}
            State::Open(open) if open.is_cluster() => {
                let renewing = Arc::clone(&open.renewing);
                if !renewing.swap(true, Ordering::AcqRel) {
                    tokio::spawn(self.clone().renew(live.clone()));
                }
            }
            State::Open(_) => *state = State::Idle,
            State::Idle | State::Opening(_) => {}
        }
    }

    /// Puts a new connection in the place of this one, if one can be opened.
    async fn renew(self, old: Live) {
        match self.connect().await {
            Ok(new) => {
                let mut state = self.state();
                if matches!(&*state, State::Open(open) if Arc::ptr_eq(&open.closed, &old.closed)) {
                    *state = State::Open(new);
                }
            }
            // The next call that fails on it tries again.
            Err(_) => old.renewing.store(false, Ordering::Release),
        }
    }

    fn open_or_wait(&self) -> Result<Live, watch::Receiver<Opened>> {
        let mut state = self.state();
        match &*state {
            State::Open(live) if !live.closed.load(Ordering::Acquire) => return Ok(live.clone()),
            State::Opening(opened) => return Err(opened.clone()),
            _ => {}
        }
        let (sender, receiver) = watch::channel(None);
        *state = State::Opening(receiver.clone());
        let link = self.clone();
        // A task of its own: the caller that came first may give up, the others still want it.
        tokio::spawn(async move {
            let result = link.connect().await;
            *link.state() = result.as_ref().map_or(State::Idle, |live| State::Open(live.clone()));
            sender.send_replace(Some(result));
        });
        Err(receiver)
    }

    fn forget(&self, opened: &watch::Receiver<Opened>) {
        let mut state = self.state();
        if matches!(&*state, State::Opening(current) if current.same_channel(opened)) {
            *state = State::Idle;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> RedisResult<Live> {
        let closed = Arc::new(AtomicBool::new(false));
        let connecting = async {
            Ok(if self.config.cluster {
                Connection::Cluster(self.connect_cluster().await?)
            } else {
                Connection::Single(self.connect_single(closed.clone()).await?)
            })
        };
        let connected = tokio::time::timeout(CONNECT_DEADLINE, connecting).await.unwrap_or_else(|_| {
            Err(RedisError::from(std::io::Error::new(std::io::ErrorKind::TimedOut, "connecting took too long")))
        });
        // As often as the breaker lets somebody try.
        let connection = connected.inspect_err(|error| tracing::warn!(%error, "redis_unreachable"))?;
        Ok(Live { connection, closed, renewing: Arc::default() })
    }

    async fn connect_single(&self, closed: Arc<AtomicBool>) -> RedisResult<MultiplexedConnection> {
        let url = self.config.urls.first().map_or("", String::as_str);
        let note_close = move |push: PushInfo| -> Result<(), std::convert::Infallible> {
            if push.kind == PushKind::Disconnection {
                closed.store(true, Ordering::Release);
            }
            Ok(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_DEADLINE))
            .set_response_timeout(Some(self.longest))
            .set_pipeline_buffer_size(QUEUE_CALLS)
            .set_push_sender(note_close);
        let info = self.connection_info(url)?;
        let client = match self.certificates() {
            Some(certificates) => Client::build_with_tls(info, certificates)?,
            None => Client::open(info)?,
        };
        client.get_multiplexed_async_connection_with_config(&config).await
    }

    async fn connect_cluster(&self) -> RedisResult<ClusterConnection> {
        let nodes: RedisResult<Vec<ConnectionInfo>> =
            self.config.urls.iter().map(|url| self.connection_info(url)).collect();
        // No retries of its own: only the caller knows whether an earlier attempt may have been applied.
        let mut client = ClusterClientBuilder::new(nodes?)
            .retries(0)
            .connection_timeout(NODE_DEADLINE)
            .response_timeout(self.longest)
            .use_protocol(ProtocolVersion::RESP3);
        if let Some(certificates) = self.certificates() {
            client = client.certs(certificates);
        }
        client.build()?.get_async_connection().await
    }

    /// For TLS: whose certificates are good, where it is not those that come with the program.
    fn certificates(&self) -> Option<TlsCertificates> {
        let with_tls = self.config.urls.iter().any(|url| url.starts_with("rediss:"));
        let wanted = with_tls && self.config.trusts_system;
        wanted.then(|| TlsCertificates { client_tls: None, root_cert: Some(system_roots().to_vec()) })
    }

    fn connection_info(&self, url: &str) -> RedisResult<ConnectionInfo> {
        install_tls();
        let info = url.into_connection_info()?;
        let mut settings = info.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
        if let Some(password) = &self.config.password {
            settings = settings.set_password(password.expose_secret());
        }
        Ok(info.set_redis_settings(settings))
    }
}

/// Whom the system trusts, as PEM; read once, because it takes longer than a call may. What cannot be read is left
/// out: one bad file must not stop the others.
fn system_roots() -> &'static [u8] {
    static ROOTS: OnceLock<Vec<u8>> = OnceLock::new();
    ROOTS.get_or_init(|| {
        let mut known = rustls::RootCertStore::empty();
        let mut certificates = rustls_native_certs::load_native_certs().certs;
        certificates.retain(|certificate| known.add(certificate.clone()).is_ok());
        let pem =
            |der: &[u8]| format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", BASE64.encode(der));
        certificates.iter().map(|certificate| pem(certificate)).collect::<String>().into_bytes()
    })
}

/// TLS needs one process-wide choice of cryptography; whoever made it first is fine.
fn install_tls() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
