//! The focused models. Each explores one part of the protocol to the end: two or three submissions, and
//! every interleaving of what its bounds let happen.

use holdfast::domain::activity::QuotaPolicy;

use crate::{
    reference::{Bucket, LimitScope},
    scenario::{Bounds, Move, Reached as R, Scenario, Submission},
};

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
        plain(size),
        lost_replies(size),
        late_requests(size),
        fallback(size),
        partial_fill(size),
        three_buckets(size),
        two_skus(size),
        limit_above_one(size),
        failover(size),
        flush(size),
        expired_keys(size),
        two_reconcilers(size),
        late_payment(size),
        kept_quota(size),
        day_scope(size),
        day_scope_lost(size),
        degraded(size),
        queued(size),
        moves(size),
        freeze(size),
        database_sum(size),
    ]
}

/// By its name.
#[must_use]
pub fn named(name: &str, size: Size) -> Option<Scenario> {
    all(size).into_iter().find(|scenario| scenario.name == name)
}

/// Two buyers, one unit; retries, rollback messages, cancellation and reconciliation.
fn plain(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1]],
        bounds: Bounds {
            calls: [2, 2, 0],
            faults: 1,
            redelivered: 1,
            cancels: 1,
            confirms: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::Replayed, R::ClaimWon, R::ClaimLost, R::Unknown, R::Restocked],
        ..Scenario::new("plain")
    }
}

/// Replies are lost and requests fail, again and again.
fn lost_replies(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 0]],
        bounds: Bounds {
            calls: [2, 1, 0],
            faults: size.of(2, 3),
            confirms: 1,
            redelivered: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::ClaimWon, R::ClaimLost, R::Unknown, R::RepairedByClaim],
        ..Scenario::new("lost replies")
    }
}

/// Requests arrive long after their senders gave them up.
fn late_requests(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 2)]), Submission::new(1, 0, &[(0, 1)])],
        limit: 2,
        bounds: Bounds { calls: [2, 1, 0], late: size.of(1, 2), confirms: size.of(0, 1), ..Bounds::default() },
        reaches: vec![R::Committed, R::LandedLate, R::Unknown, R::ClaimWon, R::PartialFill],
        ..Scenario::new("late requests")
    }
}

/// Home has nothing: the unit is in the other bucket.
fn fallback(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![0, 1]],
        bounds: Bounds {
            calls: [2, 1, 0],
            faults: 1,
            cancels: size.of(0, 1),
            confirms: size.of(1, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::OtherBucketAfterShort, R::PartialFill, R::UndoneAtHome, R::Restocked],
        ..Scenario::new("fallback")
    }
}

/// Both orders need a part of each bucket, and there is enough for one.
fn partial_fill(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 2)]), Submission::new(1, 1, &[(0, 2)])],
        limit: 2,
        bounds: Bounds { calls: [2, 1, 0], faults: 1, cancels: size.of(0, 1), confirms: 1, ..Bounds::default() },
        reaches: vec![R::Committed, R::PartialFill, R::UndoneAtHome, R::OtherBucketAfterShort],
        ..Scenario::new("partial fill")
    }
}

/// An order over three buckets, one of which fails over.
fn three_buckets(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 3)]), Submission::new(1, 1, &[(0, 1)])],
        limit: 3,
        bounds: Bounds {
            calls: [2, 1, 0],
            faults: size.of(0, 1),
            failovers: 1,
            confirms: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::PartialFill, R::UndoneAtHome, R::OtherBucketAfterShort],
        ..Scenario::new("three buckets")
    }
}

/// Orders of two SKUs, of which one runs out at home.
fn two_skus(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![2, 0], vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 1), (1, 1)]), Submission::new(1, 0, &[(0, 1), (1, 1)])],
        scope: LimitScope::Sku,
        bounds: Bounds {
            calls: [2, 1, 0],
            faults: 1,
            cancels: size.of(0, 1),
            confirms: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::PartialFill, R::OtherBucketAfterShort],
        ..Scenario::new("two skus")
    }
}

/// One buyer with three submissions, two of which the limit lets through.
fn limit_above_one(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![3, 0]],
        submissions: vec![
            Submission::new(0, 0, &[(0, 1)]),
            Submission::new(0, 0, &[(0, 1)]),
            Submission::new(0, 0, &[(0, 1)]),
        ],
        limit: 2,
        bounds: Bounds {
            calls: [1, 1, 1],
            failovers: 1,
            cancels: 1,
            confirms: size.of(0, 1),
            faults: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::LimitReached, R::GuardRefused, R::ClaimWon, R::FailedOver],
        ..Scenario::new("limit above one")
    }
}

/// Each bucket's node falls back to an earlier state on its own.
fn failover(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 2)]), Submission::new(1, 1, &[(0, 1)])],
        limit: 2,
        bounds: Bounds {
            calls: [2, 1, 0],
            failovers: size.of(1, 2),
            confirms: 1,
            cancels: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::FailedOver, R::Restored, R::PartialFill, R::Replayed],
        ..Scenario::new("failover")
    }
}

/// A bucket loses everything and is loaded again while the sale runs.
fn flush(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(1, 0, &[(0, 1)])],
        bounds: Bounds {
            calls: [2, 1, 0],
            flushes: 1,
            syncs: 2,
            cancels: 1,
            confirms: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::Reloaded, R::Restocked, R::RecordOnly],
        ..Scenario::new("flush and rebuild")
    }
}

/// The keys of a bucket expire one before the other.
fn expired_keys(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        bounds: Bounds {
            calls: [2, 1, 0],
            expiries_of_keys: size.of(1, 2),
            syncs: 1,
            cancels: 1,
            confirms: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::Reloaded, R::RecordOnly],
        ..Scenario::new("expired keys")
    }
}

/// Two runs of reconciliation at once, while an order is placed, paid and cancelled.
fn two_reconcilers(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(1, 0, &[(0, 1)])],
        bounds: Bounds {
            calls: [2, size.of(0, 1), 0],
            failovers: 1,
            confirms: size.of(2, 3),
            reconcilers: 2,
            cancels: 1,
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::FailedOver, R::Restored, R::RepairedByClaim, R::RepairedByRestock],
        ..Scenario::new("two reconcilers")
    }
}

/// An expired order is paid after all, while others want its unit.
fn late_payment(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(0, 0, &[(0, 1)])],
        bounds: Bounds {
            calls: [1, 1, 0],
            expiries: 1,
            payments: 2,
            refunds: 1,
            failovers: 1,
            confirms: size.of(1, 2),
            ..Bounds::default()
        },
        reaches: vec![R::LatePaid, R::LatePaymentRefused, R::RestoredSecondTake, R::Restocked, R::FailedOver],
        ..Scenario::new("late payment")
    }
}

/// A cancelled order's quota stays used; a refunded one's does not.
fn kept_quota(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![2]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(0, 0, &[(0, 1)])],
        policy: QuotaPolicy::Keep,
        bounds: Bounds {
            calls: [2, 1, 0],
            cancels: 1,
            expiries: 1,
            payments: 2,
            refunds: 1,
            flushes: size.of(0, 1),
            failovers: 1,
            confirms: size.of(1, 2),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::LimitReached, R::LatePaid, R::RepairedByRestock],
        ..Scenario::new("kept quota")
    }
}

/// One order per day: midnight comes, orders of yesterday are replayed and cancelled.
fn day_scope(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![2, 0]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(0, 0, &[(0, 1)])],
        scope: LimitScope::Day,
        bounds: Bounds {
            calls: [2, 1, 0],
            midnights: 1,
            cancels: 1,
            faults: 1,
            confirms: 1,
            redelivered: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::NextDay, R::Committed, R::Replayed, R::LimitReached, R::RepairedByClaim],
        ..Scenario::new("day scope")
    }
}

/// The same without retries, but with losses of Redis. See [`lost_over_midnight`].
fn day_scope_lost(size: Size) -> Scenario {
    Scenario {
        bounds: Bounds {
            calls: [1, 1, 0],
            midnights: 1,
            cancels: 1,
            failovers: 1,
            degraded: size.of(0, 1),
            confirms: size.of(1, 2),
            ..Bounds::default()
        },
        reaches: vec![R::NextDay, R::Committed, R::LimitReached, R::GuardRefused, R::Restored, R::FailedOver],
        name: "day scope, lost",
        ..day_scope(size)
    }
}

/// Not one of the models that hold: a known gap. Two calls of one submission, one from before midnight,
/// and Redis forgets in between what the other did. Then the record is written anew with the other day,
/// and the buyer's mark counts the order there.
#[must_use]
pub fn lost_over_midnight() -> Scenario {
    Scenario {
        bounds: Bounds { calls: [2, 0, 0], midnights: 1, failovers: 1, ..Bounds::default() },
        name: "lost over midnight",
        reaches: Vec::new(),
        ..day_scope(Size::Quick)
    }
}

/// Redis does not answer some calls; others go through it.
fn degraded(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        bounds: Bounds {
            calls: [2, size.of(1, 2), 0],
            degraded: size.of(1, 2),
            faults: size.of(1, 1),
            late: size.of(0, 1),
            confirms: 1,
            cancels: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::DegradedCommit, R::Committed, R::Restored, R::Unknown],
        ..Scenario::new("degraded mode")
    }
}

/// Orders are persisted by a consumer, two in one transaction.
fn queued(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![2]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(0, 0, &[(0, 1)])],
        bounds: Bounds {
            calls: [2, 1, 0],
            batch: 2,
            redelivered: 1,
            failovers: 1,
            cancels: 1,
            confirms: size.of(0, 1),
            faults: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::BatchRefused, R::ClaimWon],
        ..Scenario::new("queued")
    }
}

/// Stock moves from bucket to bucket, more is put on sale and taken off it.
fn moves(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        moves: vec![
            Move::Units { from: Bucket(0), to: Bucket(1), units: 1 },
            Move::Adjust { bucket: Bucket(0), more: -1 },
            Move::Adjust { bucket: Bucket(1), more: 1 },
        ],
        bounds: Bounds {
            calls: [1, 1, 0],
            moves: 2,
            syncs: 2,
            failovers: size.of(0, 1),
            flushes: size.of(0, 1),
            cancels: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Moved, R::Synced, R::Committed],
        ..Scenario::new("moves")
    }
}

/// The sale switch is turned in the database and reaches Redis later, or not.
fn freeze(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(1, 1, &[(0, 2)])],
        limit: 2,
        bounds: Bounds {
            calls: [2, 1, 0],
            switches: 2,
            syncs: size.of(1, 2),
            failovers: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Frozen, R::Committed, R::ClaimWon, R::Synced],
        ..Scenario::new("freeze")
    }
}

/// The database's sum is looked at and corrected while orders commit and are cancelled.
fn database_sum(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![2]],
        bounds: Bounds { calls: [1, 1, 0], sums: size.of(1, 2), cancels: 2, ..Bounds::default() },
        reaches: vec![R::Committed],
        ..Scenario::new("database sum")
    }
}
