//! A real Redis, through the product's gate and around it.

use std::collections::BTreeMap;

use holdfast::{
    adapters::redis::{Gate, keys::BucketKeys},
    config::RedisConfig,
};
use redis::{
    Client, Cmd, FromRedisValue, aio::MultiplexedConnection, cluster::ClusterClient, cluster_async::ClusterConnection,
    cmd,
};
use servers::{Redis, RedisCluster, RedisOptions};

use crate::run::Met;

/// Long enough for a machine that is busy with other tests.
const DEADLINE_MS: u64 = 10_000;

/// All keys of a bucket at one instant: the second, then type, end of life and content of each.
const SNAPSHOT: &str = "
local reply = { redis.call('TIME')[1] }
for _, key in ipairs(KEYS) do
  local kind, content = redis.call('TYPE', key).ok, {}
  if kind == 'hash' then
    content = redis.call('HGETALL', key)
  elseif kind == 'stream' then
    for _, entry in ipairs(redis.call('XRANGE', key, '-', '+')) do
      content[#content + 1] = entry[1]
      content[#content + 1] = table.concat(entry[2], ' ')
    end
  end
  reply[#reply + 1] = { kind, redis.call('PEXPIRETIME', key), content }
end
return reply";

/// Writes the number of orders admitted in this second; answers how much of it is over, in
/// microseconds.
const ADMITTED: &str = "
local time = redis.call('TIME')
if redis.call('HEXISTS', KEYS[1], '@admitted') == 1 then
  redis.call('HSET', KEYS[1], '@admitted', time[1] .. '|' .. ARGV[1])
end
return { time[1], time[2] }";

/// One key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    pub kind: String,
    /// Milliseconds since 1970; below zero when it has no end or is not there.
    pub expires: i64,
    /// Fields of a hash, or entries of a stream by id.
    pub entries: BTreeMap<String, String>,
}

impl Content {
    pub fn is_there(&self) -> bool {
        self.kind != "none"
    }
}

/// A bucket's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub bucket: Content,
    pub orders: Content,
    pub ledger: Content,
}

impl Snapshot {
    pub fn keys(&self) -> [&Content; 3] {
        [&self.bucket, &self.orders, &self.ledger]
    }
}

/// A key as it can be put back.
pub type Dump = Option<(Vec<u8>, i64)>;

#[derive(Clone)]
enum Raw {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

enum Kept {
    Single(#[expect(dead_code, reason = "runs as long as it is kept")] Redis),
    Cluster(#[expect(dead_code, reason = "runs as long as it is kept")] RedisCluster),
}

pub struct Server {
    pub gate: Gate,
    raw: Raw,
    config: RedisConfig,
    kept: Kept,
    pub met: Met,
}

fn config(urls: Vec<String>, cluster: bool) -> RedisConfig {
    RedisConfig::new(urls, cluster, DEADLINE_MS)
}

impl Server {
    pub async fn single() -> Self {
        let server = Redis::start(RedisOptions::default()).await.unwrap();
        let client = Client::open(server.url()).unwrap();
        let raw = Raw::Single(client.get_multiplexed_async_connection().await.unwrap());
        let config = config(vec![server.url().to_owned()], false);
        Self { gate: Gate::new(Some(config.clone())), raw, config, kept: Kept::Single(server), met: Met::default() }
    }

    pub async fn cluster() -> Self {
        let servers = RedisCluster::start().await.unwrap();
        let client = ClusterClient::new(servers.urls()).unwrap();
        let raw = Raw::Cluster(client.get_async_connection().await.unwrap());
        let config = config(servers.urls(), true);
        Self { gate: Gate::new(Some(config.clone())), raw, config, kept: Kept::Cluster(servers), met: Met::default() }
    }

    pub const fn is_cluster(&self) -> bool {
        matches!(self.kept, Kept::Cluster(_))
    }

    /// Another process's gate, with a connection of its own.
    pub fn another_gate(&self) -> Gate {
        Gate::new(Some(self.config.clone()))
    }

    pub async fn raw<T: FromRedisValue>(&self, command: &Cmd) -> T {
        match self.raw.clone() {
            Raw::Single(mut connection) => command.query_async(&mut connection).await.unwrap(),
            Raw::Cluster(mut connection) => command.query_async(&mut connection).await.unwrap(),
        }
    }

    pub async fn snapshot(&self, keys: &BucketKeys) -> (String, Snapshot) {
        type Told = (String, i64, Vec<String>);
        let mut command = cmd("EVAL");
        command.arg(SNAPSHOT).arg(3).arg(keys.clone().all());
        let (second, bucket, orders, ledger): (String, Told, Told, Told) = self.raw(&command).await;
        let content = |(kind, expires, texts): Told| {
            let (pairs, []) = texts.as_chunks::<2>() else { panic!("an odd number of texts") };
            let entries = pairs.iter().map(|[name, text]| (name.clone(), text.clone())).collect();
            Content { kind, expires, entries }
        };
        (second, Snapshot { bucket: content(bucket), orders: content(orders), ledger: content(ledger) })
    }

    /// See [`ADMITTED`].
    pub async fn set_admitted(&self, keys: &BucketKeys, orders: u16) -> (String, u32) {
        self.raw(cmd("EVAL").arg(ADMITTED).arg(1).arg(&keys.bucket).arg(orders)).await
    }

    pub async fn hset(&self, key: &str, field: &str, value: &str) {
        self.raw::<()>(cmd("HSET").arg(key).arg(field).arg(value)).await;
    }

    pub async fn hget(&self, key: &str, field: &str) -> Option<String> {
        self.raw(cmd("HGET").arg(key).arg(field)).await
    }

    pub async fn del(&self, key: &str) {
        self.raw::<()>(cmd("DEL").arg(key)).await;
    }

    pub async fn dump(&self, key: &str) -> Dump {
        let dump: Option<Vec<u8>> = self.raw(cmd("DUMP").arg(key)).await;
        let expires: i64 = self.raw(cmd("PEXPIRETIME").arg(key)).await;
        dump.map(|dump| (dump, expires.max(0)))
    }

    /// Puts a key back, or takes away what is there instead.
    pub async fn put_back(&self, key: &str, dump: &Dump) {
        match dump {
            None => self.del(key).await,
            Some((dump, expires)) => {
                let mut command = cmd("RESTORE");
                self.raw::<()>(command.arg(key).arg(*expires).arg(&dump[..]).arg("REPLACE").arg("ABSTTL")).await;
            }
        }
    }
}
