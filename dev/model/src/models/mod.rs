//! The focused models. Each explores one part of the protocol to the end: two or three submissions, and
//! every interleaving of what its bounds let happen.

mod afterwards;
mod losses;
mod placing;

use crate::scenario::Scenario;

/// How much is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Within a minute all together.
    Quick,
    /// Within twenty minutes on two cores.
    Full,
}

impl Size {
    const fn of(self, quick: u8, full: u8) -> u8 {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// Every focused model of this size.
#[must_use]
pub fn all(size: Size) -> Vec<Scenario> {
    vec![
        placing::plain(size),
        placing::lost_replies(size),
        placing::late_requests(size),
        placing::fallback(size),
        placing::partial_fill(size),
        placing::three_buckets(size),
        placing::two_skus(size),
        placing::limit_above_one(size),
        losses::failover(size),
        losses::flush(size),
        losses::expired_keys(size),
        losses::two_reconcilers(size),
        afterwards::late_payment(size),
        afterwards::kept_quota(size),
        losses::day_scope(size),
        losses::day_scope_lost(size),
        losses::lost_over_midnight(size),
        losses::parts_over_midnight(size),
        losses::kept_over_midnight(size),
        losses::degraded(size),
        placing::queued(size),
        afterwards::moves(size),
        afterwards::freeze(size),
        afterwards::database_sum(size),
    ]
}

/// By its name.
#[must_use]
pub fn named(name: &str, size: Size) -> Option<Scenario> {
    all(size).into_iter().find(|scenario| scenario.name == name)
}
