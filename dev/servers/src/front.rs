//! The front layer of the AWS services: an HTTP server that counts, delays and breaks calls.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::faults::{Arrival, Control, FaultKind};

/// Threads of each server. Two, so that a call can arrive while another one is applied.
const WORKER_THREADS: usize = 2;
/// How long [`Front::stop`] waits for calls in flight.
const STOP_LIMIT: Duration = Duration::from_secs(2);

pub(crate) type Reply = Response<Full<Bytes>>;
/// A reply that stands for an error of the service; boxed, because a reply is large.
pub(crate) type Refusal = Box<Reply>;

/// One call of an AWS operation.
pub(crate) struct Call {
    /// The last part of `X-Amz-Target`; empty when there is none.
    pub operation: String,
    /// Whether latency and unnamed faults leave this call alone.
    pub aside: bool,
    pub parts: request::Parts,
    pub body: Bytes,
}

/// What stands behind the front layer.
pub(crate) trait Backend: Send + Sync + 'static {
    /// Held from a call's arrival until it has been applied.
    type Admission: Send;

    /// Decides on arrival whether the call may be applied, or with what it is refused.
    fn admit(&self, call: &Call) -> Result<Self::Admission, Refusal>;
    /// Whether the operation can be refused for a conflict with a transaction.
    fn may_conflict(&self, operation: &str) -> bool;
    /// The service's answer for a fault that is one: [`FaultKind::Error500`],
    /// [`FaultKind::Throttled`] or [`FaultKind::Conflict`].
    fn refuse(&self, kind: FaultKind, call: &Call) -> Reply;
    /// Whether the call is given up when its client goes away, as a long poll is.
    fn ends_with_client(&self, operation: &str) -> bool;
    /// Applies the call.
    fn apply(&self, call: Call) -> impl Future<Output = io::Result<Reply>> + Send;
}

/// Additional time of every call, in microseconds, settable while the server runs.
#[derive(Clone, Default)]
pub(crate) struct Latency(Arc<AtomicU64>);

impl Latency {
    pub fn set(&self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.store(micros, Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}

/// A running front layer with a runtime of its own, which ends when this is dropped.
pub(crate) struct Front {
    endpoint: String,
    control: Control,
    latency: Latency,
    runtime: Option<Runtime>,
    stop: Option<oneshot::Sender<Infallible>>,
    accepting: Option<JoinHandle<()>>,
}

impl Front {
    /// Starts a front layer before the backend that `make` builds inside the new runtime.
    ///
    /// # Errors
    /// When threads or a port are not to be had, or `make` fails.
    pub fn start<B: Backend>(name: &str, make: impl FnOnce() -> io::Result<B>) -> io::Result<Self> {
        let runtime =
            Builder::new_multi_thread().worker_threads(WORKER_THREADS).thread_name(name).enable_all().build()?;
        let started = {
            let _inside = runtime.enter();
            make().and_then(|backend| Ok((backend, listen()?)))
        };
        let (backend, (listener, address)) = match started {
            Ok(started) => started,
            Err(error) => {
                // A plain drop would block, which tokio forbids inside another runtime.
                runtime.shutdown_background();
                return Err(error);
            }
        };
        let (control, latency) = (Control::default(), Latency::default());
        let (stop, stopped) = oneshot::channel();
        let served = Arc::new(Served { backend, control: control.clone(), latency: latency.clone() });
        let accepting = runtime.spawn(accept(listener, served, stopped));
        Ok(Self {
            endpoint: format!("http://{address}"),
            control,
            latency,
            runtime: Some(runtime),
            stop: Some(stop),
            accepting: Some(accepting),
        })
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub fn control(&self) -> &Control {
        &self.control
    }

    pub fn latency(&self) -> &Latency {
        &self.latency
    }

    /// Takes no more calls, lets those in flight finish for [`STOP_LIMIT`], then ends.
    pub async fn stop(mut self) {
        // Dropping the sender is the signal; nothing is ever sent.
        self.stop = None;
        if let Some(accepting) = self.accepting.take() {
            // Both ends are fine: all calls finished, or the rest is given up with the runtime.
            let _ = accepting.await;
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Binds a free port of 127.0.0.1. Must be called inside a runtime.
pub(crate) fn listen() -> io::Result<(TcpListener, SocketAddr)> {
    let listener = StdListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    Ok((TcpListener::from_std(listener)?, address))
}

/// A reply in the JSON protocol of both services.
pub(crate) fn json_reply(status: StatusCode, body: &serde_json::Value) -> Reply {
    let body = body.to_string();
    let crc = crc32(body.as_bytes());
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/x-amz-json-1.0"));
    headers.insert("x-amz-crc32", HeaderValue::from(crc));
    headers.insert("x-amzn-requestid", HeaderValue::from_static("00000000-0000-4000-8000-000000000000"));
    reply
}

/// The checksum that DynamoDB puts into `x-amz-crc32` (CRC-32 as in zlib). Bit by bit: the
/// bodies made here are short.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg()))
    })
}

struct Served<B> {
    backend: B,
    control: Control,
    latency: Latency,
}

async fn accept<B: Backend>(listener: TcpListener, served: Arc<Served<B>>, mut stopped: oneshot::Receiver<Infallible>) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => break,
        };
        match accepted {
            Ok((stream, _)) => serve_connection(stream, &served, &graceful),
            // Out of descriptors, or a client that went away: the next accept may succeed.
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::task::yield_now().await;
            }
        }
    }
    drop(listener);
    // What has not finished by then is given up with the runtime.
    let _ = tokio::time::timeout(STOP_LIMIT, graceful.shutdown()).await;
}

fn serve_connection<B: Backend>(stream: TcpStream, served: &Arc<Served<B>>, graceful: &GracefulShutdown) {
    // Without it small replies could wait for the client's acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "client is gone already");
    }
    let served = Arc::clone(served);
    let service = service_fn(move |request| Arc::clone(&served).answer(request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        // An error here is a client that went away or a drop that was asked for.
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection closed");
        }
    });
}

impl<B: Backend> Served<B> {
    /// Answers a request. An error makes hyper close the connection without a reply.
    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> io::Result<Reply> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let target = parts.headers.get("x-amz-target").and_then(|value| value.to_str().ok()).unwrap_or("");
        let call = Call {
            operation: target.rsplit('.').next().unwrap_or("").to_owned(),
            aside: target.starts_with("DynamoDBStreams_"),
            parts,
            body,
        };
        if self.backend.ends_with_client(&call.operation) {
            return self.run(call).await;
        }
        // A task of its own: as on AWS, a client that goes away does not undo its call.
        tokio::spawn(async move { self.run(call).await }).await.map_err(io::Error::other)?
    }

    async fn run(&self, call: Call) -> io::Result<Reply> {
        let strike = self.control.strike(&Arrival {
            operation: &call.operation,
            only_by_name: call.aside,
            may_conflict: self.backend.may_conflict(&call.operation),
        });
        let refused = matches!(
            strike.kind,
            Some(FaultKind::Error500 | FaultKind::Throttled | FaultKind::Conflict | FaultKind::DropBefore)
        );
        // On arrival, so that what a call locks stays locked for its whole time in flight.
        let admitted = (!refused).then(|| self.backend.admit(&call));
        let latency = if call.aside { Duration::ZERO } else { self.latency.get() };
        let time = latency + strike.delay;
        // Last, so that a test that sees the count knows that the call holds its locks.
        self.control.arrived(&call.operation);
        if !time.is_zero() {
            tokio::time::sleep(time).await;
        }
        let reply = match (admitted, strike.kind) {
            (Some(Ok(admission)), _) => {
                let reply = self.backend.apply(call).await;
                drop(admission);
                reply
            }
            (Some(Err(refusal)), _) => Ok(*refusal),
            (None, Some(FaultKind::DropBefore) | None) => Err(dropped()),
            (None, Some(kind)) => Ok(self.backend.refuse(kind, &call)),
        };
        match strike.kind {
            Some(FaultKind::DropAfter) => Err(dropped()),
            _ => reply,
        }
    }
}

fn dropped() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "dropped by a fault")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_checksum_is_that_of_zlib() {
        assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
    }
}
