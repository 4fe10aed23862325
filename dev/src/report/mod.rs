//! What a sale comes to: for a terminal, and as one HTML file.

mod charts;
pub mod html;
pub mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;

use crate::checks::{Check, Figures};
use crate::sale::afterwards::Afterwards;
use crate::sale::measure::Measured;
use crate::sale::settle::Settled;
use crate::sale::shape::Shape;
use crate::stores::snapshot::Snapshot;

/// What was set for the sale.
#[derive(Clone, Debug, Serialize)]
pub struct Settings {
    pub seed: u64,
    pub strategy: String,
    pub buckets: u16,
    /// Orders that one bucket admits in a second.
    pub bucket_rate: u32,
    /// Added to every call of `DynamoDB`.
    pub latency_ms: u64,
    /// Requests under way at once.
    pub connections: usize,
    /// Appended to the activities' names where Redis is not this process's own and may know them.
    pub suffix: String,
    /// Where the HTML file goes.
    pub directory: PathBuf,
}

impl Settings {
    #[must_use]
    pub fn activity(&self, name: &str) -> String {
        format!("{name}{}", self.suffix)
    }
}

/// One SKU in one bucket, in both stores.
#[derive(Clone, Debug, Serialize)]
pub struct StockRow {
    pub sku: String,
    pub bucket: u16,
    pub allotted: u64,
    pub available: i64,
    /// Units of live orders.
    pub live: u64,
    /// Redis: free units and those that D records hold; `None` without Redis.
    pub gate: Option<(i64, i64)>,
}

/// A small sale beside the great one.
#[derive(Clone, Debug, Serialize)]
pub struct SmallSale {
    /// What is peculiar about it.
    pub title: String,
    pub checks: Vec<Check>,
}

/// All of it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub settings: Settings,
    pub shape: Shape,
    pub measured: Measured,
    pub took_s: f64,
    pub stock: Vec<StockRow>,
    pub checks: Vec<Check>,
    pub figures: Figures,
    pub small: Vec<SmallSale>,
    pub settled: Settled,
    /// What became of the orders.
    pub afterwards: Afterwards,
    /// Calls of the database up to the end of the sale, by operation, refused ones included.
    pub database_calls: BTreeMap<String, u64>,
}

impl Report {
    /// Whether everything holds that was checked.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.checks.iter().chain(self.small.iter().flat_map(|sale| &sale.checks)).all(Check::holds)
    }

    /// Requests per second over the whole sale.
    #[must_use]
    pub fn throughput(&self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
        let requests = self.measured.requests as f64;
        requests / self.measured.lasted_s.max(0.1)
    }

    /// Requests that are not in the plan.
    #[must_use]
    pub fn extra(&self) -> u64 {
        self.measured.requests.saturating_sub(self.shape.requests)
    }

    /// How the planned requests split, in words and numbers.
    #[must_use]
    pub fn split(&self) -> [(&'static str, u64); 7] {
        let shape = &self.shape;
        [
            ("tokens", shape.tokens),
            ("orders", shape.orders),
            ("second order of a double click", shape.double_clicks),
            ("orders sent again after a lost reply", shape.lost_replies),
            ("orders sent again after the answer", shape.replays),
            ("queries", shape.queries),
            ("garbage", shape.garbage),
        ]
    }
}

/// Every stock item with what both stores say of it.
#[must_use]
pub fn stock_rows(snapshot: &Snapshot) -> Vec<StockRow> {
    let live = snapshot.live_units();
    let gate = |sku: &str, bucket: u16| {
        let content = snapshot.gate.as_ref()?.get(&bucket)?;
        let deducted = content.records.values().map(|record| i64::from(record.holds(sku))).sum();
        Some((content.skus.get(sku).map_or(0, |counters| counters.free), deducted))
    };
    let row = |((sku, bucket), item): (&(String, u16), &crate::stores::snapshot::Stock)| StockRow {
        sku: sku.clone(),
        bucket: *bucket,
        allotted: item.allotted,
        available: item.available,
        live: live.get(&(sku.clone(), *bucket)).copied().unwrap_or(0),
        gate: gate(sku, *bucket),
    };
    snapshot.stock.iter().map(row).collect()
}
