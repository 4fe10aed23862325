//! A TCP proxy in front of a server, for what happens to connections: delay, silence in one direction,
//! resets, refusals. It knows no protocol, so it stands before Redis, a replica's link, DynamoDB or SQS
//! alike, and can look for bytes that name an operation.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Most bytes that are passed on at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// Longest pattern of a [`Tripwire`] or rewrite, in bytes: so much of the last chunk is kept.
pub const PATTERN_MAX_BYTES: usize = 256;
/// Pause after an accept that failed, which is for want of descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// What happens to the bytes of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flow {
    #[default]
    Pass,
    /// Kept back, and passed on when the direction flows again.
    Hold,
    /// Thrown away. A connection that lost bytes stays silent in this direction for good: TCP never
    /// goes on behind a hole.
    Swallow,
}

/// How a proxy treats its connections.
#[derive(Clone, Debug, Default)]
pub struct Weather {
    /// From the client to the server.
    pub requests: Flow,
    /// From the server to the client.
    pub replies: Flow,
    /// Time that every request takes in addition.
    pub delay: Duration,
    /// New connections are closed at once.
    pub refuse: bool,
}

/// When the bytes that name an operation come by, and where it stops.
#[derive(Clone, Debug)]
pub struct Tripwire {
    /// Part of the request.
    pub pattern: Vec<u8>,
    /// Requests with the pattern that are let through before.
    pub skip: u32,
    /// Whether the request still reaches the server. Its reply never reaches the client.
    pub applied: bool,
}

/// How often the proxy did something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProxyCounts {
    pub connections: u64,
    pub refused: u64,
    pub cut: u64,
    pub delayed: u64,
    pub requests_lost: u64,
    pub replies_lost: u64,
    pub held: u64,
    pub rewritten: u64,
}

#[derive(Default)]
struct Counters {
    connections: AtomicU64,
    refused: AtomicU64,
    cut: AtomicU64,
    delayed: AtomicU64,
    requests_lost: AtomicU64,
    replies_lost: AtomicU64,
    held: AtomicU64,
    rewritten: AtomicU64,
}

struct Shared {
    upstream: Mutex<SocketAddr>,
    weather: watch::Sender<Weather>,
    /// Rises with every cut.
    cuts: watch::Sender<u64>,
    tripwire: Mutex<Option<Tripwire>>,
    tripped: watch::Sender<bool>,
    rewrites: Mutex<Vec<(Vec<u8>, Vec<u8>)>>,
    counters: Counters,
}

/// A proxy on a free port, gone with its connections when it is dropped.
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
        self.cut();
    }
}

impl Proxy {
    /// Starts on 127.0.0.1 before the server at this address; connections are taken when it returns.
    ///
    /// # Errors
    /// When no port is to be had.
    pub async fn start(upstream: SocketAddr) -> io::Result<Self> {
        Self::start_at(Ipv4Addr::LOCALHOST.into(), upstream).await
    }

    /// The same on another address of this machine.
    ///
    /// # Errors
    /// When it is not this machine's, or no port is to be had.
    pub async fn start_at(address: IpAddr, upstream: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((address, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            upstream: Mutex::new(upstream),
            weather: watch::Sender::default(),
            cuts: watch::Sender::new(0),
            tripwire: Mutex::default(),
            tripped: watch::Sender::new(false),
            rewrites: Mutex::default(),
            counters: Counters::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, accepting })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, for old and new connections.
    pub fn set(&self, weather: Weather) {
        self.shared.weather.send_replace(weather);
    }

    /// Closes every connection, with a reset where data is under way.
    pub fn cut(&self) {
        self.shared.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Where new connections go; old ones stay until they are cut.
    pub fn redirect(&self, upstream: SocketAddr) {
        *lock(&self.shared.upstream) = upstream;
    }

    /// Sets a tripwire. See [`Self::tripped`].
    pub fn trip(&self, tripwire: Tripwire) {
        self.shared.tripped.send_replace(false);
        *lock(&self.shared.tripwire) = Some(tripwire);
    }

    /// Returns when the tripwire was hit: the request is held back, or it was passed on to the server and
    /// the connection's replies are thrown away from here on.
    pub async fn tripped(&self) {
        // The sender lives as long as this.
        let _ = self.shared.tripped.subscribe().wait_for(|tripped| *tripped).await;
    }

    /// Replaces these bytes in requests by others of the same length.
    ///
    /// # Errors
    /// When the lengths differ or are too long.
    pub fn rewrite(&self, from: Vec<u8>, to: Vec<u8>) -> io::Result<()> {
        if from.len() != to.len() || from.len() > PATTERN_MAX_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a rewrite must keep the length"));
        }
        lock(&self.shared.rewrites).push((from, to));
        Ok(())
    }

    /// Sets all counts to zero.
    pub fn reset_counts(&self) {
        let counters = &self.shared.counters;
        for counter in [
            &counters.connections,
            &counters.refused,
            &counters.cut,
            &counters.delayed,
            &counters.requests_lost,
            &counters.replies_lost,
            &counters.held,
            &counters.rewritten,
        ] {
            counter.store(0, Ordering::Relaxed);
        }
    }

    #[must_use]
    pub fn counts(&self) -> ProxyCounts {
        let counters = &self.shared.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ProxyCounts {
            connections: read(&counters.connections),
            refused: read(&counters.refused),
            cut: read(&counters.cut),
            delayed: read(&counters.delayed),
            requests_lost: read(&counters.requests_lost),
            replies_lost: read(&counters.replies_lost),
            held: read(&counters.held),
            rewritten: read(&counters.rewritten),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is complete before anything can panic, so a poisoned state is sound.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn note(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        if shared.weather.borrow().refuse {
            note(&shared.counters.refused);
            // With a reset, as a port without a listener would do it.
            let _ = client.set_zero_linger();
            continue;
        }
        note(&shared.counters.connections);
        tokio::spawn(connect(client, Arc::clone(&shared)));
    }
}

/// One connection until it ends on either side or is cut.
async fn connect(client: TcpStream, shared: Arc<Shared>) {
    let mut cuts = shared.cuts.subscribe();
    let upstream = *lock(&shared.upstream);
    let Ok(server) = TcpStream::connect(upstream).await else {
        let _ = client.set_zero_linger();
        return;
    };
    for stream in [&client, &server] {
        // Both fail only where the peer is gone, which the first read tells.
        let _ = stream.set_nodelay(true);
        let _ = stream.set_zero_linger();
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let deaf = Arc::new(AtomicBool::new(false));
    let pump = |way| Pump { way, shared: Arc::clone(&shared), deaf: Arc::clone(&deaf), lost: false, tail: Vec::new() };
    tokio::select! {
        () = pump(Way::Requests).run(from_client, to_server) => {}
        () = pump(Way::Replies).run(from_server, to_client) => {}
        _ = cuts.changed() => note(&shared.counters.cut),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Requests,
    Replies,
}

/// One direction of one connection.
struct Pump {
    way: Way,
    shared: Arc<Shared>,
    /// Whether a tripwire took this connection's replies away.
    deaf: Arc<AtomicBool>,
    /// Whether bytes of this direction were thrown away.
    lost: bool,
    /// The end of the last chunk, for a pattern across two.
    tail: Vec<u8>,
}

impl Pump {
    /// Ends when either side closes.
    async fn run(mut self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let Ok(length @ 1..) = from.read(&mut buffer).await else { return };
            let chunk = &mut buffer[..length];
            if !self.admit(chunk).await {
                continue;
            }
            if to.write_all(chunk).await.is_err() {
                return;
            }
        }
    }

    /// Whether the chunk is passed on; waits where it is kept back.
    async fn admit(&mut self, chunk: &mut [u8]) -> bool {
        let mut weather = self.shared.weather.subscribe();
        let flow = |weather: &Weather| if self.way == Way::Requests { weather.requests } else { weather.replies };
        if flow(&weather.borrow()) == Flow::Hold {
            note(&self.shared.counters.held);
            // The sender lives as long as this.
            let _ = weather.wait_for(|weather| flow(weather) != Flow::Hold).await;
        }
        let (flow, delay) = {
            let weather = weather.borrow();
            (flow(&weather), weather.delay)
        };
        self.lost |= flow == Flow::Swallow || (self.way == Way::Replies && self.deaf.load(Ordering::Acquire));
        if self.lost {
            let counters = &self.shared.counters;
            note(if self.way == Way::Requests { &counters.requests_lost } else { &counters.replies_lost });
            return false;
        }
        if self.way == Way::Replies {
            return true;
        }
        if !delay.is_zero() {
            note(&self.shared.counters.delayed);
            tokio::time::sleep(delay).await;
        }
        if self.meets_tripwire(chunk) == Some(false) {
            self.lost = true;
            return false;
        }
        self.rewrite(chunk);
        true
    }

    /// Whether the tripwire is hit by this chunk, and if so whether the request is to reach the server.
    fn meets_tripwire(&mut self, chunk: &[u8]) -> Option<bool> {
        let mut tripwire = lock(&self.shared.tripwire);
        let Tripwire { pattern, skip, applied } = tripwire.as_mut()?;
        let window = [&self.tail[..], chunk].concat();
        let hits = window.windows(pattern.len()).filter(|bytes| bytes == pattern).count();
        let kept = window.len().saturating_sub(pattern.len().saturating_sub(1));
        self.tail = window[kept..].to_vec();
        let hits = u32::try_from(hits).unwrap_or(u32::MAX);
        if hits <= *skip {
            *skip -= hits;
            return None;
        }
        let applied = *applied;
        *tripwire = None;
        drop(tripwire);
        self.deaf.store(true, Ordering::Release);
        self.shared.tripped.send_replace(true);
        Some(applied)
    }

    fn rewrite(&self, chunk: &mut [u8]) {
        for (from, to) in lock(&self.shared.rewrites).iter() {
            while let Some(at) = chunk.windows(from.len()).position(|bytes| bytes == from) {
                chunk[at..at + to.len()].copy_from_slice(to);
                note(&self.shared.counters.rewritten);
            }
        }
    }
}
