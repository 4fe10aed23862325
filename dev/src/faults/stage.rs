//! Where a fault plays: a small stack of its own, with a proxy before Redis and a schedule that can be
//! stopped.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use harness::{Backend, Options, events, sample};
use holdfast::adapters::{dynamodb::Database, redis::Gate, sqs::Queues};
use holdfast::config::RedisConfig;
use holdfast::lambda::Wiring;
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use servers::{Proxy, Redis, RedisCluster, RedisOptions};

use super::setup::{RedisKind, Setup};
use super::tally::Repairs;
use crate::background::Background;
use crate::functions::{Functions, HttpFunction};
use crate::stack::{Assembly, Stack, StartError, random_secret};
use crate::stores::{Reader, Stores};
use crate::wire;

/// The activity that is sold, if nothing else is said.
const ACTIVITY: &str = "sale";
/// How long a received roll-back message stays hidden: short, so that five receives do not take minutes.
const VISIBILITY: Duration = Duration::from_secs(1);
/// The stack's own schedule is not used: it cannot be stopped before the rest.
const NEVER: Duration = Duration::from_hours(24);

/// The processes of a deployment as buyers reach them: each call goes to the next one. Queue, stream and
/// schedule stay with those that the stack was started with. Clones share them.
#[derive(Clone, Default)]
pub struct Deployed(Arc<Mutex<Vec<Functions>>>, Arc<AtomicUsize>);

impl Deployed {
    /// From now on these.
    pub fn set(&self, processes: Vec<Functions>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = processes;
    }

    fn route(&self, which: fn(&Functions) -> &HttpFunction) -> HttpFunction {
        let Self(processes, turn) = self.clone();
        Arc::new(move |request| {
            let processes = processes.lock().unwrap_or_else(PoisonError::into_inner);
            // Never empty.
            let turn = turn.fetch_add(1, Ordering::Relaxed) % processes.len().max(1);
            which(&processes[turn])(request)
        })
    }

    /// The functions as the gateway calls them.
    fn functions(&self, others: Functions) -> Functions {
        Functions {
            issue_token: self.route(|functions| &functions.issue_token),
            place_order: self.route(|functions| &functions.place_order),
            query: self.route(|functions| &functions.query),
            ..others
        }
    }
}

/// The Redis processes.
pub enum RedisServers {
    Single(Redis),
    Pair {
        primary: Redis,
        replica: Redis,
        /// From the replica to the primary.
        link: Proxy,
    },
    Cluster(RedisCluster),
}

/// The stack of one case.
pub struct Stage {
    pub stack: Stack,
    pub redis: RedisServers,
    /// The functions' way to Redis; a cluster has none, its nodes tell clients their own addresses.
    pub proxy: Option<Proxy>,
    /// The second process's way to Redis.
    pub second_proxy: Option<Proxy>,
    /// The functions' way to SQS, where messages come early.
    pub sqs_proxy: Option<Proxy>,
    pub deployed: Deployed,
    /// The activity that is sold now.
    pub activity: String,
    /// The activity as it was saved first.
    pub draft: Value,
    pub repairs: Repairs,
    /// Signs access tokens.
    pub secret: Vec<u8>,
    /// The program whose children are function processes.
    pub program: PathBuf,
    schedule: Option<Background>,
    /// Where the tools of the suite find Redis.
    direct: RedisConfig,
}

impl Stage {
    /// Starts everything and opens the sale.
    ///
    /// # Errors
    /// When a server does not start.
    pub async fn start(setup: &Setup, program: PathBuf) -> Result<Self, StartError> {
        let (redis, direct) = start_redis(setup).await?;
        let proxy = if direct.cluster { None } else { Some(Proxy::start(address_of(&direct)?).await?) };
        let config = proxy.as_ref().map_or_else(|| direct.clone(), |proxy| through(proxy, setup));
        let backend = Backend::start(Options {
            latency: setup.latency,
            redis: Some(config),
            redis_deadline_ms: setup.redis_deadline_ms,
            visibility: VISIBILITY,
        })
        .await?;
        let mut backend = backend;
        let mut sqs_proxy = None;
        if setup.early_messages {
            sqs_proxy = Some(hasten(&mut backend).await?);
        }
        let mut functions = wire::functions(&backend.wiring, &backend.keys);
        functions = setup.wrap.map_or_else(|| functions.clone(), |wrap| wrap(functions.clone()));
        let mut processes = vec![functions.clone()];
        let mut second_proxy = None;
        if let Some(second) = setup.second {
            let proxy = Proxy::start(address_of(&direct)?).await?;
            let wiring = another_process(&backend, through(&proxy, setup));
            processes.push(second(&wiring, &backend.keys));
            second_proxy = Some(proxy);
        }
        let deployed = Deployed::default();
        deployed.set(processes);
        let functions = deployed.functions(functions);
        let stores = Stores::with(&backend, reader(&direct)?);
        let secret = random_secret()?;
        let assembly = Assembly { port: 0, secret: secret.clone(), reconcile_every: NEVER, fulfil: true };
        let stack = Stack::assemble(backend, functions, stores, assembly).await?;
        let mut stage = Self {
            stack,
            redis,
            proxy,
            second_proxy,
            sqs_proxy,
            deployed,
            activity: ACTIVITY.to_owned(),
            draft: Value::Null,
            repairs: Repairs::default(),
            secret,
            program,
            schedule: None,
            direct,
        };
        stage.open(setup, ACTIVITY).await;
        if let Some(every) = setup.reconcile_every {
            stage.start_schedule(every);
        }
        Ok(stage)
    }

    /// Opens a sale, which is the one that is sold from now on.
    ///
    /// # Panics
    /// When a server refuses it.
    pub async fn open(&mut self, setup: &Setup, activity: &str) {
        let skus: Vec<_> =
            setup.skus.iter().map(|sku| json!({"sku": sku, "stock": setup.units, "price": 4_900})).collect();
        let fields = json!({
            "skus": skus, "buckets": setup.buckets, "bucket_rate": setup.bucket_rate,
            "limit": {"scope": "activity", "max": setup.limit},
        });
        let draft = sample::with(sample::activity("a", setup.units), &fields);
        events::open(&self.stack.backend.wiring, activity, &draft).await;
        activity.clone_into(&mut self.activity);
        self.draft = draft;
    }

    /// Runs the reconciliation at every interval until [`Self::stop_schedule`].
    pub fn start_schedule(&mut self, every: Duration) {
        let (reconcile, repairs) = (Arc::clone(&self.stack.reconcile), self.repairs.clone());
        let schedule = self.schedule.get_or_insert_default();
        schedule.spawn(|mut stop| async move {
            loop {
                stop.sleep(every).await;
                if stop.is_set() {
                    return;
                }
                match reconcile().await {
                    Ok(report) => repairs.add(&report),
                    Err(error) => tracing::warn!(error, "reconciliation failed"),
                }
            }
        });
    }

    /// Ends the schedule; a run under way is waited for.
    pub async fn stop_schedule(&mut self) {
        if let Some(schedule) = self.schedule.take() {
            schedule.stop().await;
        }
    }

    /// Counts begin anew: what a case sees is its own.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn reset_counts(&self) -> Result<(), StartError> {
        self.repairs.clear();
        for control in [self.stack.backend.dynamodb.control(), self.stack.backend.sqs.control()] {
            control.clear();
            control.reset_counts();
        }
        if let Some(proxy) = &self.proxy {
            proxy.reset_counts();
        }
        redis::cmd("CONFIG").arg("RESETSTAT").query_async::<()>(&mut self.connect().await?).await?;
        Ok(())
    }

    /// The proxy before Redis.
    ///
    /// # Errors
    /// With a cluster, which has none.
    pub fn proxy(&self) -> Result<&Proxy, StartError> {
        self.proxy.as_ref().ok_or_else(|| "a cluster has no proxy".into())
    }

    /// The only Redis.
    ///
    /// # Errors
    /// When there are several.
    pub fn single(&mut self) -> Result<&mut Redis, StartError> {
        match &mut self.redis {
            RedisServers::Single(redis) => Ok(redis),
            _ => Err("there are several Redis servers".into()),
        }
    }

    /// From now on this Redis is the primary, for the suite's own tools and for new connections of
    /// functions.
    ///
    /// # Errors
    /// When the URL makes no sense.
    pub fn switch_to(&mut self, url: &str) -> Result<(), StartError> {
        self.direct.urls = vec![url.to_owned()];
        self.stack.stores = Stores::with(&self.stack.backend, reader(&self.direct)?);
        let address = address_of(&self.direct)?;
        self.proxy()?.redirect(address);
        Ok(())
    }

    /// A connection of the suite's own to the primary, past the proxy.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn connect(&self) -> Result<MultiplexedConnection, StartError> {
        let url = self.direct.urls.first().map_or("", String::as_str);
        Ok(redis::Client::open(url)?.get_multiplexed_async_connection().await?)
    }

    /// Where the primary is.
    ///
    /// # Errors
    /// Never with one that was started here.
    pub fn redis_address(&self) -> Result<SocketAddr, StartError> {
        address_of(&self.direct)
    }

    /// Another process of the deployment, by its own proxy to Redis where there is one.
    ///
    /// # Errors
    /// With a cluster.
    pub fn another_process(&self, setup: &Setup) -> Result<Wiring, StartError> {
        let proxy = self.second_proxy.as_ref().map_or_else(|| self.proxy(), Ok)?;
        Ok(another_process(&self.stack.backend, through(proxy, setup)))
    }

    /// Stops everything.
    pub async fn stop(mut self) {
        self.stop_schedule().await;
        self.stack.stop().await;
    }
}

async fn start_redis(setup: &Setup) -> Result<(RedisServers, RedisConfig), StartError> {
    let (servers, urls, cluster) = match &setup.redis {
        RedisKind::Single(options) => {
            let redis = Redis::start(options.clone()).await?;
            let url = redis.url().to_owned();
            (RedisServers::Single(redis), vec![url], false)
        }
        RedisKind::Pair => {
            let primary = Redis::start(RedisOptions::default()).await?;
            let replica = Redis::start(RedisOptions::default()).await?;
            let link = Proxy::start(SocketAddr::from(([127, 0, 0, 1], primary.port()))).await?;
            let url = primary.url().to_owned();
            (RedisServers::Pair { primary, replica, link }, vec![url], false)
        }
        RedisKind::Cluster => {
            let cluster = RedisCluster::start().await?;
            let urls = cluster.urls();
            (RedisServers::Cluster(cluster), urls, true)
        }
    };
    let config = RedisConfig::new(urls, cluster, setup.redis_deadline_ms);
    Ok((servers, config))
}

fn reader(config: &RedisConfig) -> Result<Reader, StartError> {
    Ok(if config.cluster {
        Reader::Cluster(Box::new(redis::cluster::ClusterClient::new(config.urls.clone())?))
    } else {
        Reader::Single(Box::new(redis::Client::open(config.urls.first().map_or("", String::as_str))?))
    })
}

fn address_of(config: &RedisConfig) -> Result<SocketAddr, StartError> {
    let url = config.urls.first().map_or("", String::as_str);
    Ok(url.trim_start_matches("redis://").parse()?)
}

fn through(proxy: &Proxy, setup: &Setup) -> RedisConfig {
    RedisConfig::new(vec![format!("redis://{}", proxy.address())], false, setup.redis_deadline_ms)
}

/// Another process of the same deployment: its own connections and caches.
#[must_use]
pub fn another_process(backend: &Backend, redis: RedisConfig) -> Wiring {
    Wiring::new(
        Gate::new(Some(redis)),
        Database::new(backend.sdk.dynamodb.clone(), backend.sdk.tables.clone()),
        Queues::new(backend.sdk.sqs.clone(), backend.queues.clone()),
    )
}

/// Lets the functions send through a proxy that takes the delay off messages.
async fn hasten(backend: &mut Backend) -> Result<Proxy, StartError> {
    let proxy = Proxy::start(backend.sqs.endpoint().trim_start_matches("http://").parse()?).await?;
    proxy.rewrite(b"\"DelaySeconds\":10".to_vec(), b"\"DelaySeconds\": 0".to_vec())?;
    let config = aws_sdk_sqs::config::Builder::from(&backend.sdk.config);
    let client = aws_sdk_sqs::Client::from_conf(config.endpoint_url(format!("http://{}", proxy.address())).build());
    backend.wiring.queues = Queues::new(client, backend.queues.clone());
    Ok(proxy)
}
