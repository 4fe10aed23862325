//! Purchase limits: how many units one buyer may hold, and in which scope that is counted.

use serde::{Deserialize, Serialize};

use super::{Invalid, cart::OrderLine, ids::Sku, json, time::BusinessDate};

/// Highest limit that can be set, in units.
pub const LIMIT_MAX: u32 = 1_000_000;
/// Most placements that one guard lists, cancelled ones included. It bounds the guard item and the
/// buyer's mark; further orders in the scope are refused as `limit_reached`.
pub const PLACEMENTS_MAX: usize = 20;

/// What a limit counts over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitScope {
    /// All units of the buyer in the activity.
    Activity,
    /// Units of each SKU by itself.
    Sku,
    /// Units of the buyer in the activity on one business date.
    Day,
}

/// At most `max` units per buyer and scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    #[serde(deserialize_with = "json::word")]
    pub scope: LimitScope,
    pub max: u32,
}

impl Limit {
    /// # Errors
    /// When `max` is not 1 to 1,000,000.
    pub fn checked(self) -> Result<Self, Invalid> {
        if (1..=LIMIT_MAX).contains(&self.max) {
            Ok(self)
        } else {
            Err(Invalid::new("limit.max", "must be 1 to 1000000"))
        }
    }

    /// What an order of these lines on this business date counts against: one charge per scope.
    #[must_use]
    pub fn charges(&self, lines: &[OrderLine], date: BusinessDate) -> Vec<Charge> {
        let total = || lines.iter().map(|line| line.quantity.get()).sum();
        match self.scope {
            LimitScope::Activity => vec![Charge { scope: ScopeKey("A".to_owned()), units: total() }],
            LimitScope::Day => vec![Charge { scope: ScopeKey(format!("D#{date}")), units: total() }],
            LimitScope::Sku => lines
                .iter()
                .map(|line| Charge { scope: ScopeKey::sku(&line.sku), units: line.quantity.get() })
                .collect(),
        }
    }
}

/// Names one scope of a buyer: `A`, `S#<sku>` or `D#<date>`. Part of the guard's key and of the
/// field of the buyer's mark.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ScopeKey(String);

impl ScopeKey {
    fn sku(sku: &Sku) -> Self {
        Self(format!("S#{sku}"))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Units that one order counts in one scope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Charge {
    pub scope: ScopeKey,
    pub units: u32,
}
