//! What both stores hold of one activity, as plain values.

use std::collections::BTreeMap;

use holdfast::domain::order::Status;

/// SKU and bucket.
pub type StockKey = (String, u16);

/// Both stores' content.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    pub activity: ActivityFacts,
    /// By order number, tombstones included.
    pub orders: BTreeMap<String, StoredOrder>,
    pub guards: Vec<Guard>,
    /// Coupons that were ever used, and the order that holds each now.
    pub coupons: BTreeMap<String, Option<String>>,
    pub stock: BTreeMap<StockKey, Stock>,
    pub audit: BTreeMap<StockKey, Vec<AuditRow>>,
    /// By bucket; `None` for an activity without a gate.
    pub gate: Option<BTreeMap<u16, GateBucket>>,
}

/// What the checks have to know of the activity.
#[derive(Clone, Debug, Default)]
pub struct ActivityFacts {
    pub id: String,
    pub buckets: u16,
    pub uses_gate: bool,
    /// Units per buyer and scope.
    pub limit_max: u64,
    /// Whether a dead order keeps its buyer's quota.
    pub keeps_quota: bool,
    /// Thousandths of the stock that Redis may admit.
    pub admission_ratio: u64,
    /// Units put on sale at the start.
    pub offered: BTreeMap<String, u64>,
}

/// What the database holds under an order number.
#[derive(Clone, Debug)]
pub struct StoredOrder {
    pub status: Status,
    pub take: u8,
    pub buyer: Option<String>,
    /// The buyer's home bucket, of an order that was committed.
    pub home: Option<u16>,
    pub lines: BTreeMap<String, u32>,
    /// Units that it took where.
    pub parts: BTreeMap<StockKey, u32>,
    /// Units that it counts in each scope of its buyer.
    pub charges: BTreeMap<String, u32>,
    /// Its coupon's code.
    pub coupon: Option<String>,
    /// What the operator who ended it said of its quota.
    pub quota_kept: Option<bool>,
}

impl StoredOrder {
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.status.is_live()
    }

    /// Units per SKU in one bucket.
    #[must_use]
    pub fn held_in(&self, bucket: u16) -> BTreeMap<&str, u32> {
        let parts = self.parts.iter().filter(|((_, held), units)| *held == bucket && **units > 0);
        parts.map(|((sku, _), units)| (sku.as_str(), *units)).collect()
    }
}

/// A buyer's guard in one scope.
#[derive(Clone, Debug)]
pub struct Guard {
    pub buyer: String,
    pub scope: String,
    pub units: u64,
    /// The orders that it has counted.
    pub orders: Vec<String>,
}

/// One stock item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stock {
    pub allotted: u64,
    pub available: i64,
    pub version: u64,
}

/// One row of the audit trail.
#[derive(Clone, Debug)]
pub struct AuditRow {
    pub version: u64,
    pub before: Option<Stock>,
    pub after: Option<Stock>,
    /// The operation's name; `None` for a change behind the system's back.
    pub operation: Option<String>,
    /// The order number, for an order.
    pub reference: String,
}

/// One bucket of the gate.
#[derive(Clone, Debug, Default)]
pub struct GateBucket {
    pub skus: BTreeMap<String, GateSku>,
    /// By order number.
    pub records: BTreeMap<String, GateRecord>,
    pub marks: Vec<Mark>,
    /// Fields that cannot be read, with the reason.
    pub unreadable: Vec<String>,
}

/// Counters of one SKU in one bucket.
#[derive(Clone, Copy, Debug, Default)]
pub struct GateSku {
    pub free: i64,
    pub sold: i64,
    pub allotted: i64,
}

/// One order's record in one bucket.
#[derive(Clone, Debug)]
pub struct GateRecord {
    /// D, or else R.
    pub deducted: bool,
    pub take: u8,
    pub buyer: Option<String>,
    /// Units per SKU that were taken here, zeros left out.
    pub units: BTreeMap<String, u32>,
}

impl GateRecord {
    /// Units of this SKU that it holds now.
    #[must_use]
    pub fn holds(&self, sku: &str) -> u32 {
        if self.deducted { self.units.get(sku).copied().unwrap_or(0) } else { 0 }
    }
}

/// One order in a buyer's mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub buyer: String,
    pub scope: String,
    pub order_no: String,
    pub units: u32,
}

impl Snapshot {
    /// Units of live orders per stock item.
    #[must_use]
    pub fn live_units(&self) -> BTreeMap<StockKey, u64> {
        let mut live = BTreeMap::new();
        for order in self.orders.values().filter(|order| order.is_live()) {
            for (key, units) in &order.parts {
                *live.entry(key.clone()).or_default() += u64::from(*units);
            }
        }
        live
    }

    /// Orders that were committed at some time: not the tombstones.
    pub fn committed(&self) -> impl Iterator<Item = (&String, &StoredOrder)> {
        self.orders.iter().filter(|(_, order)| order.status != Status::Aborted)
    }
}
