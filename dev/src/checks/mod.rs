//! The invariants of docs/protocol.md, checked from what both stores hold and from what clients were
//! told. None of the product's own decisions is asked.

pub mod agreement;
mod orders;
mod stock;
mod told;

use std::collections::BTreeSet;

use serde::Serialize;

pub use told::{Answer, Submission};

use crate::stores::snapshot::Snapshot;

/// Most violations that a check names; the rest is counted.
pub const NAMED_MAX: usize = 10;

/// One invariant and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The invariant's number in docs/protocol.md, or a word for what goes beyond them.
    pub id: &'static str,
    /// The invariant in a few words.
    pub name: &'static str,
    /// What was compared, in numbers.
    pub numbers: String,
    /// How many violations there are.
    pub count: usize,
    /// The first ones.
    pub violations: Vec<String>,
}

impl Check {
    #[must_use]
    pub fn new(id: &'static str, name: &'static str, numbers: impl Into<String>, mut violations: Vec<String>) -> Self {
        let count = violations.len();
        violations.truncate(NAMED_MAX);
        Self { id, name, numbers: numbers.into(), count, violations }
    }

    #[must_use]
    pub const fn holds(&self) -> bool {
        self.count == 0
    }
}

/// The figures that everybody asks for first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Figures {
    /// Units in live orders.
    pub sold: u64,
    /// Units in live orders beyond what was put on sale.
    pub oversold: u64,
    /// Units left while a buyer who wanted one was still refused.
    pub unsold_while_asked: u64,
    /// Units beyond a buyer's limit.
    pub doubled: u64,
    /// Orders that a client was told of and that do not exist, and units that no order explains.
    pub lost: u64,
}

/// All seven invariants, in their order.
#[must_use]
pub fn invariants(snapshot: &Snapshot, submissions: &[Submission]) -> Vec<Check> {
    vec![
        stock::not_oversold(snapshot),
        orders::within_limits(snapshot),
        stock::sums(snapshot),
        orders::takes_once(snapshot),
        agreement::check(snapshot),
        told::check(snapshot, submissions),
        stock::audited(snapshot),
    ]
}

/// The figures of a sale; `wanted` names the SKUs that somebody still wanted at the end.
#[must_use]
pub fn figures(snapshot: &Snapshot, submissions: &[Submission], wanted: &BTreeSet<String>) -> Figures {
    let live = snapshot.live_units();
    let available = snapshot.stock.iter().filter(|((sku, _), _)| wanted.contains(sku));
    Figures {
        sold: live.values().sum(),
        oversold: stock::oversold(snapshot).values().sum(),
        unsold_while_asked: available.map(|(_, item)| u64::try_from(item.available).unwrap_or(0)).sum(),
        doubled: orders::beyond_limits(snapshot).values().sum(),
        lost: told::lost(snapshot, submissions) + stock::unexplained(snapshot),
    }
}
