//! Faults of the reconciliation's schedule. What it has to repair is buckets that Redis loses.

use std::time::Duration;

use ::redis::AsyncCommands;
use harness::faulty::{Faulty, Saboteur, Strike};
use holdfast::app::reconcile::Reconcile;
use holdfast::ports::SystemClock;
use tokio::time::Instant;

use super::super::FaultCase;
use super::super::scene::Scene;
use super::case;
use crate::stack::StartError;

/// How often a bucket is lost, and the pause in between.
const LOSSES: u16 = 12;
const PAUSE: Duration = Duration::from_millis(300);
/// Schedules that run at once, and the interval of each.
const SCHEDULES: usize = 3;
const OFTEN: Duration = Duration::from_millis(150);
/// Most runs that die, fewest, how long there is for them, and the steps before which they do.
const DEATHS: u32 = 40;
const DEATHS_MIN: u64 = 6;
const DYING: Duration = Duration::from_secs(6);
const STEPS: u32 = 60;
/// Orders that are accepted although nobody repairs anything.
const ORDERS: u64 = 60;
/// Time that one of them has.
const RUN_LIMIT: Duration = Duration::from_secs(10);

pub(super) fn cases() -> Vec<FaultCase> {
    vec![
        case!(Schedule, "overlapping", "four schedules run at once while buckets are lost", overlapping),
        case!(Schedule, "dies-half-way", "runs die at a random step, before or after its effect", dies)
            .with(|setup| setup.reconcile_every = None),
        case!(Schedule, "out-of-time", "every run is stopped after a few buckets", out_of_time)
            .with(|setup| setup.reconcile_every = None),
        case!(Schedule, "does-not-run", "no run until the sale is over; half of the buckets are lost", does_not_run)
            .with(|setup| {
                setup.reconcile_every = None;
                setup.patience = Duration::from_secs(1);
            }),
    ]
}

/// Loses what Redis has of one bucket: all of it, or only its records.
async fn lose(scene: &mut Scene, bucket: u16) -> Result<(), StartError> {
    let mut keys = vec![scene.key(bucket, "orders")];
    if scene.rng.bool() {
        keys.extend(["bucket", "ledger"].map(|name| scene.key(bucket, name)));
    }
    let gone: u64 = scene.stage.connect().await?.del(keys).await?;
    scene.struck(u64::from(gone > 0));
    Ok(())
}

async fn overlapping(scene: &mut Scene) -> Result<(), StartError> {
    for _ in 0..SCHEDULES {
        scene.stage.start_schedule(OFTEN);
    }
    scene.under_way().await?;
    for loss in 0..LOSSES {
        lose(scene, loss % scene.setup.buckets).await?;
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn dies(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let (mut died, until) = (0, Instant::now() + DYING);
    for death in 0..DEATHS {
        if died >= DEATHS_MIN && Instant::now() > until {
            break;
        }
        let step = scene.rng.u32(..STEPS);
        if step.is_multiple_of(3) {
            lose(scene, u16::try_from(death)? % scene.setup.buckets).await?;
        }
        let strike = if scene.rng.bool() { Strike::CrashAfter } else { Strike::CrashBefore };
        let saboteur = Saboteur::at(step, strike);
        let wiring = scene.stage.stack.backend.wiring.clone();
        let run = Reconcile {
            store: wiring.database,
            gate: Faulty { inner: wiring.gate, saboteur: saboteur.clone() },
            clock: SystemClock,
        };
        // Its report is lost with it.
        let _ = run.run(Instant::now() + RUN_LIMIT).await;
        died += u64::from(saboteur.is_dead());
    }
    scene.figure("runs that died", &died);
    scene.claim("runs died half way", died >= DEATHS_MIN, format!("{died} runs"));
    scene.stage.start_schedule(PAUSE);
    Ok(())
}

/// The deadline is reached at once, so that each run does one bucket or none and leaves the rest.
async fn out_of_time(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    for loss in 0..LOSSES {
        lose(scene, loss % scene.setup.buckets).await?;
        let wiring = scene.stage.stack.backend.wiring.clone();
        let run = Reconcile { store: wiring.database, gate: wiring.gate, clock: SystemClock };
        // What it could not reach, the next one does.
        if let Ok(report) = run.run(Instant::now() + Duration::from_millis(4)).await {
            scene.stage.repairs.add(&serde_json::to_value(report)?);
        }
    }
    scene.stage.start_schedule(PAUSE);
    Ok(())
}

async fn does_not_run(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    for bucket in 0..scene.setup.buckets / 2 {
        lose(scene, bucket).await?;
    }
    scene.until_seen("201", ORDERS).await
}
