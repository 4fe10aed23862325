//! What a function is told of its surroundings: the local servers as it reaches them.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};

use harness::Backend;
use servers::Proxy;

/// The key of the harness, and its secret for webhooks: 32 zero bytes.
const SECRET: &str = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
/// How long a call of Redis may take, in milliseconds: everything shares this machine.
const REDIS_DEADLINE_MS: &str = "1000";
/// The region of the harness's clients: the local SQS keeps the queues of each apart.
pub const REGION: &str = "eu-west-1";

/// The servers of one case.
#[derive(Clone, Debug)]
pub struct Endpoints {
    pub dynamodb: String,
    pub sqs: String,
    pub redis: String,
}

impl Endpoints {
    /// For a process of this machine.
    #[must_use]
    pub fn here(backend: &Backend) -> Self {
        Self {
            dynamodb: backend.dynamodb.endpoint().to_owned(),
            sqs: backend.sqs.endpoint().to_owned(),
            redis: backend.redis_config.urls.join(","),
        }
    }

    /// `DynamoDB`, SQS, Redis.
    #[must_use]
    pub fn all(&self) -> [&str; 3] {
        [&self.dynamodb, &self.sqs, &self.redis]
    }
}

/// The same servers on an address that a container reaches, for as long as this lives.
pub struct Site {
    pub endpoints: Endpoints,
    _proxies: [Proxy; 3],
}

impl Site {
    /// # Errors
    /// When the address is not this machine's.
    pub async fn at(address: IpAddr, backend: &Backend) -> io::Result<Self> {
        let here = Endpoints::here(backend);
        let dynamodb = Proxy::start_at(address, socket(&here.dynamodb)?).await?;
        let sqs = Proxy::start_at(address, socket(&here.sqs)?).await?;
        let redis = Proxy::start_at(address, socket(&here.redis)?).await?;
        let endpoints = Endpoints {
            dynamodb: format!("http://{}", dynamodb.address()),
            sqs: format!("http://{}", sqs.address()),
            redis: format!("redis://{}", redis.address()),
        };
        Ok(Self { endpoints, _proxies: [dynamodb, sqs, redis] })
    }
}

fn socket(url: &str) -> io::Result<SocketAddr> {
    let address = url.split_once("://").map_or(url, |(_, address)| address);
    address.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, format!("{url}: {error}")))
}

/// The environment that a deployment would give a function. Each takes what its part of the template declares.
#[must_use]
pub fn variables(backend: &Backend, endpoints: &Endpoints) -> BTreeMap<&'static str, String> {
    let (tables, queues) = (&backend.sdk.tables, &backend.queues);
    let url = |url: &Option<String>| url.clone().unwrap_or_default();
    BTreeMap::from([
        ("HOLDFAST_TABLE", tables.table.clone()),
        ("HOLDFAST_AUDIT_TABLE", tables.audit_table.clone()),
        ("HOLDFAST_TOKEN_KEYS", format!("1:{SECRET}")),
        ("HOLDFAST_WEBHOOK_SECRETS", SECRET.to_owned()),
        // Those that name a secret of Secrets Manager: here it is told in clear.
        ("HOLDFAST_TOKEN_KEYS_SECRET", String::new()),
        ("HOLDFAST_WEBHOOK_SECRETS_SECRET", String::new()),
        ("HOLDFAST_REDIS_PASSWORD_SECRET", String::new()),
        ("HOLDFAST_REDIS_PASSWORD", String::new()),
        ("HOLDFAST_REDIS_URL", endpoints.redis.clone()),
        ("HOLDFAST_REDIS_CLUSTER", "false".to_owned()),
        ("HOLDFAST_REDIS_DEADLINE_MS", REDIS_DEADLINE_MS.to_owned()),
        ("HOLDFAST_ROLL_BACK_QUEUE_URL", url(&queues.roll_back_url)),
        ("HOLDFAST_FULFILMENT_QUEUE_URL", url(&queues.fulfilment_url)),
        ("HOLDFAST_DEAD_LETTER_QUEUE_URL", url(&queues.dead_letter_url)),
        ("AWS_ENDPOINT_URL_DYNAMODB", endpoints.dynamodb.clone()),
        ("AWS_ENDPOINT_URL_SQS", endpoints.sqs.clone()),
    ])
}
