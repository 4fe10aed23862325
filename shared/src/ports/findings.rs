//! What reconciliations found and did: the audit trail of automatic repairs.

use std::{collections::BTreeMap, future::Future};

use serde::{Deserialize, Serialize};

use super::{Cursor, Fault};
use crate::domain::{
    ids::{ActivityId, Bucket, Sku},
    order_no::OrderNo,
    repair::Finding,
    time::UnixMillis,
};

/// Rows of one page: far below the size of an item.
pub const FINDING_ROWS_MAX: usize = 100;

/// One difference and what was done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingRow {
    pub kind: Finding,
    /// Where.
    pub bucket: Bucket,
    pub at: UnixMillis,
    /// The order that differs, where it is one.
    pub order_no: Option<OrderNo>,
    /// The SKU whose counter or trail differs, where it is one.
    pub sku: Option<Sku>,
    /// What Redis said before.
    pub redis: String,
    /// What the database said before.
    pub database: String,
    /// What was done, and what came of it.
    pub action: String,
    pub repaired: bool,
}

/// How many of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    pub count: u64,
    pub repaired: u64,
}

/// What one run found in one bucket, or a part of it. Never changed once it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FindingPage {
    pub activity: ActivityId,
    pub bucket: Bucket,
    /// When the pass began.
    pub pass: UnixMillis,
    /// When the page was closed.
    pub at: UnixMillis,
    /// The turn of the run, and the page's number in it: pages of two runs at one time are two.
    pub fence: u64,
    pub number: u32,
    /// Everything that was found, also what has no row.
    pub counts: BTreeMap<Finding, Counted>,
    /// At most [`FINDING_ROWS_MAX`].
    pub rows: Vec<FindingRow>,
}

/// Findings. Append only; they expire.
pub trait FindingStore: Send + Sync {
    /// Keeps a page until then. Keeping it again MUST have no effect.
    fn keep_findings(&self, page: &FindingPage, until: UnixMillis) -> impl Future<Output = Result<(), Fault>> + Send;

    /// A page of pages, the latest first. What has expired MUST be left out.
    fn findings(
        &self,
        activity: &ActivityId,
        now: UnixMillis,
        after: Option<&Cursor>,
    ) -> impl Future<Output = Result<(Vec<FindingPage>, Option<Cursor>), Fault>> + Send;
}
