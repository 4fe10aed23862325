//! The clients of the sale: a bounded number of keep-alive connections over real loopback TCP.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

/// How long a client waits for its reply: longer than the gateway lets a function work.
const REPLY_LIMIT: Duration = Duration::from_secs(35);
/// How long a client that is about to hang up lets its request travel.
const HANG_UP_AFTER: Duration = Duration::from_millis(3);

/// One request, before it is built.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: Method,
    pub path: String,
    pub access_token: Option<String>,
    pub body: Option<String>,
    pub content_type: Option<&'static str>,
    pub header: Option<(&'static str, String)>,
}

impl Call {
    #[must_use]
    pub fn get(path: String, access_token: Option<&str>) -> Self {
        Self {
            method: Method::GET,
            path,
            access_token: access_token.map(str::to_owned),
            body: None,
            content_type: None,
            header: None,
        }
    }

    #[must_use]
    pub fn post(path: String, access_token: &str, body: String) -> Self {
        Self {
            method: Method::POST,
            body: Some(body),
            content_type: Some("application/json"),
            ..Self::get(path, Some(access_token))
        }
    }

    fn build(&self, host: &HeaderValue) -> Option<Request<Full<Bytes>>> {
        let mut request = Request::builder().method(&self.method).uri(&self.path).header(HOST, host);
        if let Some(token) = &self.access_token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if let Some(content_type) = self.content_type {
            request = request.header(CONTENT_TYPE, content_type);
        }
        if let Some((name, value)) = &self.header {
            request = request.header(*name, value);
        }
        request.body(Full::new(Bytes::from(self.body.clone().unwrap_or_default()))).ok()
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: u16,
    pub body: Value,
    /// `Retry-After`, in seconds.
    pub retry_after_s: Option<u64>,
    pub latency: Duration,
}

impl Reply {
    /// The problem's code; empty where there is none.
    #[must_use]
    pub fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or("")
    }
}

/// There was no reply: the connection was refused or broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoReply;

/// An open connection and the task that drives it.
struct Connection {
    sender: SendRequest<Full<Bytes>>,
    driver: JoinHandle<()>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// The connections. Clones share them.
#[derive(Clone)]
pub struct Client {
    address: SocketAddr,
    host: HeaderValue,
    idle: Arc<Mutex<Vec<Connection>>>,
    slots: Arc<Semaphore>,
}

impl Client {
    /// At most so many requests at once.
    #[must_use]
    pub fn new(address: SocketAddr, connections: usize) -> Self {
        let host = HeaderValue::from_str(&address.to_string()).unwrap_or(HeaderValue::from_static("localhost"));
        Self { address, host, idle: Arc::default(), slots: Arc::new(Semaphore::new(connections)) }
    }

    /// Waits until a request could be sent, without sending one: whoever starts work does so no faster
    /// than it is taken.
    pub async fn ready(&self) {
        // Never closed.
        let _ = self.slots.acquire().await;
    }

    /// Sends a request and waits for the reply.
    ///
    /// # Errors
    /// When no reply came. The request may have been handled all the same.
    pub async fn call(&self, call: &Call) -> Result<Reply, NoReply> {
        let _slot = self.slots.acquire().await.map_err(|_| NoReply)?;
        let request = call.build(&self.host).ok_or(NoReply)?;
        let mut connection = self.connection().await?;
        let sent = Instant::now();
        let answered = async {
            let response = connection.sender.send_request(request).await.map_err(|_| NoReply)?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await.map_err(|_| NoReply)?.to_bytes();
            Ok((parts, body))
        };
        let (parts, body) = tokio::time::timeout(REPLY_LIMIT, answered).await.map_err(|_| NoReply)??;
        let latency = sent.elapsed();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        let retry_after = parts.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok());
        Ok(Reply {
            status: parts.status.as_u16(),
            body: serde_json::from_slice(&body).unwrap_or_default(),
            retry_after_s: retry_after.and_then(|text| text.parse().ok()),
            latency,
        })
    }

    /// Sends a request and closes the connection before the reply can be read.
    pub async fn call_and_hang_up(&self, call: &Call) {
        let Ok(_slot) = self.slots.acquire().await else { return };
        let Some(request) = call.build(&self.host) else { return };
        // Dropped afterwards, with its socket.
        if let Ok(mut connection) = self.connection().await {
            let _ = tokio::time::timeout(HANG_UP_AFTER, connection.sender.send_request(request)).await;
        }
    }

    async fn connection(&self) -> Result<Connection, NoReply> {
        loop {
            let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mut connection) = idle else { return self.connect().await };
            if connection.sender.ready().await.is_ok() {
                return Ok(connection);
            }
            // The other side closed it meanwhile.
        }
    }

    async fn connect(&self) -> Result<Connection, NoReply> {
        let stream = TcpStream::connect(self.address).await.map_err(|_| NoReply)?;
        stream.set_nodelay(true).map_err(|_| NoReply)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|_| NoReply)?;
        let driver = tokio::spawn(async move {
            // An error is a connection that was closed; whoever waits for the reply sees it.
            let _ = connection.await;
        });
        Ok(Connection { sender, driver })
    }
}
