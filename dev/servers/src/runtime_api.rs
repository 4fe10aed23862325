//! Lambda's side of a function process: what it asks for events and gives its answers to. The protocol is
//! <https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html>; one event at a time, as Lambda does it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;

/// How long an invocation may take, as the function is told.
const DEADLINE: Duration = Duration::from_secs(30);
const ENVIRONMENT: [(&str, &str); 8] = [
    ("AWS_LAMBDA_FUNCTION_NAME", "local"),
    ("AWS_LAMBDA_FUNCTION_VERSION", "1"),
    ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "512"),
    ("AWS_LAMBDA_LOG_GROUP_NAME", "local"),
    ("AWS_LAMBDA_LOG_STREAM_NAME", "local"),
    ("AWS_REGION", "eu-west-1"),
    ("AWS_ACCESS_KEY_ID", "local"),
    ("AWS_SECRET_ACCESS_KEY", "local"),
];
const PREFIX: &str = "/2018-06-01/runtime/invocation/";

/// A runtime API on a free port of 127.0.0.1 for one process, gone on drop.
pub struct RuntimeApi {
    address: SocketAddr,
    shared: Arc<Shared>,
    events: mpsc::Sender<(String, String)>,
    server: JoinHandle<()>,
}

struct Shared {
    events: tokio::sync::Mutex<mpsc::Receiver<(String, String)>>,
    state: Mutex<State>,
    /// Told at each event that is asked for.
    asked: Notify,
    /// Told when nothing is to be asked for any more.
    ended: Notify,
}

#[derive(Default)]
struct State {
    first_asked: Option<Instant>,
    invocations: u64,
    answers: HashMap<String, oneshot::Sender<Result<String, String>>>,
}

impl RuntimeApi {
    /// Starts it; a process may be started when this returns.
    ///
    /// # Errors
    /// When no port is to be had.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (events, receiver) = mpsc::channel(1);
        let shared = Arc::new(Shared {
            events: tokio::sync::Mutex::new(receiver),
            state: Mutex::default(),
            asked: Notify::new(),
            ended: Notify::new(),
        });
        let server = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self { address, shared, events, server })
    }

    /// What Lambda itself puts into the environment of a process.
    #[must_use]
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut variables = vec![("AWS_LAMBDA_RUNTIME_API", self.address.to_string())];
        variables.extend(ENVIRONMENT.map(|(name, value)| (name, value.to_owned())));
        variables
    }

    /// When the process asked for its first event: waits for it.
    pub async fn first_asked(&self) -> Instant {
        loop {
            let told = self.shared.asked.notified();
            if let Some(at) = self.shared.state().first_asked {
                return at;
            }
            told.await;
        }
    }

    /// Breaks off what the process waits for, so that it ends by itself.
    pub fn end(&self) {
        self.server.abort();
        // Kept until somebody waits.
        self.shared.ended.notify_one();
    }

    /// Gives the process an event and waits for its answer, or the error that it reports.
    ///
    /// # Errors
    /// When this is dropped meanwhile.
    pub async fn invoke(&self, event: &str) -> io::Result<Result<String, String>> {
        let (answer, answered) = oneshot::channel();
        let id = {
            let mut state = self.shared.state();
            state.invocations += 1;
            let id = format!("00000000-0000-4000-8000-{:012}", state.invocations);
            state.answers.insert(id.clone(), answer);
            id
        };
        self.events.send((id, event.to_owned())).await.map_err(io::Error::other)?;
        answered.await.map_err(io::Error::other)
    }
}

impl Drop for RuntimeApi {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn serve(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        let body = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(&body).into_owned();
        match (&parts.method, path.strip_prefix(PREFIX)) {
            (&Method::GET, Some("next")) => self.next().await,
            (&Method::POST, Some(rest)) => {
                let answer = rest.split_once('/').and_then(|(id, kind)| {
                    let waiting = self.state().answers.remove(id)?;
                    Some((waiting, if kind == "response" { Ok(text) } else { Err(text) }))
                });
                match answer {
                    Some((waiting, answer)) => {
                        // Whoever waited may be gone.
                        let _ = waiting.send(answer);
                        reply(StatusCode::ACCEPTED)
                    }
                    None => reply(StatusCode::NOT_FOUND),
                }
            }
            _ => reply(StatusCode::NOT_FOUND),
        }
    }

    async fn next(&self) -> Response<Full<Bytes>> {
        self.state().first_asked.get_or_insert_with(Instant::now);
        self.asked.notify_waiters();
        let next = async { self.events.lock().await.recv().await };
        let next = tokio::select! {
            next = next => next,
            () = self.ended.notified() => None,
        };
        let Some((id, event)) = next else { return reply(StatusCode::GONE) };
        let deadline = (SystemTime::now() + DEADLINE).duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let trace = format!("Root={};Parent=0123456789abcdef;Sampled=0", trace_id(self.state().invocations));
        let built = Response::builder()
            .header("content-type", "application/json")
            .header("lambda-runtime-aws-request-id", id)
            .header("lambda-runtime-deadline-ms", deadline.to_string())
            .header("lambda-runtime-invoked-function-arn", "arn:aws:lambda:eu-west-1:000000000000:function:local")
            .header("lambda-runtime-trace-id", trace)
            .body(Full::new(Bytes::from(event)));
        built.unwrap_or_else(|_| reply(StatusCode::INTERNAL_SERVER_ERROR))
    }
}

/// The trace of the invocation with this number, from 1.
#[must_use]
pub fn trace_id(invocation: u64) -> String {
    format!("1-6a8b3c05-{invocation:024}")
}

fn reply(status: StatusCode) -> Response<Full<Bytes>> {
    let mut reply = Response::new(Full::new(Bytes::from_static(b"{}")));
    *reply.status_mut() = status;
    reply
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let shared = Arc::clone(&shared);
                async move { Ok::<_, Infallible>(shared.serve(request).await) }
            });
            // A process that ends breaks its connection off.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
