//! Servers, activities and submissions for the tests.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicU64, Ordering},
};

use holdfast::{
    adapters::redis::{
        Gate,
        keys::{ADMITTED, BucketKeys, CONTROL, SENTINEL},
    },
    config::RedisConfig,
    domain::{
        activity::{Activity, ActivityDraft, Strategy},
        cart::Cart,
        ids::{ActivityId, Bucket, BuyerId, Sku},
        money::Quantity,
        order::{Part, Placement, Take},
        order_no::OrderNo,
        record::Record,
        stock::Allotment,
        time::UnixMillis,
        token::TokenId,
    },
    ports::{Clock, OrderGate, PlaceAnswer, PlaceCall, Preheated, StockGate, SystemClock},
};
use redis::{
    Client, Cmd, FromRedisValue, Value, aio::MultiplexedConnection, cluster::ClusterClient,
    cluster_async::ClusterConnection, cmd,
};
use servers::{Redis, RedisCluster, RedisOptions};
use tokio::sync::Mutex;

/// Long enough for a machine that is busy with other tests.
pub const PATIENT_MS: u64 = 2_000;
pub const HOUR_MS: i64 = 3_600_000;
const SKU_PARTS: [&str; 5] = ["free", "sold", "on_sale", "allotted", "version"];
const CONTROL_PARTS: [&str; 4] = ["version", "starts_ms", "ends_ms", "rate"];

static SINGLE: Mutex<Weak<Redis>> = Mutex::const_new(Weak::new());
static CLUSTER: Mutex<Weak<RedisCluster>> = Mutex::const_new(Weak::new());

/// A gate, a way around it, and the servers that it is on.
#[derive(Clone)]
pub struct World {
    pub gate: Gate,
    raw: Raw,
    _servers: Servers,
}

#[derive(Clone)]
enum Servers {
    Single { _server: Arc<Redis> },
    Cluster { _servers: Arc<RedisCluster> },
}

#[derive(Clone)]
enum Raw {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

pub fn config(urls: Vec<String>, cluster: bool, deadline_ms: u64) -> RedisConfig {
    RedisConfig::new(urls, cluster, deadline_ms)
}

impl World {
    pub async fn single() -> Self {
        let mut shared = SINGLE.lock().await;
        let server = match shared.upgrade() {
            Some(server) => server,
            None => Arc::new(Redis::start(RedisOptions::default()).await.unwrap()),
        };
        *shared = Arc::downgrade(&server);
        let client = Client::open(server.url()).unwrap();
        let raw = Raw::Single(client.get_multiplexed_async_connection().await.unwrap());
        let gate = Gate::new(Some(config(vec![server.url().to_owned()], false, PATIENT_MS)));
        Self { gate, raw, _servers: Servers::Single { _server: server } }
    }

    pub async fn cluster() -> Self {
        let mut shared = CLUSTER.lock().await;
        let servers = match shared.upgrade() {
            Some(servers) => servers,
            None => Arc::new(RedisCluster::start().await.unwrap()),
        };
        *shared = Arc::downgrade(&servers);
        let client = ClusterClient::new(servers.urls()).unwrap();
        let raw = Raw::Cluster(client.get_async_connection().await.unwrap());
        let gate = Gate::new(Some(config(servers.urls(), true, PATIENT_MS)));
        Self { gate, raw, _servers: Servers::Cluster { _servers: servers } }
    }

    /// A command that goes around the gate.
    pub async fn raw<T: FromRedisValue>(&self, command: &Cmd) -> T {
        match self.raw.clone() {
            Raw::Single(mut connection) => command.query_async(&mut connection).await.unwrap(),
            Raw::Cluster(mut connection) => command.query_async(&mut connection).await.unwrap(),
        }
    }

    pub async fn hset(&self, key: &str, field: &str, value: &str) {
        self.raw::<()>(cmd("HSET").arg(key).arg(field).arg(value)).await;
    }

    pub async fn hget(&self, key: &str, field: &str) -> Option<String> {
        self.raw(cmd("HGET").arg(key).arg(field)).await
    }

    pub async fn hdel(&self, key: &str, field: &str) {
        self.raw::<()>(cmd("HDEL").arg(key).arg(field)).await;
    }

    /// Changes one part of a field that has several between bars.
    pub async fn set_part(&self, key: &str, field: &str, index: usize, value: &str) {
        let text = self.hget(key, field).await.unwrap();
        let mut parts: Vec<&str> = text.split('|').collect();
        parts[index] = value;
        self.hset(key, field, &parts.join("|")).await;
    }

    /// Changes one number of a SKU: see [`SKU_PARTS`].
    pub async fn set_sku(&self, sale: &Sale, at: u16, sku: &str, part: &str, value: &str) {
        let index = SKU_PARTS.iter().position(|name| *name == part).unwrap();
        self.set_part(&sale.keys(at).bucket, sku, index, value).await;
    }

    /// Changes one number of the configuration: see [`CONTROL_PARTS`].
    pub async fn set_control(&self, sale: &Sale, at: u16, part: &str, value: &str) {
        let index = CONTROL_PARTS.iter().position(|name| *name == part).unwrap();
        self.set_part(&sale.keys(at).bucket, CONTROL, index, value).await;
    }

    /// Sets how many orders were admitted in which second.
    pub async fn set_admitted(&self, sale: &Sale, at: u16, second: &str, orders: u32) {
        self.hset(&sale.keys(at).bucket, ADMITTED, &format!("{second}|{orders}")).await;
    }

    pub async fn del(&self, key: &str) {
        self.raw::<()>(cmd("DEL").arg(key)).await;
    }

    pub async fn expires_at(&self, key: &str) -> i64 {
        self.raw(cmd("PEXPIRETIME").arg(key)).await
    }

    /// The second of Redis's clock, on the node of this key.
    pub async fn second(&self, key: &str) -> String {
        let time: Vec<String> = self.raw(cmd("EVAL").arg("return redis.call('TIME')").arg(1).arg(key)).await;
        time[0].clone()
    }

    /// Everything that a bucket has, in a form that compares.
    pub async fn dump(&self, sale: &Sale, bucket: u16) -> Vec<String> {
        let mut dump = Vec::new();
        for key in sale.keys(bucket).all() {
            let kind: String = self.raw(cmd("TYPE").arg(&key)).await;
            let life = self.expires_at(&key).await;
            let content = if kind == "hash" {
                let mut fields: Vec<(Vec<u8>, Vec<u8>)> = self.raw(cmd("HGETALL").arg(&key)).await;
                fields.sort();
                format!("{fields:?}")
            } else {
                format!("{:?}", self.raw::<Value>(cmd("DUMP").arg(&key)).await)
            };
            dump.push(format!("{key} {kind} {life} {content}"));
        }
        dump
    }

    /// A new activity with open window and one unit per buyer, preheated with this stock in every bucket.
    pub async fn sale(&self, buckets: u16, stock: &[(&str, u64)]) -> Sale {
        self.sale_of(buckets, stock, |_| {}).await
    }

    pub async fn sale_of(&self, buckets: u16, stock: &[(&str, u64)], edit: impl FnOnce(&mut Activity)) -> Sale {
        let mut sale = Sale::new(buckets, stock);
        edit(&mut sale.activity);
        for bucket in sale.activity.buckets.all() {
            assert_eq!(self.preheat(&sale, bucket.get()).await, Preheated::Loaded);
        }
        sale
    }

    pub async fn preheat(&self, sale: &Sale, at: u16) -> Preheated {
        self.gate.preheat(&sale.activity, bucket(at), &sale.allotments, now()).await.unwrap()
    }

    pub async fn place(&self, sale: &Sale, placement: &Placement) -> PlaceAnswer {
        let call = PlaceCall { activity: &sale.activity, placement, look: false };
        self.gate.place(call).await.unwrap()
    }

    pub async fn look(&self, sale: &Sale, placement: &Placement) -> PlaceAnswer {
        let call = PlaceCall { activity: &sale.activity, placement, look: true };
        self.gate.place(call).await.unwrap()
    }

    pub async fn record(&self, sale: &Sale, placement: &Placement, at: u16) -> Option<Record> {
        let record = self.gate.record(&sale.activity.id, bucket(at), &placement.order_no).await.unwrap();
        record.map(|record| record.unwrap())
    }

    /// Stock, sold and allotted of one SKU.
    pub async fn counters(&self, sale: &Sale, at: u16, sku: &str) -> (i64, i64, u64) {
        let state = self.gate.read_bucket(&sale.activity, bucket(at)).await.unwrap();
        let sku = state.skus.into_iter().find(|state| state.sku.as_str() == sku).unwrap();
        (sku.stock, sku.sold, sku.allotted)
    }

    pub async fn marked(&self, sale: &Sale, placement: &Placement) -> bool {
        self.gate.marked(&sale.activity, placement).await.unwrap()
    }

    /// All keys of a bucket gone at once, as a flush leaves them.
    pub async fn flush(&self, sale: &Sale, at: u16) {
        for key in sale.keys(at).all() {
            self.del(&key).await;
        }
    }

    /// Asserts that stock + ΣD = allotted and sold = ΣD for every SKU.
    pub async fn assert_sums(&self, sale: &Sale, at: u16) {
        assert_eq!(self.gate.sum_bucket(&sale.activity, bucket(at), false).await.unwrap(), [], "bucket {at}");
    }
}

/// An activity and what each of its buckets is loaded with.
#[derive(Clone)]
pub struct Sale {
    pub activity: Activity,
    pub allotments: Vec<Allotment>,
}

impl Sale {
    pub fn new(buckets: u16, stock: &[(&str, u64)]) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let skus: Vec<_> =
            stock.iter().map(|(sku, units)| serde_json::json!({"sku": sku, "stock": units, "price": 100})).collect();
        let draft: ActivityDraft = serde_json::from_value(serde_json::json!({
            "name": "Sale", "starts_at": now().plus_ms(-HOUR_MS), "ends_at": now().plus_ms(HOUR_MS),
            "time_zone": "Europe/Berlin", "strategy": "prededuct", "buckets": buckets, "bucket_rate": 500,
            "limit": {"scope": "activity", "max": 1000}, "on_cancel": "release", "payment_minutes": 15,
            "currency": "EUR", "skus": skus
        }))
        .unwrap();
        let id = ActivityId::parse(&format!("sale-{}", NEXT.fetch_add(1, Ordering::Relaxed))).unwrap();
        let activity = Activity { opened: true, ..Activity::create(id, draft).unwrap() };
        let allotments = stock.iter().map(|(name, units)| allotment(name, *units, 1, true)).collect();
        Self { activity, allotments }
    }

    pub fn keys(&self, at: u16) -> BucketKeys {
        BucketKeys::new(&self.activity.id, bucket(at))
    }

    /// A submission of this buyer. Another token makes another order.
    pub fn placement(&self, buyer: &str, token: u8, lines: &[(&str, u32)]) -> Placement {
        let buyer = BuyerId::parse(buyer).unwrap();
        let lines = lines.iter().map(|(name, units)| (sku(name), Quantity::new(*units).unwrap()));
        let cart = Cart::new(lines).unwrap();
        let lines = cart.priced(&self.activity).unwrap();
        let created_at = now();
        let biz_date = self.activity.zone.business_date(created_at);
        Placement {
            order_no: OrderNo::derive(&self.activity.id, &buyer, &TokenId::from_bytes([token; 16])),
            activity: self.activity.id.clone(),
            home: buyer.home(self.activity.buckets),
            buyer,
            strategy: Strategy::Prededuct,
            lines_hash: cart.hash(None),
            charges: self.activity.limit.charges(&lines, biz_date),
            lines,
            currency: self.activity.currency.clone(),
            biz_date,
            created_at,
            pay_before: created_at.plus_ms(900_000),
            coupon: None,
        }
    }

    /// The same submission, admitted by a call that began a day later.
    pub fn next_day(&self, placement: &Placement) -> Placement {
        let mut next = placement.clone();
        next.created_at = placement.created_at.plus_ms(24 * HOUR_MS);
        next.biz_date = self.activity.zone.business_date(next.created_at);
        next.charges = self.activity.limit.charges(&next.lines, next.biz_date);
        next
    }

    /// A buyer whose home is this bucket.
    pub fn buyer_at(&self, home: u16) -> String {
        (0..10_000).map(|n| format!("buyer-{n}")).find(|name| self.home(name) == home).unwrap()
    }

    fn home(&self, buyer: &str) -> u16 {
        BuyerId::parse(buyer).unwrap().home(self.activity.buckets).get()
    }
}

pub fn now() -> UnixMillis {
    SystemClock.now()
}

pub fn sku(text: &str) -> Sku {
    Sku::parse(text).unwrap()
}

pub fn bucket(index: u16) -> Bucket {
    Bucket::new(index).unwrap()
}

pub fn units(lines: &[(&str, u32)]) -> Vec<(Sku, u32)> {
    lines.iter().map(|(name, units)| (sku(name), *units)).collect()
}

pub fn part(at: u16, name: &str, units: u32) -> Part {
    Part { sku: sku(name), bucket: bucket(at), units }
}

pub fn allotment(name: &str, allotted: u64, version: u64, on_sale: bool) -> Allotment {
    Allotment { sku: sku(name), allotted, version, on_sale }
}

/// A record as text, without the need to parse.
pub fn record_text(side: &str, take: Take, hash: &str, held: &str, placement: &Placement) -> String {
    format!("1|{side}|{}|1000|{hash}|{held}|{}", take.get(), serde_json::to_string(placement).unwrap())
}

/// The field of the buyer's only mark.
pub fn mark_field(placement: &Placement) -> String {
    holdfast::adapters::redis::keys::mark_field(&placement.charges[0].scope, &placement.buyer)
}

pub fn sentinel() -> &'static str {
    SENTINEL
}
