//! The HTTP API on 127.0.0.1: routes, authorizer, limits and answers as the AWS gateway has them, the
//! same functions behind, and the `/dev` routes that only the local runner has.

pub mod event;
pub mod jwt;
pub mod local;
pub mod reply;
pub mod routes;

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Limited};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HOST};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use self::event::Arrival;
use self::jwt::{Authorizer, Identity};
use self::local::LocalApi;
use self::reply::{Refusal, Reply, refuse};
use self::routes::{Access, Matched, OPERATE_SCOPE, Target};
use crate::functions::{Functions, HttpFunction};

/// Largest request body that the gateway takes, in bytes.
pub const BODY_MAX_BYTES: usize = 10 * 1024 * 1024;
/// How long the gateway waits for a function.
const INTEGRATION_LIMIT: Duration = Duration::from_secs(30);
/// How long [`Gateway::stop`] waits for requests in flight.
const STOP_LIMIT: Duration = Duration::from_secs(5);
/// Pause after an accept that failed, which is for want of descriptors as a rule.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A running gateway; it stops accepting when this is dropped.
pub struct Gateway {
    address: SocketAddr,
    stop: Option<oneshot::Sender<Infallible>>,
    accepting: JoinHandle<()>,
}

/// What the gateway serves.
pub struct Api {
    pub functions: Functions,
    pub authorizer: Arc<Authorizer>,
    pub local: LocalApi,
}

impl Gateway {
    /// Listens on a port of 127.0.0.1; 0 takes a free one.
    ///
    /// # Errors
    /// When the port is taken.
    pub async fn start(port: u16, api: Api) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let accepting = tokio::spawn(accept(listener, Arc::new(api), address.port(), stopped));
        Ok(Self { address, stop: Some(stop), accepting })
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes no more connections and lets requests in flight finish, for a bounded time.
    pub async fn stop(mut self) {
        // Dropping the sender is the signal; nothing is ever sent.
        self.stop = None;
        // The task ends by itself; a panic in it has been told already.
        let _ = self.accepting.await;
    }
}

async fn accept(listener: TcpListener, api: Arc<Api>, port: u16, mut stopped: oneshot::Receiver<Infallible>) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = &mut stopped => break,
        };
        match accepted {
            Ok((stream, peer)) => serve(stream, Peer { ip: peer.ip(), port }, &api, &graceful),
            Err(error) => {
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    if tokio::time::timeout(STOP_LIMIT, graceful.shutdown()).await.is_err() {
        tracing::warn!("requests in flight were given up");
    }
}

/// Where a connection comes from and goes to.
#[derive(Clone, Copy)]
struct Peer {
    ip: IpAddr,
    port: u16,
}

fn serve(stream: TcpStream, peer: Peer, api: &Arc<Api>, graceful: &GracefulShutdown) {
    // Without it small answers could wait for the client's acknowledgement.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "client is gone already");
    }
    let api = Arc::clone(api);
    let service = service_fn(move |request| answer(Arc::clone(&api), peer, request));
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .serve_connection(TokioIo::new(stream), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection closed");
        }
    });
}

async fn answer(api: Arc<Api>, peer: Peer, request: Request<Incoming>) -> Result<Reply, Infallible> {
    let request_id = request_id();
    let mut reply = route(&api, peer, request, &request_id).await.unwrap_or_else(|refusal| *refusal);
    if let Ok(value) = request_id.parse() {
        reply.headers_mut().insert("apigw-requestid", value);
    }
    Ok(reply)
}

async fn route(api: &Arc<Api>, peer: Peer, request: Request<Incoming>, request_id: &str) -> Result<Reply, Refusal> {
    let (parts, body) = request.into_parts();
    if !is_for_us(&parts) {
        return Err(refuse(StatusCode::FORBIDDEN, "Forbidden"));
    }
    if body.size_hint().lower() > BODY_MAX_BYTES as u64 {
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large"));
    }
    if let Some(call) = api.local.find(&parts) {
        return Ok(api.local.answer(call, &api.authorizer, &parts, read(body).await?).await);
    }
    let matched =
        routes::find(&parts.method, parts.uri.path()).ok_or_else(|| refuse(StatusCode::NOT_FOUND, "Not Found"))?;
    let at = jiff::Timestamp::now();
    let identity = authorize(&api.authorizer, &matched, &parts, at)?;
    let body = read(body).await?;
    let arrival = Arrival { source_ip: peer.ip, port: peer.port, request_id, at };
    let event = event::render(&parts, &body, &matched, identity.as_ref(), arrival).map_err(|_| broken())?;
    if event.len() > event::EVENT_MAX_BYTES {
        return Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large"));
    }
    invoke(function(&api.functions, matched.route.target), event, request_id).await
}

/// A host name that is not the API's own never reaches a function, which takes it for part of a URL.
/// It also keeps away pages of a browser that resolve their own name to this machine.
fn is_for_us(parts: &Parts) -> bool {
    let host = parts.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("");
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "0"));
    ["127.0.0.1", "localhost"].contains(&name) && port.parse::<u16>().is_ok()
}

fn authorize(
    authorizer: &Authorizer,
    matched: &Matched,
    parts: &Parts,
    at: jiff::Timestamp,
) -> Result<Option<Identity>, Refusal> {
    if matched.route.access == Access::Public {
        return Ok(None);
    }
    let header = parts.headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let identity = authorizer
        .check(header, at.as_second())
        .map_err(|_| reply::challenge(StatusCode::UNAUTHORIZED, "Unauthorized", "Bearer error=\"invalid_token\""))?;
    if matched.route.access == Access::Operator && !identity.scopes.iter().any(|scope| scope == OPERATE_SCOPE) {
        let challenge = "Bearer scope=\"holdfast/operate\" error=\"insufficient_scope\"";
        return Err(reply::challenge(StatusCode::FORBIDDEN, "Forbidden", challenge));
    }
    Ok(Some(identity))
}

async fn read(body: Incoming) -> Result<Bytes, Refusal> {
    match Limited::new(body, BODY_MAX_BYTES).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(refuse(StatusCode::PAYLOAD_TOO_LARGE, "Request Entity Too Large"))
        }
        Err(_) => Err(refuse(StatusCode::BAD_REQUEST, "Bad Request")),
    }
}

fn function(functions: &Functions, target: Target) -> HttpFunction {
    Arc::clone(match target {
        Target::IssueToken => &functions.issue_token,
        Target::PlaceOrder => &functions.place_order,
        Target::Query => &functions.query,
        Target::Console => &functions.console,
        Target::CancelOrder => &functions.cancel_order,
        Target::Payment => &functions.payment,
    })
}

/// Calls the function in a task of its own: a client that goes away does not end it, as on AWS, and
/// a panic in it is answered and logged instead of closing the connection.
async fn invoke(function: HttpFunction, event: String, request_id: &str) -> Result<Reply, Refusal> {
    let called = tokio::spawn(async move {
        match lambda_http::request::from_str(&event) {
            Ok(request) => Ok(function(request).await),
            Err(error) => Err(error),
        }
    });
    match tokio::time::timeout(INTEGRATION_LIMIT, called).await {
        Ok(Ok(Ok(response))) => Ok(reply::from_function(response)),
        Ok(Ok(Err(error))) => {
            tracing::error!(request_id, %error, "the event could not be parsed");
            Err(broken())
        }
        Ok(Err(error)) => {
            tracing::error!(request_id, %error, "a function panicked");
            Err(broken())
        }
        Err(_) => {
            tracing::error!(request_id, "a function took too long");
            Err(refuse(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable"))
        }
    }
}

fn broken() -> Refusal {
    refuse(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error")
}

/// Like `JKJaXmPLvHcESHA=`: 11 random bytes in base 64.
fn request_id() -> String {
    let mut bytes = [0_u8; 11];
    bytes.fill_with(|| fastrand::u8(..));
    data_encoding::BASE64URL.encode(&bytes)
}
