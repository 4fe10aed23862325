//! What happens to orders and to stock later.

use holdfast::domain::activity::QuotaPolicy;

use super::Size;
use crate::{
    reference::Bucket,
    scenario::{Bounds, Move, Reached as R, Scenario, Submission},
};

/// An expired order is paid after all, while others want its unit.
pub fn late_payment(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(0, 0, &[(0, 1)])],
        bounds: Bounds {
            calls: [1, 1, 0],
            expiries: 1,
            payments: 2,
            refunds: 1,
            failovers: size.of(0, 1),
            confirms: 1,
            ..Bounds::default()
        },
        reaches: vec![R::LatePaid, R::LatePaymentRefused, R::RestoredSecondTake, R::Restocked],
        ..Scenario::new("late payment")
    }
}

/// A cancelled order's quota stays used; a refunded one's does not.
pub fn kept_quota(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![2]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(0, 0, &[(0, 1)])],
        policy: QuotaPolicy::Keep,
        bounds: Bounds {
            calls: [size.of(1, 2), 1, 0],
            cancels: 1,
            expiries: 1,
            payments: 2,
            refunds: 1,
            flushes: size.of(0, 1),
            failovers: 1,
            confirms: 1,
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::LimitReached, R::LatePaid, R::RepairedByRestock],
        ..Scenario::new("kept quota")
    }
}

/// Stock moves from bucket to bucket, more is put on sale and taken off it.
pub fn moves(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        moves: vec![
            Move::Units { from: Bucket(0), to: Bucket(1), units: 1 },
            Move::Adjust { bucket: Bucket(0), more: -1 },
            Move::Adjust { bucket: Bucket(1), more: 1 },
        ],
        bounds: Bounds { calls: [1, 1, 0], moves: 2, syncs: 2, failovers: size.of(0, 1), ..Bounds::default() },
        reaches: vec![R::Moved, R::Synced, R::Committed],
        ..Scenario::new("moves")
    }
}

/// The sale switch is turned in the database and reaches Redis later, or not.
pub fn freeze(size: Size) -> Scenario {
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
pub fn database_sum(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![2]],
        bounds: Bounds { calls: [1, 1, 0], sums: size.of(1, 2), cancels: 2, ..Bounds::default() },
        reaches: vec![R::Committed],
        ..Scenario::new("database sum")
    }
}
