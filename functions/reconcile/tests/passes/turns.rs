//! Two runs that do not fight.

use std::time::Duration;

use holdfast::{
    adapters::redis::Gate,
    app::reconcile::{OnDemand, Reconcile},
    domain::lease::{Lease, LockName, LockOwner},
    ports::{Acquired, LockGate, Still},
};
use serde_json::json;
use tokio::time::Instant;

use crate::world::{NOW, World};

#[tokio::test]
async fn while_one_run_holds_the_lock_another_leaves_the_activity_alone() {
    let world = World::start().await;
    let (name, owner) = (LockName::parse("reconcile#sale").unwrap(), LockOwner::from_bytes([7; 16]));
    let lease = Lease::new(Duration::from_mins(1));
    assert_eq!(world.gate.acquire(&name, &owner, lease).await.unwrap(), Acquired::Held);
    let report = world.reconcile(NOW).await;
    assert_eq!((report.busy, report.activities, report.compared), (1, 0, 0));
    let run = Reconcile { store: world.database.clone(), gate: world.gate.clone(), clock: NOW };
    let deadline = Instant::now() + Duration::from_mins(1);
    assert_eq!(run.run_activity(&world.activity.id, deadline).await.unwrap(), OnDemand::InProgress);
    assert_eq!(world.gate.release(&name, &owner).await.unwrap(), Still::Own);
    assert_eq!(world.reconcile(NOW).await.busy, 0);
    let OnDemand::Done(report) = run.run_activity(&world.activity.id, deadline).await.unwrap() else {
        panic!("it is free");
    };
    assert_eq!((report.full_buckets, report.complete), (4, true), "on demand means everything");
    assert_eq!(world.gate.acquire(&name, &owner, lease).await.unwrap(), Acquired::Held, "each run released it");
}

/// Without Redis there is no lock, and both runs begin. The fence lets one of them end.
#[tokio::test]
async fn f10_without_the_lock_the_fence_alone_lets_one_run_end() {
    let world = World::fresh(&json!({"strategy": "cas", "buckets": 8})).await;
    world.backend.dynamodb.set_latency(Duration::from_millis(10));
    let run = || async {
        let run = Reconcile { store: world.database.clone(), gate: Gate::new(None), clock: NOW };
        run.run(Instant::now() + Duration::from_mins(1)).await.unwrap()
    };
    let (one, other) = tokio::join!(run(), run());
    assert_eq!(one.superseded + other.superseded, 1, "{one:?} {other:?}");
    assert_eq!((one.faults, other.faults), (0, 0), "a lock that fails breaks nothing");
    let state = world.findings().await;
    assert!(state.last_full.is_some() && state.pass.is_none());
}
