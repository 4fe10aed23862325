//! Pure rules: no input or output, no clock, no environment. What docs/protocol.md says, as types.

pub mod activity;
pub mod admission_ratio;
pub mod buckets;
pub mod cart;
pub mod coupon;
pub mod ids;
pub mod json;
pub mod lease;
pub mod limit;
pub mod money;
pub mod order;
pub mod order_no;
pub mod payment;
pub mod rate;
pub mod reason;
pub mod rebalance;
pub mod record;
pub mod repair;
pub mod status;
pub mod stock;
pub mod time;
pub mod token;
pub mod webhook;

/// A value from outside that breaks a rule. The text names the field and the rule, never the value,
/// so that it can be shown to the caller and logged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {rule}")]
pub struct Invalid {
    /// The field as the HTTP contract spells it.
    pub field: &'static str,
    /// The rule that was broken, as a phrase that reads after the field's name.
    pub rule: String,
}

impl Invalid {
    pub fn new(field: &'static str, rule: impl Into<String>) -> Self {
        Self { field, rule: rule.into() }
    }
}

/// The format number that this code writes on every record, item and message. Readers accept this
/// one and the one before (there is none before 1), so that two deployments can run side by side.
pub const FORMAT: u32 = 1;

/// Whether this code can read a record, item or message of this format.
#[must_use]
pub const fn readable(format: u32) -> bool {
    format == FORMAT
}
