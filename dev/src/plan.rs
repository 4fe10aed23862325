//! The capacity planner: what a sale of an expected rate needs, as parameters of the template and fields of the
//! activity, which limits of the account are below it, and what it costs.

use crate::args::Plan as Expected;
use crate::cost::{Tally, prices};
use crate::stack::StartError;

/// Orders a day up to which the small tier, without Redis, is enough.
const SMALL_ORDERS: u64 = 100_000;
/// Accepted orders a second up to which it is: one stock item stands about 80, and buyers spread over a few.
const SMALL_RATE: u32 = 200;
/// Orders a second that one bucket admits unless set otherwise, and the most buckets there are.
const BUCKET_RATE: u32 = 80;
const BUCKETS_MAX: u32 = 64;
/// Order requests a second for one shard: half of what one processor does at the 60 microseconds that a script was
/// measured to take (docs/bench.md).
const SHARD_REQUESTS: u32 = 8_000;
/// Bytes of Redis for an order (docs/keys.md), and what a node of the template's default type holds for use.
const ORDER_BYTES: u64 = 650;
const NODE_BYTES: u64 = 4_500_000_000;
/// Write units for placing an order of one line, for each further line, and for its payment (docs/keys.md).
const PLACED: u32 = 8;
const FURTHER_LINE: u32 = 3;
/// What accounts and tables have unless more was asked for.
const ACCOUNT_API_RATE: u32 = 10_000;
const ACCOUNT_CONCURRENCY: u32 = 1_000;
const NEW_TABLE_UNITS: u32 = 4_000;
const TABLE_UNITS_MAX: u32 = 40_000;
/// Head room of concurrency, because requests come in bursts.
const BURST: u32 = 2;

/// Which of the supported deployments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// `Redis=none`, strategy `cas`.
    Small,
    /// `Redis=create` or `existing`, strategy `prededuct`.
    Large,
}

/// What a sale needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub tier: Tier,
    pub buckets: u32,
    pub bucket_rate: u32,
    pub shards: u32,
    /// Instances of `PlaceOrder` at a time.
    pub processes: u32,
    pub warm_write_units: u32,
    pub api_rate: u32,
    pub redis_bytes: u64,
    /// What stands in the way, with what to do.
    pub warnings: Vec<String>,
}

/// Plans a sale.
#[must_use]
pub fn plan(expected: &Expected) -> Plan {
    let rate = expected.rate;
    let requests = expected.requests.unwrap_or(rate.saturating_mul(10)).max(rate);
    let tier = if expected.orders <= SMALL_ORDERS && rate <= SMALL_RATE { Tier::Small } else { Tier::Large };
    let buckets = rate.div_ceil(BUCKET_RATE).clamp(1, BUCKETS_MAX);
    let bucket_rate = rate.div_ceil(buckets).max(BUCKET_RATE);
    let redis_bytes = expected.orders * ORDER_BYTES;
    let by_memory = u32::try_from(redis_bytes.div_ceil(NODE_BYTES)).unwrap_or(u32::MAX);
    let units = PLACED + FURTHER_LINE * (expected.lines - 1);
    let plan = Plan {
        tier,
        buckets,
        bucket_rate,
        shards: if tier == Tier::Small { 0 } else { requests.div_ceil(SHARD_REQUESTS).max(by_memory).max(1) },
        processes: concurrency(requests, expected.order_ms).saturating_mul(BURST),
        warm_write_units: rate.saturating_mul(units).max(NEW_TABLE_UNITS),
        // A token before each order, and as many looks as both together.
        api_rate: requests.saturating_mul(4),
        redis_bytes,
        warnings: Vec::new(),
    };
    Plan { warnings: warnings(expected, &plan), ..plan }
}

/// Requests under way at a time, of so many a second that take so long each.
fn concurrency(a_second: u32, each_ms: u32) -> u32 {
    u32::try_from((u64::from(a_second) * u64::from(each_ms)).div_ceil(1_000)).unwrap_or(u32::MAX).max(1)
}

fn warnings(expected: &Expected, plan: &Plan) -> Vec<String> {
    let mut warnings = Vec::new();
    if plan.bucket_rate > BUCKET_RATE {
        warnings.push(format!(
            "{} orders a second of one SKU are more than {BUCKETS_MAX} buckets take at {BUCKET_RATE}: with bucket_rate {} \
             more of them collide; split the SKU into several, or let the sale take longer",
            expected.rate, plan.bucket_rate
        ));
    }
    let limits = [
        (plan.api_rate, ACCOUNT_API_RATE, "API Gateway: requests a second of the account"),
        (plan.processes, ACCOUNT_CONCURRENCY, "Lambda: concurrent executions of the account"),
        (plan.warm_write_units, TABLE_UNITS_MAX, "DynamoDB: write units a second of a table"),
    ];
    for (needed, limit, what) in limits {
        if needed > limit {
            warnings.push(format!("{what}: {needed} needed, {limit} unless raised. Ask for it weeks before the sale"));
        }
    }
    if plan.warm_write_units > NEW_TABLE_UNITS {
        warnings.push(format!(
            "a new table takes {NEW_TABLE_UNITS} write units a second: set WarmWriteUnits at least an hour before"
        ));
    }
    warnings
}

/// For people.
///
/// # Errors
/// When the price file is not as it should be.
pub fn text(expected: &Expected) -> Result<String, StartError> {
    let plan = plan(expected);
    let (prices, _) = prices::read()?;
    let paid = Tally {
        http_calls: 3.0,
        write_units: f64::from(PLACED + FURTHER_LINE * (expected.lines - 1) + 1),
        read_units: 2.0,
        messages_sent: 1.0,
        stream_records: f64::from(3 + expected.lines),
        log_bytes: 1_000.0,
        seconds: f64::from(expected.order_ms + 2 * 10) / 1_000.0,
        ..Tally::default()
    };
    let nodes = f64::from(plan.shards * 2);
    let mut lines = vec![
        format!("{} orders in all, {} a second at the peak, of one SKU", expected.orders, expected.rate),
        String::new(),
    ];
    let mut row = |name: &str, value: String| lines.push(format!("  {name:<24}{value}"));
    match plan.tier {
        Tier::Small => row("Redis", "none: the small tier, strategy cas".to_owned()),
        Tier::Large => {
            row("Redis", "create, strategy prededuct".to_owned());
            row("RedisShards", plan.shards.to_string());
        }
    }
    row("PlaceOrderProcesses", plan.processes.to_string());
    row("ProvisionedConcurrency", (plan.processes / BURST).to_string());
    row("WarmWriteUnits", plan.warm_write_units.to_string());
    row("ApiRate", plan.api_rate.to_string());
    row("activity: buckets", plan.buckets.to_string());
    row("activity: bucket_rate", plan.bucket_rate.to_string());
    if plan.tier == Tier::Large {
        row("memory of Redis", format!("{:.1} GB over all shards", crate::cost::gigabytes(plan.redis_bytes)));
        row("Redis, a month", format!("{:.0} $", nodes * 730.0 * prices.redis_node_hour));
    }
    row("a million paid orders", format!("{:.2} $ (make cost measures it)", paid.price(&prices).sum()));
    if !plan.warnings.is_empty() {
        lines.push(String::new());
        lines.extend(plan.warnings.iter().map(|warning| format!("  ! {warning}")));
    }
    Ok(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(rate: u32, orders: u64) -> Expected {
        Expected { rate, requests: None, orders, lines: 1, order_ms: 50 }
    }

    #[test]
    fn a_small_shop_needs_no_redis_and_a_burst_does() {
        assert_eq!(plan(&expected(20, 100_000)).tier, Tier::Small);
        assert_eq!(plan(&expected(20, 100_001)).tier, Tier::Large);
        assert_eq!(plan(&expected(201, 5_000)).tier, Tier::Large);
        assert!(plan(&expected(20, 100_000)).warnings.is_empty());
    }

    #[test]
    fn buckets_processes_and_units_follow_the_rate() {
        let plan = plan(&expected(1_000, 1_000_000));
        assert_eq!((plan.buckets, plan.bucket_rate, plan.shards), (13, 80, 2));
        assert_eq!((plan.processes, plan.warm_write_units), (1_000, 8_000));
        assert_eq!(plan.redis_bytes, 650_000_000);
        assert_eq!(plan.warnings.len(), 2, "{:?}", plan.warnings);
    }

    #[test]
    fn what_is_beyond_every_bucket_is_told() {
        let plan = plan(&expected(20_000, 10_000_000));
        assert_eq!((plan.buckets, plan.bucket_rate), (64, 313));
        assert!(plan.warnings[0].contains("split the SKU"), "{:?}", plan.warnings);
        assert_eq!(plan.warnings.len(), 5);
    }

    #[test]
    fn a_plan_can_be_read() {
        let text = text(&Expected { requests: Some(50_000), lines: 3, ..expected(5_000, 2_000_000) }).unwrap();
        for part in ["RedisShards             7", "WarmWriteUnits          70000", "ApiRate                 200000"] {
            assert!(text.contains(part), "{text}");
        }
    }
}
