//! Placing orders, while replies are lost and requests fail.

use super::Size;
use crate::{
    reference::LimitScope,
    scenario::{Bounds, Reached as R, Scenario, Submission},
};

/// Two buyers, one unit; retries, rollback messages, cancellation and reconciliation.
pub fn plain(size: Size) -> Scenario {
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
pub fn lost_replies(size: Size) -> Scenario {
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
pub fn late_requests(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 2)]), Submission::new(1, 0, &[(0, 1)])],
        limit: 2,
        bounds: Bounds {
            calls: [size.of(2, 1), 1, 0],
            late: size.of(1, 2),
            confirms: size.of(0, 1),
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::LandedLate, R::Unknown, R::ClaimWon],
        ..Scenario::new("late requests")
    }
}

/// Home has nothing: the unit is in the other bucket.
pub fn fallback(size: Size) -> Scenario {
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
pub fn partial_fill(size: Size) -> Scenario {
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
pub fn three_buckets(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 3)]), Submission::new(1, 1, &[(0, 1)])],
        limit: 3,
        bounds: Bounds { calls: [2, 1, 0], faults: size.of(0, 1), failovers: 1, confirms: 0, ..Bounds::default() },
        reaches: vec![R::Committed, R::PartialFill, R::UndoneAtHome, R::OtherBucketAfterShort],
        ..Scenario::new("three buckets")
    }
}

/// Orders of two SKUs, of which one runs out at home.
pub fn two_skus(size: Size) -> Scenario {
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
pub fn limit_above_one(size: Size) -> Scenario {
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

/// Orders are persisted by a consumer, two in one transaction.
pub fn queued(size: Size) -> Scenario {
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
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::BatchRefused, R::ClaimWon],
        ..Scenario::new("queued")
    }
}
