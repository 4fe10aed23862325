//! A running sale with orders, and a clock that can be ahead.

use harness::{Backend, Options, events, sample};
use holdfast::{
    adapters::{dynamodb::Database, redis::Gate},
    app::{
        findings::{Findings, Reconciliation},
        reconcile::{Reconcile, Report},
    },
    domain::{
        activity::Activity,
        cart::Cart,
        ids::{Bucket, BuyerId, Sku},
        money::Quantity,
        order::{Order, Part, Placement},
        order_no::OrderNo,
        repair::{Finding, GRACE_MS},
        stock::{ChangeMark, Operation, StockItem},
        time::UnixMillis,
        token::TokenId,
    },
    ports::{
        AuditRow, AuditStore, Clock, Commit, OrderGate, OrderStore, PlaceAnswer, PlaceCall, StockGate, StockStore,
        SystemClock,
    },
};
use redis::aio::MultiplexedConnection;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

/// A clock that is ahead by so many milliseconds.
#[derive(Clone, Copy)]
pub struct Ahead(pub i64);

impl Clock for Ahead {
    fn now(&self) -> UnixMillis {
        SystemClock.now().plus_ms(self.0)
    }
}

pub const NOW: Ahead = Ahead(0);
/// Past every grace of a repair.
pub const LATER: Ahead = Ahead(2 * GRACE_MS);

pub struct World {
    pub backend: Backend,
    pub database: Database,
    pub gate: Gate,
    pub activity: Activity,
    redis: MultiplexedConnection,
}

impl World {
    /// 10,000 units of one SKU in four buckets, reconciled once.
    pub async fn start() -> Self {
        let world = Self::fresh(&json!({})).await;
        let report = world.reconcile(NOW).await;
        assert!(report.complete && report.findings.is_empty() && report.faults == 0, "{report:?}");
        assert_eq!(report.full_buckets, 4, "the first pass compares everything");
        world
    }

    pub async fn fresh(fields: &Value) -> Self {
        let backend = Backend::start(Options::default()).await.unwrap();
        let activity =
            events::open(&backend.wiring, "sale", &sample::with(sample::activity("a", 10_000), fields)).await;
        let client = redis::Client::open(backend.redis_config.urls[0].as_str()).unwrap();
        let redis = client.get_multiplexed_async_connection().await.unwrap();
        let (database, gate) = (backend.wiring.database.clone(), backend.wiring.gate.clone());
        let world = Self { backend, database, gate, activity, redis };
        for bucket in world.activity.buckets.all() {
            let item = world.item(bucket).await;
            world.record(None, &item, "preheat").await;
        }
        world
    }

    pub async fn reconcile(&self, clock: Ahead) -> Report {
        self.reconcile_until(clock, Instant::now() + Duration::from_mins(1)).await
    }

    pub async fn reconcile_until(&self, clock: Ahead, deadline: Instant) -> Report {
        let run = Reconcile { store: self.database.clone(), gate: self.gate.clone(), clock };
        run.run(deadline).await.unwrap()
    }

    pub async fn findings(&self) -> Reconciliation {
        let findings = Findings { store: self.database.clone(), clock: NOW };
        findings.read(&self.activity.id).await.unwrap().unwrap()
    }

    /// Another buyer of the same home.
    pub fn neighbour(&self, of: &Placement) -> String {
        let home = |name: &String| BuyerId::parse(name).unwrap().home(self.activity.buckets);
        (0..1_000).map(|n| format!("neighbour{n}")).find(|name| home(name) == of.home).unwrap()
    }

    pub fn placement(&self, buyer: &str) -> Placement {
        self.placement_of(buyer, 1)
    }

    pub fn placement_of(&self, buyer: &str, units: u32) -> Placement {
        let buyer = BuyerId::parse(buyer).unwrap();
        let cart = Cart::new([(sku(), Quantity::new(units).unwrap())]).unwrap();
        let order_no = OrderNo::derive(&self.activity.id, &buyer, &TokenId::from_bytes([1; 16]));
        let lines = cart.priced(&self.activity).unwrap();
        Placement::admit(&self.activity, order_no, buyer, &cart, lines, SystemClock.now())
    }

    /// The deduction of one unit at home, and nothing else.
    pub async fn deduct(&self, buyer: &str) -> Placement {
        let placement = self.placement(buyer);
        let call = PlaceCall { activity: &self.activity, placement: &placement, look: false };
        assert_eq!(self.gate.place(call).await.unwrap(), PlaceAnswer::Admitted(vec![1]));
        placement
    }

    /// The order in the database with its audit row, whatever Redis knows.
    pub async fn commit(&self, placement: Placement) -> Order {
        let bucket = placement.home;
        let order = placement.into_order(vec![Part { sku: sku(), bucket, units: 1 }]);
        let before = self.item(bucket).await;
        assert_eq!(self.database.commit(&order, 1).await.unwrap(), Commit::Committed);
        let after = self.item(bucket).await;
        self.record(Some(before), &after, order.placement.order_no.as_str()).await;
        order
    }

    /// A whole order.
    pub async fn order(&self, buyer: &str) -> Order {
        self.commit(self.deduct(buyer).await).await
    }

    pub async fn item(&self, bucket: Bucket) -> StockItem {
        self.database.bucket_stock(&self.activity, bucket).await.unwrap().remove(0)
    }

    /// The relay's row.
    pub async fn record(&self, before: Option<StockItem>, after: &StockItem, reference: &str) {
        self.database.record(&row(before, after, reference, SystemClock.now())).await.unwrap();
    }

    pub async fn redis<T: redis::FromRedisValue>(&self, command: &mut redis::Cmd) -> T {
        command.query_async(&mut self.redis.clone()).await.unwrap()
    }

    /// Takes an order's deduction out of Redis as if a replica without it had taken over.
    pub async fn lose(&self, placement: &Placement) {
        let keys = self.keys(placement.home);
        let mark = holdfast::adapters::redis::keys::mark_field(&placement.charges[0].scope, &placement.buyer);
        self.redis::<()>(redis::cmd("HDEL").arg(&keys.orders).arg(placement.order_no.as_str()).arg(mark)).await;
        let text: String = self.redis(redis::cmd("HGET").arg(&keys.bucket).arg("a")).await;
        let (free, rest) = text.split_once('|').unwrap();
        let (sold, rest) = rest.split_once('|').unwrap();
        let (free, sold): (i64, i64) = (free.parse().unwrap(), sold.parse().unwrap());
        let text = format!("{}|{}|{rest}", free + 1, sold - 1);
        self.redis::<()>(redis::cmd("HSET").arg(&keys.bucket).arg("a").arg(text)).await;
    }

    pub fn keys(&self, bucket: Bucket) -> holdfast::adapters::redis::keys::BucketKeys {
        holdfast::adapters::redis::keys::BucketKeys::new(&self.activity.id, bucket)
    }

    /// Whether a bucket's record says that the order holds its unit.
    pub async fn holds(&self, placement: &Placement) -> bool {
        let record = self.gate.record(&self.activity.id, placement.home, &placement.order_no).await.unwrap();
        record.is_some_and(|record| record.unwrap().holds(&sku()) == 1)
    }

    /// Both sums of every bucket.
    pub async fn assert_sums(&self) {
        for bucket in self.activity.buckets.all() {
            assert_eq!(self.gate.sum_bucket(&self.activity, bucket, false).await.unwrap(), []);
            let (item, state) = (self.item(bucket).await, self.gate.read_bucket(&self.activity, bucket).await.unwrap());
            assert_eq!(state.skus[0].sold, i64::try_from(item.allotted - item.available).unwrap(), "bucket {bucket}");
        }
    }
}

pub fn row(before: Option<StockItem>, after: &StockItem, reference: &str, at: UnixMillis) -> AuditRow {
    AuditRow {
        activity: after.activity.clone(),
        sku: after.sku.clone(),
        bucket: after.bucket,
        version: after.version,
        before_mark: before.as_ref().map(|before| mark(&format!("change {}", before.version))),
        before,
        after: Some(after.clone()),
        operation: Some(Operation::Order),
        operator: "place-order".to_owned(),
        reference: reference.to_owned(),
        at,
        event_id: format!("event {}", after.version),
        filled: false,
    }
}

pub fn mark(reference: &str) -> ChangeMark {
    ChangeMark { operation: Operation::Order, operator: "place-order".to_owned(), reference: reference.to_owned() }
}

pub fn sku() -> Sku {
    Sku::parse("a").unwrap()
}

/// Kinds of findings and how many of each, all repaired.
pub fn found(report: &Report) -> Vec<(Finding, u64)> {
    assert!(report.findings.values().all(|found| found.count == found.repaired), "{report:?}");
    report.findings.iter().map(|(kind, found)| (*kind, found.count)).collect()
}
