//! What the admitting script costs Redis, beside commands that everybody knows: processor time of the server, as
//! it tells it itself, because times on a shared machine say more about the machine.

use futures_util::future::join_all;
use harness::sample;
use holdfast::adapters::redis::Gate;
use holdfast::config::RedisConfig;
use holdfast::domain::activity::{Activity, ActivityDraft};
use holdfast::domain::cart::Cart;
use holdfast::domain::ids::{ActivityId, Bucket, BuyerId, Sku};
use holdfast::domain::money::Quantity;
use holdfast::domain::order::Placement;
use holdfast::domain::order_no::OrderNo;
use holdfast::domain::stock::Allotment;
use holdfast::domain::token::TokenId;
use holdfast::ports::{Clock as _, OrderGate as _, PlaceAnswer, PlaceCall, Preheated, StockGate as _, SystemClock};
use redis::aio::MultiplexedConnection;
use serde_json::json;
use servers::{Redis, RedisOptions};

use super::ratio::{Aim, Row, median};
use super::shop::SKU;
use super::{Options, Section};
use crate::stack::StartError;

/// Commands of a pipeline.
const PIPELINE: usize = 16;
/// Deadline of a call, in milliseconds: nothing is to fail for a machine that is busy.
const DEADLINE_MS: u64 = 2_000;
/// Units that are never sold out.
const STOCK: u64 = 1_000_000_000;
/// Orders a second of the bucket, far above what an activity may have: nothing is to be limited.
const RATE: u32 = 10_000_000;
/// The least that deducts: look, then take.
pub const CHECK_AND_TAKE: &str = "if tonumber(redis.call('GET', KEYS[1])) < tonumber(ARGV[1]) then return -1 end \
                                  return redis.call('DECRBY', KEYS[1], ARGV[1])";
pub const STOCK_KEY: &str = "bench:stock";

/// A Redis, and two ways to it: the functions' own and a plain one.
struct Bench {
    gate: Gate,
    plain: MultiplexedConnection,
    calls: u32,
    hash: String,
    _server: Redis,
}

/// Microseconds of the server for one call.
#[derive(Clone, Copy, Debug)]
struct Costs {
    get: f64,
    admit: f64,
    check_piped: f64,
    admit_piped: f64,
    check: f64,
}

pub async fn measure(options: &Options) -> Result<Section, StartError> {
    let mut bench = Bench::start(options.calls).await?;
    let mut rounds = Vec::new();
    // The first round warms everything up and is not looked at.
    for round in 0..=options.rounds {
        let costs = bench.round(round).await?;
        if round > 0 {
            rounds.push(costs);
        }
    }
    let all = |of: fn(&Costs) -> f64| -> Vec<f64> { rounds.iter().map(of).collect() };
    let each = |of: fn(&Costs) -> f64| median(&all(of)).unwrap_or(f64::NAN);
    Ok(Section {
        rows: vec![
            Row::new("admit script / GET, one at a time, CPU of Redis", all(|c| c.admit / c.get), Aim::AtMost(2.2))?,
            Row::new(
                "admit script / check + DECRBY, pipelined, CPU of Redis",
                all(|c| c.admit_piped / c.check_piped),
                Aim::AtMost(2.5),
            )?,
        ],
        notes: vec![format!(
            "one at a time: GET {:.1} us, check + DECRBY {:.1} us, admit {:.1} us; {PIPELINE} at once: check + DECRBY \
             {:.1} us, admit {:.1} us; {} calls each in every round",
            each(|c| c.get),
            each(|c| c.check),
            each(|c| c.admit),
            each(|c| c.check_piped),
            each(|c| c.admit_piped),
            options.calls,
        )],
    })
}

impl Bench {
    async fn start(calls: u32) -> Result<Self, StartError> {
        let server = Redis::start(RedisOptions::default()).await?;
        let config = RedisConfig::new(vec![server.url().to_owned()], false, DEADLINE_MS);
        let mut plain = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
        let hash = prepare(&mut plain).await?;
        Ok(Self { gate: Gate::new(Some(config)), plain, calls, hash, _server: server })
    }

    async fn round(&mut self, round: u32) -> Result<Costs, StartError> {
        // A bucket of its own in each, as large as those of the others.
        let (alone, piped) = (self.activity(round, "alone").await?, self.activity(round, "piped").await?);
        let get = self.plain_calls(1, || redis::Cmd::get(STOCK_KEY)).await?;
        let admit = self.admit(&alone, 1).await?;
        let take = |hash: &str| {
            let mut command = redis::cmd("EVALSHA");
            command.arg(hash).arg(1).arg(STOCK_KEY).arg(1);
            command
        };
        let hash = self.hash.clone();
        let check = self.plain_calls(1, || take(&hash)).await?;
        let check_piped = self.plain_calls(PIPELINE, || take(&hash)).await?;
        let admit_piped = self.admit(&piped, PIPELINE).await?;
        Ok(Costs { get, admit, check_piped, admit_piped, check })
    }

    async fn plain_calls(&mut self, at_once: usize, command: impl Fn() -> redis::Cmd) -> Result<f64, StartError> {
        let calls = usize::try_from(self.calls)?;
        let before = self.cpu_us().await?;
        for _ in 0..calls / at_once {
            let sent = (0..at_once).map(|_| {
                let (mut plain, command) = (self.plain.clone(), command());
                async move { command.query_async::<i64>(&mut plain).await }
            });
            for answer in join_all(sent).await {
                if answer? < 0 {
                    return Err("the stock of the plain script is sold out".into());
                }
            }
        }
        Ok((self.cpu_us().await? - before) / count(calls / at_once * at_once))
    }

    async fn admit(&mut self, activity: &Activity, at_once: usize) -> Result<f64, StartError> {
        let placements = (0..self.calls).map(|buyer| placement(activity, buyer)).collect::<Result<Vec<_>, _>>()?;
        let before = self.cpu_us().await?;
        for some in placements.chunks(at_once) {
            let asked = some.iter().map(|placement| self.gate.place(PlaceCall { activity, placement, look: false }));
            for answer in join_all(asked).await {
                let answer = answer.map_err(|fault| fault.chain())?;
                if !matches!(answer, PlaceAnswer::Admitted(_)) {
                    return Err(format!("the script answered {answer:?}").into());
                }
            }
        }
        Ok((self.cpu_us().await? - before) / count(placements.len()))
    }

    /// One bucket, loaded.
    async fn activity(&self, round: u32, name: &str) -> Result<Activity, StartError> {
        let draft = sample::with(sample::activity(SKU, STOCK), &json!({ "buckets": 1 }));
        let draft: ActivityDraft = serde_json::from_value(draft)?;
        let id = ActivityId::parse(&format!("scripts-{name}-{round}"))?;
        let activity = Activity { bucket_rate: RATE, ..Activity::create(id, draft)? };
        let sku = Sku::parse(SKU)?;
        let allotment = Allotment { sku, allotted: STOCK, version: 1, on_sale: true };
        let preheated = self.gate.preheat(&activity, Bucket::new(0)?, &[allotment], SystemClock.now()).await;
        match preheated.map_err(|fault| fault.chain())? {
            Preheated::Loaded => Ok(activity),
            Preheated::Already => Err("the bucket was loaded before".into()),
        }
    }

    /// Processor time of the server since it started, in microseconds.
    async fn cpu_us(&mut self) -> Result<f64, StartError> {
        let info: String = redis::cmd("INFO").arg("cpu").query_async(&mut self.plain).await?;
        Ok(cpu_us(&info).ok_or("Redis does not tell its processor time")?)
    }
}

/// The stock of the plain script, and the script; answers its hash.
pub async fn prepare(plain: &mut MultiplexedConnection) -> Result<String, StartError> {
    redis::cmd("SET").arg(STOCK_KEY).arg(STOCK).exec_async(plain).await?;
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(CHECK_AND_TAKE).query_async(plain).await?)
}

fn cpu_us(info: &str) -> Option<f64> {
    let seconds = |name: &str| -> Option<f64> {
        let text = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        text.trim().parse().ok()
    };
    Some((seconds("used_cpu_user")? + seconds("used_cpu_sys")?) * 1e6)
}

fn placement(activity: &Activity, buyer: u32) -> Result<Placement, StartError> {
    let buyer = BuyerId::parse(&format!("buyer-{buyer}"))?;
    let cart = Cart::new([(Sku::parse(SKU)?, Quantity::new(1)?)])?;
    let lines = cart.priced(activity).map_err(|sku| format!("{sku} is not sold"))?;
    let order_no = OrderNo::derive(&activity.id, &buyer, &TokenId::from_bytes([1; 16]));
    Ok(Placement::admit(activity, order_no, buyer, &cart, lines, SystemClock.now()))
}

fn count(calls: usize) -> f64 {
    f64::from(u32::try_from(calls).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_user_and_system_of_the_server_itself() {
        let info = "# CPU\r\nused_cpu_sys:0.250000\r\nused_cpu_user:1.500000\r\nused_cpu_sys_children:9.0\r\n\
                    used_cpu_user_children:9.0\r\nused_cpu_sys_main_thread:0.2\r\n";
        assert!(cpu_us(info).is_some_and(|us| (us - 1_750_000.0).abs() < 1e-3));
        assert_eq!(cpu_us("# CPU\r\nused_cpu_sys:0.25\r\n"), None);
    }
}
