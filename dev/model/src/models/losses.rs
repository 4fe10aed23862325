//! Redis loses what it knew, or does not answer; reconciliation repairs it.

use holdfast::domain::activity::QuotaPolicy;

use super::Size;
use crate::{
    reference::LimitScope,
    scenario::{Bounds, Reached as R, Scenario, Submission},
};

/// Each bucket's node falls back to an earlier state on its own.
pub fn failover(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 2)]), Submission::new(1, 1, &[(0, 1)])],
        limit: 2,
        bounds: Bounds { calls: [2, 1, 0], failovers: size.of(1, 2), confirms: 1, ..Bounds::default() },
        reaches: vec![R::Committed, R::FailedOver, R::PartialFill, R::Replayed],
        ..Scenario::new("failover")
    }
}

/// A bucket loses everything and is loaded again while the sale runs.
pub fn flush(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(1, 0, &[(0, 1)])],
        bounds: Bounds {
            calls: [size.of(1, 2), 1, 0],
            flushes: 1,
            syncs: 2,
            cancels: 1,
            confirms: 0,
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::Reloaded, R::Restocked, R::RecordOnly],
        ..Scenario::new("flush and rebuild")
    }
}

/// The keys of a bucket expire one before the other.
pub fn expired_keys(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        bounds: Bounds {
            calls: [2, 1, 0],
            expiries_of_keys: size.of(1, 2),
            syncs: 1,
            cancels: 1,
            confirms: 0,
            ..Bounds::default()
        },
        reaches: vec![R::Committed, R::Reloaded, R::RecordOnly],
        ..Scenario::new("expired keys")
    }
}

/// Redis does not answer some calls; others go through it.
pub fn degraded(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![1, 1]],
        bounds: Bounds { calls: [2, 1, 0], degraded: size.of(1, 2), faults: 1, confirms: 1, ..Bounds::default() },
        reaches: vec![R::DegradedCommit, R::Committed, R::Restored, R::Unknown],
        ..Scenario::new("degraded mode")
    }
}

/// Two runs of reconciliation at once, while an order is placed, paid and cancelled.
pub fn two_reconcilers(size: Size) -> Scenario {
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

/// One order per day: midnight comes, orders of yesterday are replayed and cancelled.
pub fn day_scope(size: Size) -> Scenario {
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

/// The same without retries, but with losses of Redis.
pub fn day_scope_lost(size: Size) -> Scenario {
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

/// Two calls of one submission, one from before midnight, and Redis forgets in between what the other
/// did, or one of them goes past it. Then the record is of one day and the order of the other, and what
/// takes a mark away has to find both.
pub fn lost_over_midnight(size: Size) -> Scenario {
    Scenario {
        bounds: Bounds {
            calls: [2, size.of(0, 1), 0],
            midnights: 1,
            failovers: 1,
            degraded: size.of(0, 1),
            cancels: 1,
            expiries: 1,
            payments: 1,
            confirms: 1,
            ..Bounds::default()
        },
        name: "lost over midnight",
        reaches: vec![R::NextDay, R::Committed, R::FailedOver, R::OtherDay, R::LatePaid, R::Restocked],
        ..day_scope(Size::Quick)
    }
}

/// Nothing at home: parts are taken and taken back on either side of midnight.
pub fn parts_over_midnight(size: Size) -> Scenario {
    Scenario {
        stock: vec![vec![0, 1]],
        submissions: vec![Submission::new(0, 0, &[(0, 1)]), Submission::new(1, 0, &[(0, 1)])],
        bounds: Bounds {
            calls: [2, 1, 0],
            midnights: 1,
            failovers: 1,
            faults: size.of(0, 1),
            confirms: size.of(0, 1),
            ..Bounds::default()
        },
        name: "parts over midnight",
        reaches: vec![R::NextDay, R::PartialFill, R::FailedOver, R::UndoneAtHome, R::OtherDay],
        ..day_scope(Size::Quick)
    }
}

/// A cancelled order's quota stays used, on its own day.
pub fn kept_over_midnight(size: Size) -> Scenario {
    Scenario {
        policy: QuotaPolicy::Keep,
        bounds: Bounds { calls: [2, 0, 0], midnights: 1, failovers: 1, cancels: 1, ..Bounds::default() },
        name: "kept over midnight",
        reaches: vec![R::NextDay, R::Committed, R::FailedOver, R::OtherDay, R::Restocked],
        ..lost_over_midnight(size)
    }
}
