//! The built function as a process of its own, started, frozen and thawed as Lambda does it, on real servers.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)] // tests

use std::{
    io::Read as _,
    process::{Child, Command, Stdio},
    sync::Arc,
    time::Duration,
};

use harness::{Backend, Options, events, sample};
use holdfast::{
    config::RedisConfig,
    domain::{
        ids::{ActivityId, BuyerId},
        token::{Page, TOKEN_LIFE_MS, Token, TokenId},
    },
    ports::{Clock as _, SystemClock},
};
use serde_json::{Value, json};
use servers::{Certificate, Flow, Proxy, Redis, RedisCluster, RedisOptions, RuntimeApi, Weather, trace_id, until};
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_secs(20);

/// A function process, ended on drop.
struct Function {
    child: Child,
    api: RuntimeApi,
}

impl Drop for Function {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Function {
    /// Reaches the database through one proxy and Redis through another.
    async fn between(backend: &Backend, database: &Proxy, redis: &Proxy, more: &[(&str, &str)]) -> Self {
        let (database, redis) = (format!("http://{}", database.address()), format!("redis://{}", redis.address()));
        let reached = [("AWS_ENDPOINT_URL_DYNAMODB", database.as_str()), ("HOLDFAST_REDIS_URL", &redis)];
        Self::start(backend, &[&reached, more].concat()).await
    }

    async fn start(backend: &Backend, more: &[(&str, &str)]) -> Self {
        let api = RuntimeApi::start().await.unwrap();
        let queue = backend.queues.roll_back_url.clone().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_place-order"))
            .env_clear()
            .envs(api.environment())
            .envs([
                ("AWS_ENDPOINT_URL_DYNAMODB", backend.dynamodb.endpoint()),
                ("AWS_ENDPOINT_URL_SQS", backend.sqs.endpoint()),
                ("HOLDFAST_TABLE", &backend.sdk.tables.table),
                ("HOLDFAST_AUDIT_TABLE", &backend.sdk.tables.audit_table),
                ("HOLDFAST_ROLL_BACK_QUEUE_URL", &queue),
                ("HOLDFAST_REDIS_DEADLINE_MS", "1000"),
                // The harness's own.
                ("HOLDFAST_TOKEN_KEYS", "1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="),
            ])
            .envs(more.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let function = Self { child, api };
        timeout(LIMIT, function.api.first_asked()).await.expect("it asks for an event");
        function
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
    }

    /// The one order of a buyer: again it is a repeat.
    async fn order(&self, backend: &Backend, buyer: &str) -> (u64, Value) {
        let token = backend.keys.sign(&Token {
            activity: ActivityId::parse("demo").unwrap(),
            buyer: BuyerId::parse(buyer).unwrap(),
            page: Page::default(),
            id: TokenId::from_bytes([buyer.as_bytes()[0]; 16]),
            expires_at: SystemClock.now().plus_ms(TOKEN_LIFE_MS),
        });
        self.submit(buyer, &token).await
    }

    async fn submit(&self, buyer: &str, token: &str) -> (u64, Value) {
        let mut event = events::cases("place-order").into_iter().find(|case| case.name == "ok").unwrap().event;
        event["requestContext"]["authorizer"]["jwt"]["claims"]["sub"] = json!(buyer);
        event["body"] = json!({ "token": token, "lines": [{ "sku": "phone", "quantity": 1 }] }).to_string().into();
        let answer = timeout(LIMIT, self.api.invoke(&event.to_string())).await.expect("an answer in time").unwrap();
        let answer: Value = serde_json::from_str(&answer.unwrap()).unwrap();
        (answer["statusCode"].as_u64().unwrap(), serde_json::from_str(answer["body"].as_str().unwrap()).unwrap())
    }
}

impl Function {
    /// What it wrote to its standard output until now, line by line. It ends with that.
    fn output(mut self) -> Vec<Value> {
        self.child.kill().unwrap();
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

async fn backend() -> (Backend, Proxy, Proxy) {
    let backend = Backend::start(Options::default()).await.unwrap();
    events::open(&backend.wiring, "demo", &sample::activity("phone", 100)).await;
    let at = |url: &str| url.split("//").nth(1).unwrap().trim_end_matches('/').parse().unwrap();
    let database = Proxy::start(at(backend.dynamodb.endpoint())).await.unwrap();
    let redis = Proxy::start(at(&backend.redis_config.urls[0])).await.unwrap();
    (backend, database, redis)
}

/// Closes every connection, and waits until that is so.
async fn cut(proxy: &Proxy) {
    let before = proxy.counts().cut;
    proxy.cut();
    until("a connection is cut", LIMIT, async || Ok((proxy.counts().cut > before).then_some(()))).await.unwrap();
}

/// How long it is frozen in the last round: past every deadline that a call may have, so that all timers are due when
/// it goes on.
const FROZEN: Duration = Duration::from_secs(30);

/// Lambda freezes a process between two events for minutes, in which the other sides close its connections and it
/// cannot notice. The next order must not be the one that finds out.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_order_after_a_thaw_succeeds_though_every_connection_was_closed_meanwhile() {
    let (backend, database, redis) = backend().await;
    let function = Function::between(&backend, &database, &redis, &[("HOLDFAST_LOG", "warn")]).await;
    let (status, body) = function.order(&backend, "alice").await;
    assert_eq!(status, 201, "{body}");
    for (buyer, frozen) in [("bob", Duration::ZERO), ("carol", FROZEN)] {
        function.signal("STOP");
        let opened = (database.counts().connections, redis.counts().connections);
        cut(&database).await;
        cut(&redis).await;
        tokio::time::sleep(frozen).await;
        function.signal("CONT");
        let (status, body) = function.order(&backend, buyer).await;
        assert_eq!((status, &body["status"]), (201, &json!("PENDING_PAYMENT")), "{body}");
        let now = (database.counts().connections, redis.counts().connections);
        assert!(now.0 > opened.0 && now.1 > opened.1, "new connections: {opened:?}, then {now:?}");
    }
}

/// The same where nothing says that a connection is gone, because the end of it came by while the process could not
/// listen: what is sent on it is never answered.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_order_after_a_thaw_succeeds_though_its_connections_are_silent() {
    let (backend, database, redis) = backend().await;
    let function = Function::between(&backend, &database, &redis, &[("HOLDFAST_LOG", "warn")]).await;
    assert_eq!(function.order(&backend, "alice").await.0, 201);
    for (buyer, silent) in [("bob", &database), ("carol", &redis)] {
        function.signal("STOP");
        let before = silent.counts().requests_lost;
        silent.set(Weather { requests: Flow::Swallow, ..Weather::default() });
        function.signal("CONT");
        let lost = async {
            let lost = async || Ok((silent.counts().requests_lost > before).then_some(()));
            until("a request is lost", LIMIT, lost).await.unwrap();
            silent.set(Weather::default());
        };
        let ((status, body), ()) = tokio::join!(function.order(&backend, buyer), lost);
        assert_eq!((status, &body["status"]), (201, &json!("PENDING_PAYMENT")), "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_writes_logs_with_their_trace_and_metrics_between_them() {
    let (backend, database, redis) = backend().await;
    let metrics = [("HOLDFAST_METRICS_NAMESPACE", "Holdfast"), ("HOLDFAST_STACK", "shop")];
    let function = Function::between(&backend, &database, &redis, &metrics).await;
    assert_eq!(function.submit("alice", "no token").await.0, 403);
    assert_eq!(function.order(&backend, "alice").await.0, 201);
    assert_eq!(function.order(&backend, "alice").await.0, 200);
    let (metrics, log): (Vec<Value>, Vec<Value>) =
        function.output().into_iter().partition(|line| line.get("_aws").is_some());
    let told: Vec<_> = log
        .iter()
        .filter(|line| line["message"] == "place_order")
        .map(|line| (line["outcome"].as_str().unwrap(), line["trace_id"].as_str().unwrap()))
        .collect();
    let ids = [1, 2, 3].map(trace_id);
    assert_eq!(told, [("token_invalid", &*ids[0]), ("created", &*ids[1]), ("replayed", &*ids[2])]);
    // The refusal came along with the order.
    let orders: Vec<_> = metrics.iter().map(|line| (&line["Stack"], &line["Activity"], &line["Orders"])).collect();
    assert_eq!(orders, [(&json!("shop"), &json!("demo"), &json!(2)), (&json!("shop"), &json!("demo"), &json!(1))]);
    assert_eq!((&metrics[0]["OrdersRefused"], &metrics[0]["OrdersCreated"]), (&json!(1), &json!(1)));
    assert_eq!(metrics[1]["OrdersReplayed"], 1);
}

/// One Redis or a cluster that speaks TLS, and what a function needs to find it.
struct Secured {
    certificate: Arc<Certificate>,
    plain: RedisConfig,
    urls: String,
    _servers: (Option<Redis>, Option<RedisCluster>),
}

impl Secured {
    async fn start(cluster: bool) -> Self {
        let certificate = Arc::new(Certificate::new().unwrap());
        if cluster {
            let cluster = RedisCluster::start_with(Some(&certificate)).await.unwrap();
            let plain = RedisConfig::new(cluster.urls(), true, 1_000);
            Self { certificate, plain, urls: cluster.tls_urls().join(","), _servers: (None, Some(cluster)) }
        } else {
            let options = RedisOptions { certificate: Some(Arc::clone(&certificate)), ..RedisOptions::default() };
            let redis = Redis::start(options).await.unwrap();
            let plain = RedisConfig::new(vec![redis.url().to_owned()], false, 1_000);
            Self { certificate, plain, urls: redis.tls_url().unwrap(), _servers: (Some(redis), None) }
        }
    }

    /// A function that reaches it by TLS alone, and what it logged when it had been asked for an order.
    async fn order(&self, backend: &Backend, more: &[(&str, &str)]) -> (u64, String) {
        let cluster = self.plain.cluster.to_string();
        let reached = [("HOLDFAST_REDIS_URL", self.urls.as_str()), ("HOLDFAST_REDIS_CLUSTER", &cluster)];
        let function = Function::start(backend, &[&reached, more].concat()).await;
        let (status, _) = function.order(backend, "alice").await;
        (status, function.output().iter().map(Value::to_string).collect::<Vec<_>>().join("\n"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_is_reached_by_tls_if_its_certificate_is_trusted_and_not_otherwise() {
    for cluster in [false, true] {
        let secured = Secured::start(cluster).await;
        let options = Options { redis: Some(secured.plain.clone()), ..Options::default() };
        let backend = Backend::start(options).await.unwrap();
        events::open(&backend.wiring, "demo", &sample::activity("phone", 100)).await;
        let certificate = secured.certificate.path().display().to_string();
        // What the system trusts is not even read: where it cannot be, nothing is lost.
        for system in [&*certificate, "/nowhere"] {
            let (status, log) = secured.order(&backend, &[("SSL_CERT_FILE", system)]).await;
            assert!(log.contains("UnknownIssuer"), "{status}: {log}");
            assert!(!log.contains("nowhere"), "{log}");
        }
        let trusted = [("HOLDFAST_TRUST_SYSTEM", "true"), ("SSL_CERT_FILE", &*certificate)];
        let (status, log) = secured.order(&backend, &trusted).await;
        assert_eq!(status, 201, "{log}");
        assert!(!log.contains("WARN") && !log.contains("ERROR"), "{log}");
    }
}
