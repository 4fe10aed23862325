//! The whole system in this process: servers, functions, gateway, pollers and schedule.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodbstreams::Client as StreamsClient;
use aws_sdk_sqs::config::timeout::TimeoutConfig;
use aws_sdk_sqs::types::QueueAttributeName;
use harness::{Backend, Options};
use holdfast::config::RedisConfig;
use holdfast::domain::token::TokenKeys;

use crate::background::Background;
use crate::faults::skew::{self, Ahead};
use crate::functions::{Functions, ScheduledFunction};
use crate::gateway::jwt::Authorizer;
use crate::gateway::local::LocalApi;
use crate::gateway::{Api, Gateway};
use crate::pollers::fulfilment::Fulfilment;
use crate::pollers::queue::{QueueCounts, QueuePoller};
use crate::pollers::stream::{StreamCounts, StreamPoller};
use crate::pollers::{explain, schedule};
use crate::stores::Stores;
use crate::wire;

/// Tasks that receive from the roll-back queue.
const ROLL_BACK_POLLERS: usize = 2;
/// Tasks that stand in for fulfilment.
const FULFILMENT_READERS: usize = 4;
/// How long a received roll-back message stays hidden, as in the template.
const VISIBILITY: Duration = Duration::from_mins(2);

/// How long a receive may take: several times what it waits for messages.
const POLL_LIMIT: Duration = Duration::from_secs(10);

/// What can be set when the stack starts.
#[derive(Clone, Debug)]
pub struct StackOptions {
    /// Port of the HTTP API; 0 takes a free one.
    pub port: u16,
    /// Added to every call of the local `DynamoDB`.
    pub latency: Duration,
    /// A Redis that is there already, as `redis://…`. One is started if there is none.
    pub redis_url: Option<String>,
    /// How long one call of Redis may take, in milliseconds.
    pub redis_deadline_ms: u64,
    /// Interval of the reconciliation.
    pub reconcile_every: Duration,
    /// Whether order events are taken from their queue, as fulfilment would.
    pub fulfil: bool,
}

/// What a stack needs beside its backend and functions.
pub struct Assembly {
    /// Port of the HTTP API; 0 takes a free one.
    pub port: u16,
    /// Signs access tokens.
    pub secret: Vec<u8>,
    /// Interval of the reconciliation.
    pub reconcile_every: Duration,
    /// Whether order events are taken from their queue, as fulfilment would.
    pub fulfil: bool,
}

/// The running stack.
pub struct Stack {
    pub authorizer: Arc<Authorizer>,
    pub reconcile: ScheduledFunction,
    pub roll_back: Arc<QueueCounts>,
    pub stream: Arc<StreamCounts>,
    pub fulfilment: Fulfilment,
    pub stores: Stores,
    gateway: Gateway,
    background: Background,
    pub backend: Backend,
}

/// Why the stack does not start.
pub type StartError = Box<dyn Error + Send + Sync>;

impl Stack {
    /// Starts everything; requests are served when this returns.
    ///
    /// # Errors
    /// When a port is taken, `redis-server` is missing, or a server does not answer.
    pub async fn start(options: StackOptions) -> Result<Self, StartError> {
        let redis = options.redis_url.map(|url| RedisConfig::new(vec![url], false, options.redis_deadline_ms));
        let backend = Backend::start(Options {
            latency: options.latency,
            redis,
            redis_deadline_ms: options.redis_deadline_ms,
            visibility: VISIBILITY,
        })
        .await?;
        let functions = wire::functions(&backend.wiring, &backend.keys);
        let stores = Stores::new(&backend)?;
        let settings = Assembly {
            port: options.port,
            secret: random_secret()?,
            reconcile_every: options.reconcile_every,
            fulfil: options.fulfil,
        };
        Self::assemble(backend, functions, stores, settings).await
    }

    /// The stack on a backend that is up, with these functions.
    ///
    /// # Errors
    /// When the port is taken or a server does not answer.
    pub async fn assemble(
        backend: Backend,
        functions: Functions,
        stores: Stores,
        settings: Assembly,
    ) -> Result<Self, StartError> {
        let authorizer = Arc::new(Authorizer::new(settings.secret));
        let local = LocalApi::of(&functions, stores.clone().state_reader());
        let api = Api { functions: functions.clone(), authorizer: Arc::clone(&authorizer), local };
        let gateway = Gateway::start(settings.port, api).await?;
        let mut stack = Self {
            authorizer,
            reconcile: Arc::clone(&functions.reconcile),
            roll_back: Arc::default(),
            stream: Arc::default(),
            fulfilment: Fulfilment::default(),
            stores,
            gateway,
            background: Background::default(),
            backend,
        };
        stack.poll(functions, settings.reconcile_every, settings.fulfil).await?;
        Ok(stack)
    }

    async fn poll(&mut self, functions: Functions, every: Duration, fulfil: bool) -> Result<(), StartError> {
        let queue_url = self.backend.queues.roll_back_url.clone().unwrap_or_default();
        let roll_back = QueuePoller {
            client: long_polls(&self.backend),
            queue_arn: self.queue_arn(&queue_url).await?,
            queue_url,
            function: functions.roll_back,
            counts: Arc::clone(&self.roll_back),
        };
        for _ in 0..ROLL_BACK_POLLERS {
            self.background.spawn(|stop| roll_back.clone().run(stop));
        }
        let stream = StreamPoller {
            client: self.streams_client(),
            stream_arn: self.stream_arn().await?,
            function: functions.relay,
            counts: Arc::clone(&self.stream),
        };
        self.background.spawn(|stop| stream.run(stop));
        self.background.spawn(|stop| schedule::run("reconcile", functions.reconcile, every, stop));
        self.background.spawn(|stop| schedule::run("expire_orders", functions.expire_orders, every, stop));
        self.background.spawn(|stop| schedule::run("rebalance_stock", functions.rebalance_stock, every, stop));
        if fulfil {
            let url = self.backend.queues.fulfilment_url.clone().unwrap_or_default();
            for _ in 0..FULFILMENT_READERS {
                let (fulfilment, client, url) = (self.fulfilment.clone(), long_polls(&self.backend), url.clone());
                self.background.spawn(|stop| fulfilment.run(client, url, stop));
            }
        }
        Ok(())
    }

    async fn queue_arn(&self, queue_url: &str) -> Result<String, StartError> {
        let request = self.backend.sdk.sqs.get_queue_attributes().queue_url(queue_url);
        let answer = request.attribute_names(QueueAttributeName::QueueArn).send().await.map_err(explain)?;
        let arn = answer.attributes().and_then(|attributes| attributes.get(&QueueAttributeName::QueueArn));
        Ok(arn.cloned().unwrap_or_default())
    }

    async fn stream_arn(&self) -> Result<String, StartError> {
        let table = &self.backend.sdk.tables.table;
        let described = self.backend.sdk.dynamodb.describe_table().table_name(table).send().await.map_err(explain)?;
        let arn = described.table.and_then(|table| table.latest_stream_arn);
        arn.ok_or_else(|| "the table has no stream".into())
    }

    fn streams_client(&self) -> StreamsClient {
        let config = aws_sdk_dynamodbstreams::config::Builder::from(&self.backend.sdk.config);
        StreamsClient::from_conf(config.endpoint_url(self.backend.dynamodb.endpoint()).build())
    }

    /// Where the HTTP API listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.gateway.address()
    }

    /// Another process of the deployment behind an API of its own, whose clock is so far ahead. It lasts as long as
    /// what is answered.
    ///
    /// # Errors
    /// When no port is free.
    pub async fn process_ahead(&self, ms: i64) -> Result<Gateway, StartError> {
        let functions = skew::functions(&self.backend.another_process(), &self.keys(), Ahead(ms));
        let local = LocalApi::of(&functions, self.stores.clone().state_reader());
        let api = Api { functions, authorizer: Arc::clone(&self.authorizer), local };
        Ok(Gateway::start(0, api).await?)
    }

    /// What a person wants to know of a running stack: one line each.
    #[must_use]
    pub fn describe(&self) -> Vec<(&'static str, String)> {
        let queues = &self.backend.queues;
        let url = |url: &Option<String>| url.clone().unwrap_or_default();
        vec![
            ("HTTP API", format!("http://{}", self.address())),
            ("DynamoDB", self.backend.dynamodb.endpoint().to_owned()),
            ("SQS", self.backend.sqs.endpoint().to_owned()),
            ("Redis", self.backend.redis_config.urls.join(",")),
            ("roll-back queue", url(&queues.roll_back_url)),
            ("its dead letters", self.backend.roll_back_dead_letters.clone()),
            ("fulfilment queue", url(&queues.fulfilment_url)),
            ("relay's dead letters", url(&queues.dead_letter_url)),
        ]
    }

    /// Messages in each dead-letter queue: roll-back's and the relay's.
    ///
    /// # Errors
    /// When SQS does not answer.
    pub async fn dead_letters(&self) -> Result<[u64; 2], StartError> {
        let relay = self.backend.queues.dead_letter_url.clone().unwrap_or_default();
        Ok([self.messages(&self.backend.roll_back_dead_letters).await?, self.messages(&relay).await?])
    }

    /// Messages that wait in the roll-back and fulfilment queues, delayed and hidden ones included.
    ///
    /// # Errors
    /// When SQS does not answer.
    pub async fn messages_waiting(&self) -> Result<u64, StartError> {
        let queues = &self.backend.queues;
        let (roll_back, fulfilment) = (queues.roll_back_url.as_deref(), queues.fulfilment_url.as_deref());
        Ok(self.messages(roll_back.unwrap_or_default()).await? + self.messages(fulfilment.unwrap_or_default()).await?)
    }

    /// Calls of the database so far by operation, those that it refused included.
    #[must_use]
    pub fn database_calls(&self) -> BTreeMap<String, u64> {
        self.backend.dynamodb.control().counts()
    }

    /// The keys of order tokens.
    #[must_use]
    pub fn keys(&self) -> Arc<TokenKeys> {
        Arc::clone(&self.backend.keys)
    }

    async fn messages(&self, queue_url: &str) -> Result<u64, StartError> {
        use QueueAttributeName as Name;
        let names = [
            Name::ApproximateNumberOfMessages,
            Name::ApproximateNumberOfMessagesNotVisible,
            Name::ApproximateNumberOfMessagesDelayed,
        ];
        let request = self.backend.sdk.sqs.get_queue_attributes().queue_url(queue_url);
        let answer = request.set_attribute_names(Some(names.to_vec())).send().await.map_err(explain)?;
        let attributes = answer.attributes.unwrap_or_default();
        let count = |name| attributes.get(name).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        Ok(names.iter().map(count).sum())
    }

    /// Stops everything, in the order in which nothing is lost: first what brings in work, then what
    /// works on it, then the servers.
    pub async fn stop(self) {
        self.gateway.stop().await;
        self.background.stop().await;
        self.backend.sqs.stop().await;
        self.backend.dynamodb.stop().await;
        // The Redis child ends when it is dropped.
        drop(self.backend.redis);
    }
}

/// A secret for access tokens.
///
/// # Errors
/// When the system has no random bytes.
pub fn random_secret() -> Result<Vec<u8>, StartError> {
    let mut secret = vec![0; 32];
    getrandom::fill(&mut secret).map_err(|error| error.to_string())?;
    Ok(secret)
}

/// A client whose receives may wait longer than a function's calls may take: one that is given up
/// too early takes messages with it.
#[must_use]
pub fn long_polls(backend: &Backend) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::config::Builder::from(&backend.sdk.config).endpoint_url(backend.sqs.endpoint());
    let patient = TimeoutConfig::builder().operation_attempt_timeout(POLL_LIMIT).operation_timeout(POLL_LIMIT * 2);
    aws_sdk_sqs::Client::from_conf(config.timeout_config(patient.build()).build())
}
