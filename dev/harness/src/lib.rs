//! A whole local backend: DynamoDB, SQS and Redis with the product's tables, queues and clients.
//!
//! Tests start one each; the runner starts one and serves it.

pub mod answers;
pub mod contract;
pub mod events;
pub mod faulty;
pub mod http;
pub mod sample;

use std::{error::Error, sync::Arc, time::Duration};

use aws_config::{Region, SdkConfig};
use aws_sdk_dynamodb::config::Credentials;
use aws_sdk_sqs::types::QueueAttributeName;
use holdfast::{
    adapters::{aws, dynamodb::Database, redis::Gate, sqs::Queues},
    config::{QueueConfig, RedisConfig, TableConfig},
    domain::{
        token::{SigningKey, TokenKeys},
        webhook::WebhookSecrets,
    },
    lambda::Wiring,
};
use servers::{Dynamodb, DynamodbOptions, Redis, RedisOptions, Sqs};

/// Receives after which a message is a dead letter, as in the template.
pub const RECEIVES_MAX: u32 = 5;
/// The table and the audit table.
const TABLE: &str = "holdfast";
const AUDIT_TABLE: &str = "holdfast-audit";
/// A secret that every reader of this file knows: for local servers only.
const LOCAL_SECRET: [u8; 32] = [0; 32];

/// The payment provider's secret, known to every reader as well.
#[must_use]
pub fn webhook_secrets() -> WebhookSecrets {
    WebhookSecrets::new(vec![LOCAL_SECRET.to_vec()]).unwrap_or_else(|_| unreachable!("one secret of 32 bytes"))
}

/// How the backend is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Added to every call of DynamoDB.
    pub latency: Duration,
    /// A Redis that is there already; otherwise one is started.
    pub redis: Option<RedisConfig>,
    /// How long one call of Redis may take, in milliseconds. On a machine that also runs the clients and the database,
    /// more than on AWS.
    pub redis_deadline_ms: u64,
    /// How long a message that was received stays hidden.
    pub visibility: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { latency: Duration::ZERO, redis: None, redis_deadline_ms: 1_000, visibility: Duration::from_secs(30) }
    }
}

/// The running servers and the clients of the functions. Dropping it stops all of it.
pub struct Backend {
    pub dynamodb: Dynamodb,
    pub sqs: Sqs,
    /// `None` when it was started by somebody else.
    pub redis: Option<Redis>,
    pub redis_config: RedisConfig,
    pub wiring: Wiring,
    pub queues: QueueConfig,
    /// Where messages of the roll-back queue go after [`RECEIVES_MAX`] receives.
    pub roll_back_dead_letters: String,
    pub sdk: Clients,
    pub keys: Arc<TokenKeys>,
}

/// Clients for looking at the servers from outside.
#[derive(Clone)]
pub struct Clients {
    pub config: SdkConfig,
    pub dynamodb: aws_sdk_dynamodb::Client,
    pub sqs: aws_sdk_sqs::Client,
    pub tables: TableConfig,
}

impl Backend {
    /// # Errors
    /// When a server does not start or refuses a table or queue.
    pub async fn start(options: Options) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let dynamodb = Dynamodb::start(DynamodbOptions { latency: Duration::ZERO, conflicts: true }).await?;
        let sqs = Sqs::start().await?;
        let redis = if options.redis.is_none() { Some(Redis::start(RedisOptions::default()).await?) } else { None };
        let started = redis
            .as_ref()
            .map(|redis| RedisConfig::new(vec![redis.url().to_owned()], false, options.redis_deadline_ms));
        let redis_config = options.redis.or(started).ok_or("no Redis")?;
        let sdk = Clients::new(dynamodb.endpoint(), sqs.endpoint()).await;
        let database = Database::new(sdk.dynamodb.clone(), sdk.tables.clone());
        database.create_tables().await?;
        let (queues, roll_back_dead_letters) = create_queues(&sdk.sqs, options.visibility).await?;
        let wiring =
            Wiring::new(Gate::new(Some(redis_config.clone())), database, Queues::new(sdk.sqs.clone(), queues.clone()));
        dynamodb.set_latency(options.latency);
        let keys = Arc::new(TokenKeys::new(SigningKey::new(1, LOCAL_SECRET.to_vec())?, None)?);
        Ok(Self { dynamodb, sqs, redis, redis_config, wiring, queues, roll_back_dead_letters, sdk, keys })
    }

    /// Another process of the same deployment: its own connections and caches.
    #[must_use]
    pub fn another_process(&self) -> Wiring {
        Wiring::new(
            Gate::new(Some(self.redis_config.clone())),
            Database::new(self.sdk.dynamodb.clone(), self.sdk.tables.clone()),
            Queues::new(self.sdk.sqs.clone(), self.queues.clone()),
        )
    }
}

impl Clients {
    /// Clients of servers that run already.
    pub async fn new(dynamodb_endpoint: &str, sqs_endpoint: &str) -> Self {
        let config = aws::loader()
            .region(Region::from_static("eu-west-1"))
            .credentials_provider(Credentials::new("local", "local", None, None, "harness"))
            .load()
            .await;
        let at_dynamodb = aws_sdk_dynamodb::config::Builder::from(&config).endpoint_url(dynamodb_endpoint).build();
        let at_sqs = aws_sdk_sqs::config::Builder::from(&config).endpoint_url(sqs_endpoint).build();
        Self {
            dynamodb: aws_sdk_dynamodb::Client::from_conf(at_dynamodb),
            sqs: aws_sdk_sqs::Client::from_conf(at_sqs),
            config,
            tables: TableConfig { table: TABLE.to_owned(), audit_table: AUDIT_TABLE.to_owned() },
        }
    }
}

/// The roll-back queue with its dead letters, the fulfilment queue and the relay's dead letters.
async fn create_queues(
    client: &aws_sdk_sqs::Client,
    visibility: Duration,
) -> Result<(QueueConfig, String), Box<dyn Error + Send + Sync>> {
    let dead_letters = create_queue(client, "roll-back-dead-letters", &[]).await?;
    let attributes =
        client.get_queue_attributes().queue_url(&dead_letters).attribute_names(QueueAttributeName::QueueArn);
    let answer = attributes.send().await?;
    let arn = answer.attributes().and_then(|all| all.get(&QueueAttributeName::QueueArn)).cloned().unwrap_or_default();
    let redrive = serde_json::json!({"deadLetterTargetArn": arn, "maxReceiveCount": RECEIVES_MAX}).to_string();
    let visibility = visibility.as_secs().to_string();
    let roll_back = create_queue(
        client,
        "roll-back",
        &[(QueueAttributeName::RedrivePolicy, &redrive), (QueueAttributeName::VisibilityTimeout, &visibility)],
    )
    .await?;
    let queues = QueueConfig {
        roll_back_url: Some(roll_back),
        fulfilment_url: Some(create_queue(client, "fulfilment", &[]).await?),
        dead_letter_url: Some(create_queue(client, "relay-dead-letters", &[]).await?),
    };
    Ok((queues, dead_letters))
}

async fn create_queue(
    client: &aws_sdk_sqs::Client,
    name: &str,
    attributes: &[(QueueAttributeName, &str)],
) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut request = client.create_queue().queue_name(name);
    for (attribute, value) in attributes {
        request = request.attributes(attribute.clone(), *value);
    }
    Ok(request.send().await?.queue_url.unwrap_or_default())
}
