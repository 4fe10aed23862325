//! What a run found and did.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    domain::{
        ids::{Bucket, Sku},
        order::{Order, Stored},
        order_no::OrderNo,
        record::{Record, Side, format_held},
        repair::Finding,
    },
    ports::Fault,
};

/// Most order numbers reported per kind of finding; the rest is counted.
pub const REPORTED_MAX: usize = 50;

/// What a run found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub activities: u32,
    pub buckets: u32,
    /// Buckets of which every order and record was compared, not only what changed.
    pub full_buckets: u32,
    /// The longest that one bucket took, in milliseconds: what a lease is measured by.
    pub slowest_bucket_ms: u64,
    /// Orders and records compared.
    pub compared: u64,
    pub findings: BTreeMap<Finding, Found>,
    /// Calls that failed; what they would have shown is left to the next run.
    pub faults: u32,
    /// Activities that another run was at.
    pub busy: u32,
    /// Activities that a later run took over.
    pub superseded: u32,
    /// False when the budget ended first: the next run goes on where this one stopped.
    pub complete: bool,
}

/// One kind of finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    pub count: u64,
    pub repaired: u64,
    /// The first ones: order numbers, or bucket and SKU of a sum.
    pub examples: Vec<String>,
}

impl Report {
    pub(super) fn note(&mut self, finding: Finding, subject: String, repaired: bool) {
        let found = self.findings.entry(finding).or_default();
        found.count += 1;
        found.repaired += u64::from(repaired);
        if found.examples.len() < REPORTED_MAX {
            found.examples.push(subject);
        }
    }

    pub(super) fn fault(&mut self, what: &str, fault: &Fault) {
        self.faults += 1;
        tracing::warn!(what, fault = fault.chain(), "reconcile_fault");
    }
}

/// Most orders that are told apart for the deviation. It is far beyond every alarm by then.
const DISAGREEING_MAX: usize = 100_000;

/// What one run has seen of one activity.
#[derive(Debug, Default)]
pub struct Seen {
    /// Differences of all kinds.
    pub differences: u64,
    disagreeing: BTreeSet<OrderNo>,
    allotted: BTreeMap<Bucket, u64>,
}

impl Seen {
    /// One difference, of this order if of any.
    pub(super) fn note(&mut self, order_no: Option<&OrderNo>) {
        self.differences += 1;
        if self.disagreeing.len() < DISAGREEING_MAX {
            self.disagreeing.extend(order_no.cloned());
        }
    }

    pub(super) fn allotted(&mut self, bucket: Bucket, units: u64) {
        self.allotted.insert(bucket, units);
    }

    /// Orders that disagree, in percent of the stock in the buckets that were looked at. Those that are on their
    /// way are none: they are no differences.
    #[must_use]
    pub fn deviation(&self) -> f64 {
        let most = |number: u64| f64::from(u32::try_from(number).unwrap_or(u32::MAX));
        let orders = most(u64::try_from(self.disagreeing.len()).unwrap_or(u64::MAX));
        // Where nothing is on sale one order is as bad as can be.
        if self.disagreeing.is_empty() { 0.0 } else { 100.0 * orders / most(self.allotted.values().sum()).max(1.0) }
    }
}

/// One difference, as it is noted: in the report, in the log and in what is kept.
pub(super) struct Difference {
    pub kind: Finding,
    pub bucket: Bucket,
    pub order_no: Option<OrderNo>,
    pub sku: Option<Sku>,
    /// What each store said before.
    pub redis: String,
    pub database: String,
    pub action: String,
    pub repaired: bool,
}

impl Difference {
    /// Of a bucket as a whole.
    pub fn of(kind: Finding, bucket: Bucket, action: impl Into<String>, repaired: bool) -> Self {
        Self {
            kind,
            bucket,
            order_no: None,
            sku: None,
            redis: String::new(),
            database: String::new(),
            action: action.into(),
            repaired,
        }
    }

    /// What differs, in one word.
    pub fn subject(&self) -> String {
        match (&self.order_no, &self.sku) {
            (Some(order_no), _) => format!("{order_no}@{}", self.bucket),
            (None, Some(sku)) => format!("{sku}@{}", self.bucket),
            (None, None) => format!("bucket {}", self.bucket),
        }
    }
}

/// A record for people: no buyer in it.
pub(super) fn told_record(record: Option<&Record>, marked: bool) -> String {
    let mark = if marked { ", marked" } else { "" };
    match record {
        None => format!("no record{mark}"),
        Some(record) => {
            let side = if record.side == Side::Deducted { 'D' } else { 'R' };
            format!("{side}{} {}{mark}", record.take.get(), format_held(&record.held))
        }
    }
}

/// An order for people: no buyer in it.
pub(super) fn told_order(order: Option<&Stored>) -> String {
    match order {
        None => "no order".to_owned(),
        Some(Stored::Aborted(_)) => "ABORTED".to_owned(),
        Some(Stored::Order(Order { status, take, parts, .. })) => {
            let parts: Vec<String> =
                parts.iter().map(|part| format!("{}={}@{}", part.sku, part.units, part.bucket)).collect();
            format!("{} take {} {}", status.as_str(), take.get(), parts.join(","))
        }
    }
}
