//! Stock in the database: one item per activity, SKU and bucket, right about what is left.

use serde::{Deserialize, Serialize};

use super::{
    Invalid,
    ids::{ActivityId, Bucket, Sku},
    time::UnixMillis,
};

/// Longest id of a move, in bytes.
pub const MOVE_ID_MAX_BYTES: usize = 128;

/// The stock of one SKU in one bucket. Every transaction on it raises `version` by one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockItem {
    pub activity: ActivityId,
    pub sku: Sku,
    pub bucket: Bucket,
    /// Units put on sale here: `available` + units of live orders.
    pub allotted: u64,
    pub available: u64,
    pub version: u64,
    /// False while frozen: no order commits then, whatever Redis says.
    pub on_sale: bool,
    /// When it last changed, by the clock of whoever changed it.
    pub changed_at: UnixMillis,
}

/// Why stock changed. The name of the operation in the audit trail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Order,
    Cancel,
    Expiry,
    Refund,
    Rollback,
    /// A person did it.
    Manual,
    /// The system did it by itself.
    Automatic,
}

impl Operation {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Order => "order",
            Self::Cancel => "cancel",
            Self::Expiry => "expiry",
            Self::Refund => "refund",
            Self::Rollback => "rollback",
            Self::Manual => "manual",
            Self::Automatic => "automatic",
        }
    }
}

/// The system's own mark on a stock change. A change without a fresh one was made behind its back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeMark {
    pub operation: Operation,
    /// Who: the operator's id, or the name of the function.
    pub operator: String,
    /// What for: the order number, or the id of the operation.
    pub reference: String,
}

/// Names one change of allotments: 1 to 128 visible ASCII characters. What an operator asks for is named by
/// the operator's own key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct MoveId(String);

/// How the ids of moves begin that the system makes by itself.
const AUTOMATIC: &str = "rebalance#";

impl MoveId {
    /// An operator's own key.
    ///
    /// # Errors
    /// As [`MoveId::parse`], or when it begins as the system's own do.
    pub fn of_operator(text: &str) -> Result<Self, Invalid> {
        if text.starts_with(AUTOMATIC) {
            return Err(Invalid::new("idempotency-key", "must not begin with rebalance#"));
        }
        Self::parse(text)
    }

    /// Of a move between two stock items of these versions: whoever plans it from them names it so.
    #[must_use]
    pub fn automatic(sku: &Sku, from: (Bucket, u64), to: (Bucket, u64)) -> Self {
        // 10 + 64 + 2 · (1 + 5 + 1 + 20) bytes at most, which is too many only for versions that no item reaches.
        Self(format!("{AUTOMATIC}{sku}#{}#{}#{}#{}", from.0, from.1, to.0, to.1))
    }

    /// # Errors
    /// When it is empty, longer than 128 bytes or has anything but visible ASCII.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if (1..=MOVE_ID_MAX_BYTES).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("idempotency-key", "must be 1 to 128 visible ASCII characters"))
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for MoveId {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<MoveId> for String {
    fn from(id: MoveId) -> Self {
        id.0
    }
}

/// What Redis needs to know of a stock item, by version: never a difference. Made by
/// [`super::activity::Activity::allotment`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allotment {
    pub sku: Sku,
    pub allotted: u64,
    pub version: u64,
    pub on_sale: bool,
}
