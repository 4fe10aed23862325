//! What the functions tell of themselves: metrics in the embedded metric format, and one trace from the request
//! through the queue and the stream into every line of the log.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dev::functions::Functions;
use dev::stack::{Assembly, Stack};
use dev::stores::Stores;
use dev::wire;
use harness::http::{Call, read};
use harness::{Backend, Options, events, sample};
use holdfast::adapters::redis::keys::BucketKeys;
use holdfast::config::MetricsConfig;
use holdfast::domain::activity::Activity;
use holdfast::domain::ids::BuyerId;
use holdfast::domain::order_no::OrderNo;
use holdfast::domain::token::{Page, Token, TokenId};
use holdfast::lambda::{Telemetry, telemetry};
use holdfast::ports::{Clock as _, SystemClock};
use holdfast::telemetry::Metric;
use serde_json::{Value, json};
use servers::{Fault, FaultKind};
use tokio::time::Instant;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::shop::SKU;

const STOCK: u64 = 40;
/// Longer than the delay of a roll-back message.
const PATIENCE: Duration = Duration::from_mins(1);

/// Lines that were told, and a place to write them to.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn all(&self) -> Vec<Value> {
        let bytes = self.0.lock().unwrap().clone();
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        String::from_utf8_lossy(&bytes[..whole]).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Waits until this is found in the lines.
    async fn wait<T>(&self, find: impl Fn(&[Value]) -> Option<T>) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let all = self.all();
            if let Some(found) = find(&all) {
                return found;
            }
            assert!(Instant::now() < deadline, "{all:#?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

struct World {
    stack: Stack,
    functions: Functions,
    activity: Activity,
    metrics: Lines,
}

impl World {
    /// A running sale in one bucket, its queue and stream followed.
    async fn start() -> Self {
        let backend = Backend::start(Options::default()).await.unwrap();
        let draft = sample::with(sample::activity(SKU, STOCK), &json!({"buckets": 1}));
        let activity = events::open(&backend.wiring, "sale", &draft).await;
        let metrics = Lines::default();
        let config = MetricsConfig { namespace: "Holdfast".to_owned(), stack: "shop".to_owned() };
        let output = metrics.clone();
        let process = move || {
            let output = output.clone();
            Telemetry::telling(config.clone(), move |line| writeln!(output.clone(), "{line}").unwrap())
        };
        let functions = wire::telling(&backend.wiring, &backend.keys, &process);
        let stores = Stores::new(&backend).unwrap();
        let settings =
            Assembly { port: 0, secret: vec![7; 32], reconcile_every: Duration::from_hours(1), fulfil: false };
        let stack = Stack::assemble(backend, functions.clone(), stores, settings).await.unwrap();
        Self { stack, functions, activity, metrics }
    }

    fn token(&self, buyer: &str) -> String {
        self.stack.keys().sign(&Token {
            activity: self.activity.id.clone(),
            buyer: BuyerId::parse(buyer).unwrap(),
            page: Page::default(),
            id: TokenId::from_bytes(fastrand::u128(..).to_be_bytes()),
            expires_at: SystemClock.now().plus_ms(300_000),
        })
    }

    async fn order(&self, buyer: &str, token: &str, trace: &str) -> (u16, Value) {
        let call = Call::new("POST /v1/activities/{activity}/orders").path("activity", "sale").buyer(buyer);
        let call = call.header("x-amzn-trace-id", format!("Root={trace};Parent=0123456789abcdef;Sampled=0"));
        let call = call.json(&json!({"token": token, "lines": [{"sku": SKU, "quantity": 1}]}));
        read(&(self.functions.place_order)(call.request().unwrap()).await)
    }

    /// Redis forgets an order's record and the buyer's mark.
    async fn forget(&self, buyer: &str, order_no: &str) {
        let home = BuyerId::parse(buyer).unwrap().home(self.activity.buckets);
        let keys = BucketKeys::new(&self.activity.id, home);
        let client = redis::Client::open(self.stack.backend.redis_config.urls[0].as_str()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mark = format!("A|{buyer}");
        let gone: u32 =
            redis::cmd("HDEL").arg(&keys.orders).arg(order_no).arg(mark).query_async(&mut connection).await.unwrap();
        assert_eq!(gone, 2);
    }

    /// An order whose transaction is applied and never answered.
    async fn order_unanswered(&self, buyer: &str, trace: &str) -> String {
        let control = self.stack.backend.dynamodb.control();
        control.inject(Fault::standing("TransactWriteItems", FaultKind::DropAfter));
        let (status, body) = self.order(buyer, &self.token(buyer), trace).await;
        control.clear();
        assert_eq!(status, 202, "{body}");
        body["order_no"].as_str().unwrap().to_owned()
    }
}

fn trace_of(digit: char) -> String {
    format!("1-6789abcd-{}", digit.to_string().repeat(24))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_trace_goes_from_the_request_through_queue_and_stream_into_the_log() {
    let log = Lines::default();
    let output = log.clone();
    let lines = telemetry::lines().with_writer(move || output.clone());
    tracing_subscriber::registry().with(EnvFilter::new("info")).with(lines).try_init().unwrap();
    let world = World::start().await;
    let order_no = world.order_unanswered("alice", &trace_of('a')).await;
    // Two at once in one process: each line has its own request's.
    let (bob, carol) = (world.token("bob"), world.token("carol"));
    let (bobs, carols) = (trace_of('b'), trace_of('c'));
    let (bobs, carols) = tokio::join!(world.order("bob", &bob, &bobs), world.order("carol", &carol, &carols));
    for (answer, digit) in [((202, json!({"order_no": order_no})), 'a'), (bobs, 'b'), (carols, 'c')] {
        let order_no = answer.1["order_no"].as_str().unwrap();
        let expected: &[&str] = match digit {
            'a' => &["commit_unknown", "place_order", "roll_back", "order_event"],
            _ => &["place_order", "order_event"],
        };
        for message in expected {
            let is_it = |line: &&Value| line["message"] == *message && line["order_no"] == order_no;
            let line = log.wait(|lines| lines.iter().find(is_it).cloned()).await;
            assert_eq!(line["trace_id"], trace_of(digit), "{line}");
        }
    }
    world.stack.stop().await;
}

/// Of the specification, but for what it allows and is not used here.
fn schema() -> Value {
    let name = json!({"type": "string", "minLength": 1, "maxLength": 250});
    let unit = json!({"enum": ["Count", "Milliseconds", "Percent"]});
    json!({
        "type": "object", "required": ["_aws"],
        "properties": {"_aws": {
            "type": "object", "required": ["Timestamp", "CloudWatchMetrics"], "additionalProperties": false,
            "properties": {
                "Timestamp": {"type": "integer", "minimum": 1_700_000_000_000_i64},
                "CloudWatchMetrics": {"type": "array", "minItems": 1, "items": {
                    "type": "object", "required": ["Namespace", "Dimensions", "Metrics"], "additionalProperties": false,
                    "properties": {
                        "Namespace": name,
                        "Dimensions": {"type": "array", "minItems": 1, "items": {
                            "type": "array", "minItems": 1, "maxItems": 30, "items": name
                        }},
                        "Metrics": {"type": "array", "minItems": 1, "maxItems": 100, "items": {
                            "type": "object", "required": ["Name", "Unit"], "additionalProperties": false,
                            "properties": {"Name": name, "Unit": unit}
                        }}
                    }
                }}
            }
        }},
        "additionalProperties": {"anyOf": [
            {"type": "number"}, {"type": "string"},
            {"type": "array", "minItems": 1, "maxItems": 100, "items": {"type": "number"}}
        ]}
    })
}

/// A line is one that `CloudWatch` reads, has nothing that is not told, and nothing personal.
fn check(line: &Value) {
    let valid = jsonschema::validator_for(&schema()).unwrap();
    let errors: Vec<String> = valid.iter_errors(line).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:?}: {line}");
    let mut named = vec!["_aws"];
    for directive in line["_aws"]["CloudWatchMetrics"].as_array().unwrap() {
        for dimension in directive["Dimensions"].as_array().unwrap().iter().flat_map(|set| set.as_array().unwrap()) {
            let dimension = dimension.as_str().unwrap();
            assert!(matches!(dimension, "Stack" | "Activity") && line[dimension].is_string(), "{line}");
            named.push(dimension);
        }
        for metric in directive["Metrics"].as_array().unwrap() {
            let name = metric["Name"].as_str().unwrap();
            let known = Metric::ALL.iter().find(|metric| metric.name() == name).unwrap();
            assert_eq!(metric["Unit"], known.unit().as_str());
            assert!(!line[name].is_null() && !line[name].is_string(), "{name}: {line}");
            named.push(name);
        }
    }
    assert!(line.as_object().unwrap().keys().all(|key| named.contains(&key.as_str())), "{line}");
    let text = line.to_string();
    assert!(!["alice", "bob", "dora"].iter().any(|buyer| text.contains(buyer)), "{text}");
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    assert_eq!(words.filter(|word| OrderNo::parse(word).is_ok()).count(), 0, "{text}");
}

/// Every value of each metric so far, in all dimensions together.
fn values(lines: &[Value]) -> HashMap<String, Vec<f64>> {
    let mut all: HashMap<String, Vec<f64>> = HashMap::new();
    for line in lines {
        check(line);
        for (name, value) in line.as_object().unwrap().iter().filter(|(name, _)| !name.starts_with('_')) {
            let some = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
            all.entry(name.clone()).or_default().extend(some.iter().filter_map(Value::as_f64));
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_tell_of_orders_roll_backs_the_stream_and_reconciliation() {
    let world = World::start().await;
    let metrics = &world.metrics;
    let sum = |name: &str| values(&metrics.all()).get(name).map_or(0.0, |values| values.iter().sum::<f64>());

    // A refusal waits, and comes with the first order. A sale that is not there is no activity.
    assert_eq!(world.order("alice", "no token", &trace_of('a')).await.0, 403);
    assert_eq!(metrics.all(), Vec::<Value>::new());
    let token = world.token("alice");
    let (status, order) = world.order("alice", &token, &trace_of('a')).await;
    assert_eq!(status, 201, "{order}");
    // The relay may have told of the stream by now.
    let placed: Vec<Value> = metrics.all().into_iter().filter(|line| line.get("Orders").is_some()).collect();
    let told = values(&placed);
    assert_eq!((placed.len(), placed[0]["Activity"].as_str()), (1, Some("sale")), "{placed:#?}");
    for (name, expected) in [("Orders", 2.0), ("OrdersCreated", 1.0), ("OrdersRefused", 1.0), ("TransactionTries", 1.0)]
    {
        assert_eq!(told[name], [expected], "{name}");
    }
    for (name, count) in [("OrderLatency", 2), ("AdmitScriptTime", 1), ("TransactionTime", 1)] {
        assert!(told[name].len() == count && told[name].iter().all(|ms| *ms > 0.0), "{name}: {told:?}");
    }

    assert_eq!(world.order("alice", &token, &trace_of('a')).await.0, 200);
    assert_eq!((sum("OrdersReplayed"), sum("OrdersCreated")), (1.0, 1.0));

    // The database's guard refuses what Redis, which forgot the order, admits.
    let order_no = order["order_no"].as_str().unwrap();
    world.forget("alice", order_no).await;
    let (status, refused) = world.order("alice", &world.token("alice"), &trace_of('a')).await;
    assert_eq!((status, &refused["code"]), (409, &json!("limit_reached")));
    assert_eq!((sum("GuardConflicts"), sum("OrdersLimitReached")), (1.0, 1.0));

    // An answer that is lost, and the message that settles it.
    let control = world.stack.backend.dynamodb.control();
    control.inject(Fault { operation: Some("TransactWriteItems"), kind: FaultKind::Conflict, times: Some(2) });
    assert_eq!(world.order("bob", &world.token("bob"), &trace_of('b')).await.0, 201);
    assert_eq!((sum("TransactionConflicts"), sum("OrdersFailed")), (2.0, 0.0));
    world.order_unanswered("dora", &trace_of('d')).await;
    assert_eq!((sum("OrdersConfirming"), sum("RollBacksSent")), (1.0, 1.0));
    metrics.wait(|lines| (values(lines).get("RollBacks")? == &[1.0]).then_some(())).await;
    metrics.wait(|lines| values(lines).contains_key("RollBackBacklog").then_some(())).await;
    assert_eq!((sum("AdmissionLimited"), sum("RollBacksFailed")), (0.0, 0.0));
    metrics.wait(|lines| (values(lines).get("SoldUnits")?.iter().sum::<f64>() >= 3.0).then_some(())).await;

    // One order disagrees, and the counters with it, because only record and mark are gone.
    let report = (world.functions.reconcile)().await.unwrap();
    assert_eq!(report["findings"]["record_lost"]["count"], 1, "{report}");
    let told = values(&metrics.all());
    let findings: f64 = report["findings"].as_object().unwrap().values().map(|f| f["count"].as_f64().unwrap()).sum();
    assert_eq!(told["Differences"], [findings], "{report}");
    assert_eq!(told["Deviation"], [100.0 / f64::from(u32::try_from(STOCK).unwrap())]);
    assert_eq!((sum("Oversold"), sum("ReturnedWhileLive"), sum("AuditGaps")), (0.0, 0.0, 0.0));
    assert!(told["LockWait"].len() == 1 && told["ReconcileTime"].len() == 1, "{told:?}");
    // Nothing is left: that is told as well.
    (world.functions.reconcile)().await.unwrap();
    assert_eq!(values(&metrics.all())["Differences"], [findings, 0.0]);
    world.stack.stop().await;
}
