//! Changes of how much is on sale, and where.

use std::future::Future;

use serde::{Deserialize, Serialize};

use super::Fault;
use crate::domain::{
    ids::{ActivityId, Bucket, Sku},
    stock::{ChangeMark, MoveId},
    time::UnixMillis,
};

/// One change of allotments, under an id that makes it one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StockMove {
    pub id: MoveId,
    pub activity: ActivityId,
    pub sku: Sku,
    /// Units that each bucket gets, or gives when below zero. Each bucket once, none with zero.
    pub parts: Vec<MovePart>,
    pub operator: String,
    pub reason: String,
    pub at: UnixMillis,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovePart {
    pub bucket: Bucket,
    pub units: i64,
}

impl StockMove {
    /// Units that the activity has more, or fewer, in all.
    #[must_use]
    pub fn delta(&self) -> i64 {
        self.parts.iter().map(|part| part.units).sum()
    }
}

/// What making a move answers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Moved {
    Done,
    /// A move with this id was made before: this one.
    Already(Box<StockMove>),
    /// A bucket has less available than it should give, or is not on sale at all. Nothing was written.
    Short,
    /// Conflicts or throttling outlasted the bounded retries. Nothing was written.
    Busy,
}

pub trait MoveStore: Send + Sync {
    /// One transaction: the move if there is none with its id, and every stock item's `allotted` and
    /// `available`. MUST take only what is available.
    fn make_move(&self, change: &StockMove, mark: &ChangeMark) -> impl Future<Output = Result<Moved, Fault>> + Send;

    /// The move with this id, if it was made.
    fn stock_move(
        &self,
        activity: &ActivityId,
        id: &MoveId,
    ) -> impl Future<Output = Result<Option<StockMove>, Fault>> + Send;
}
