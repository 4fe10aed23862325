//! Function processes of their own, so that they can be killed: children of the runner, which reach
//! every server through proxies that tell where a call stands.

use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use harness::Clients;
use holdfast::adapters::{dynamodb::Database, redis::Gate, sqs::Queues};
use holdfast::app::reconcile::Reconcile;
use holdfast::config::{QueueConfig, RedisConfig};
use holdfast::domain::token::TokenKeys;
use holdfast::lambda::Wiring;
use serde::{Deserialize, Serialize};
use servers::Proxy;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

use super::load::signing_key;
use super::skew::Skewed;
use super::stage::Stage;
use crate::background::Background;
use crate::gateway::jwt::Authorizer;
use crate::gateway::local::{LocalApi, StateError};
use crate::gateway::{Api, Gateway};
use crate::pollers::queue::QueuePoller;
use crate::stack::StartError;
use crate::wire;

/// How long a child may take until it works, or until it is gone.
const CHILD_LIMIT: Duration = Duration::from_secs(20);
/// Tasks that receive from the roll-back queue, and calls of the reconciliation per pause.
const POLLERS: usize = 4;
const RECONCILE_PAUSE: Duration = Duration::from_millis(50);
const RUN_LIMIT: Duration = Duration::from_mins(1);
/// How far a reconciliation is ahead that is to find every grace over, in milliseconds.
const AHEAD_MS: i64 = 300_000;

/// Which functions a child runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Those behind the HTTP API.
    Serve,
    /// The roll-back queue's.
    RollBack,
    /// Reconciliation, again and again.
    Reconcile,
    /// The same, past every grace.
    ReconcileLater,
}

/// What a child is told on its standard input.
#[derive(Debug, Serialize, Deserialize)]
struct Orders {
    role: Role,
    redis_url: String,
    redis_deadline_ms: u64,
    dynamodb: String,
    sqs: String,
    roll_back_url: String,
    fulfilment_url: String,
    dead_letter_url: String,
    /// Of access tokens.
    secret: Vec<u8>,
}

/// A running child and the proxies between it and the servers.
pub struct Worker {
    pub redis: Proxy,
    pub dynamodb: Proxy,
    pub sqs: Proxy,
    /// Where it serves; only in the role [`Role::Serve`].
    pub address: Option<SocketAddr>,
    pub id: u32,
    child: Child,
}

impl Worker {
    /// Starts a child; it works when this returns.
    ///
    /// # Errors
    /// When it does not start or does not say so in time.
    pub async fn start(stage: &Stage, role: Role, redis_deadline_ms: u64) -> Result<Self, StartError> {
        let backend = &stage.stack.backend;
        let redis = Proxy::start(stage.redis_address()?).await?;
        let dynamodb = Proxy::start(backend.dynamodb.endpoint().trim_start_matches("http://").parse()?).await?;
        let sqs = Proxy::start(backend.sqs.endpoint().trim_start_matches("http://").parse()?).await?;
        let url = |url: &Option<String>| url.clone().unwrap_or_default();
        let orders = Orders {
            role,
            redis_url: format!("redis://{}", redis.address()),
            redis_deadline_ms,
            dynamodb: format!("http://{}", dynamodb.address()),
            sqs: format!("http://{}", sqs.address()),
            roll_back_url: url(&backend.queues.roll_back_url),
            fulfilment_url: url(&backend.queues.fulfilment_url),
            dead_letter_url: url(&backend.queues.dead_letter_url),
            secret: stage.secret.clone(),
        };
        let (child, address) = timeout(CHILD_LIMIT, spawn(&stage.program, &orders)).await??;
        let id = child.id().ok_or("the child is gone")?;
        Ok(Self { redis, dynamodb, sqs, address, id, child })
    }

    /// Kills it with SIGKILL; answers the signal that it really died of.
    ///
    /// # Errors
    /// When it is gone already or does not go.
    pub async fn kill(mut self) -> Result<Option<i32>, StartError> {
        self.child.start_kill()?;
        let status = timeout(CHILD_LIMIT, self.child.wait()).await??;
        Ok(status.signal())
    }
}

/// The child, and the address that it serves at.
async fn spawn(program: &Path, orders: &Orders) -> Result<(Child, Option<SocketAddr>), StartError> {
    let mut command = Command::new(program);
    command.arg("worker").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let stdin = child.stdin.as_mut().ok_or("the child has no input")?;
    stdin.write_all(format!("{}\n", serde_json::to_string(orders)?).as_bytes()).await?;
    let stdout = child.stdout.take().ok_or("the child has no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line).await?;
    let address = line.trim_end().strip_prefix("ready").ok_or("the child did not start")?.trim();
    Ok((child, if address.is_empty() { None } else { Some(address.parse()?) }))
}

/// What the child does: works until its input closes, which it does however the parent ends.
///
/// # Errors
/// When the orders make no sense or a server cannot be reached.
pub async fn run() -> Result<(), StartError> {
    let mut input = BufReader::new(tokio::io::stdin());
    let mut line = String::new();
    input.read_line(&mut line).await?;
    let orders: Orders = serde_json::from_str(&line)?;
    let wiring = connect(&orders).await;
    let mut background = Background::default();
    let mut gateway = None;
    match orders.role {
        Role::Serve => gateway = Some(serve(&orders, &wiring).await?),
        Role::RollBack => roll_back(&orders, &wiring, &mut background).await,
        Role::Reconcile => reconcile(wiring, Skewed(|_| 0), &mut background),
        Role::ReconcileLater => reconcile(wiring, Skewed(|_| AHEAD_MS), &mut background),
    }
    println!("ready {}", gateway.as_ref().map(|gateway| gateway.address().to_string()).unwrap_or_default());
    let mut rest = Vec::new();
    input.read_to_end(&mut rest).await?;
    Ok(())
}

async fn connect(orders: &Orders) -> Wiring {
    let clients = Clients::new(&orders.dynamodb, &orders.sqs).await;
    let redis = RedisConfig::new(vec![orders.redis_url.clone()], false, orders.redis_deadline_ms);
    let queues = QueueConfig {
        roll_back_url: Some(orders.roll_back_url.clone()),
        fulfilment_url: Some(orders.fulfilment_url.clone()),
        dead_letter_url: Some(orders.dead_letter_url.clone()),
    };
    let database = Database::new(clients.dynamodb, clients.tables);
    Wiring::new(Gate::new(Some(redis)), database, Queues::new(clients.sqs, queues))
}

async fn serve(orders: &Orders, wiring: &Wiring) -> Result<Gateway, StartError> {
    let keys = Arc::new(TokenKeys::new(signing_key(1)?, None)?);
    let functions = wire::functions(wiring, &keys);
    let nothing = Arc::new(|_| Box::pin(async { Err(StateError::UnknownActivity) }) as crate::functions::Later<_>);
    let local = LocalApi::of(&functions, nothing);
    let api = Api { functions, authorizer: Arc::new(Authorizer::new(orders.secret.clone())), local };
    Ok(Gateway::start(0, api).await?)
}

async fn roll_back(orders: &Orders, wiring: &Wiring, background: &mut Background) {
    let clients = Clients::new(&orders.dynamodb, &orders.sqs).await;
    let keys = signing_key(1).and_then(|key| Ok(TokenKeys::new(key, None)?));
    let Ok(keys) = keys else { return };
    let poller = QueuePoller {
        client: clients.sqs,
        queue_url: orders.roll_back_url.clone(),
        queue_arn: "arn:aws:sqs:eu-west-1:000000000000:roll-back".to_owned(),
        function: wire::functions(wiring, &Arc::new(keys)).roll_back,
        counts: Arc::default(),
    };
    for _ in 0..POLLERS {
        background.spawn(|stop| poller.clone().run(stop));
    }
}

fn reconcile(wiring: Wiring, clock: Skewed, background: &mut Background) {
    background.spawn(|mut stop| async move {
        let run = Reconcile { store: wiring.database, gate: wiring.gate, clock };
        while !stop.is_set() {
            // What it could not do, the next one does.
            let _ = run.run(Instant::now() + RUN_LIMIT).await;
            stop.sleep(RECONCILE_PAUSE).await;
        }
    });
}
