//! Clocks that are wrong. The sale's window is that of Redis's clock; a function's own clock decides over
//! its tokens' life and its grace.

use std::time::Duration;

use holdfast::app::reconcile::Reconcile;
use tokio::time::Instant;

use super::super::FaultCase;
use super::super::scene::Scene;
use super::super::skew::{self, Skewed};
use super::case;
use crate::stack::StartError;

const MINUTE_MS: i64 = 60_000;
/// How long a jumping clock stays where it is.
const JUMP_EVERY_MS: i64 = 70;
/// Answers of either process while the fault lasts.
const ANSWERS: u64 = 150;
/// Most reconciliations whose clock is wrong, how long there is for them, and the pause in between.
const RUNS: usize = 12;
const RUNNING: Duration = Duration::from_secs(6);
const PAUSE: Duration = Duration::from_millis(60);
const RUN_LIMIT: Duration = Duration::from_secs(10);
/// What a process may tell whose clock is that wrong: tokens are past their life, or the sale is not on.
const WRONG: &[&str] = &["403 token_invalid", "409 not_started", "409 ended"];

pub(super) fn cases() -> Vec<FaultCase> {
    vec![
        case!(Clock, "ahead", "one process is 3 minutes ahead", selling).with(|setup| {
            setup.second = Some(|wiring, keys| skew::functions(wiring, keys, Skewed(|_| 3 * MINUTE_MS)));
        }),
        case!(Clock, "far-ahead", "one process is 10 minutes ahead: every token is past its life", selling).with(
            |setup| {
                setup.allowed = WRONG;
                setup.second = Some(|wiring, keys| skew::functions(wiring, keys, Skewed(|_| 10 * MINUTE_MS)));
            },
        ),
        case!(Clock, "behind", "one process is 3 minutes behind: the sale has not started", selling).with(|setup| {
            setup.allowed = WRONG;
            setup.second = Some(|wiring, keys| skew::functions(wiring, keys, Skewed(|_| -3 * MINUTE_MS)));
        }),
        case!(Clock, "jumps", "one process's clock jumps by up to 10 minutes, back and forth", selling).with(|setup| {
            setup.allowed = WRONG;
            setup.second = Some(|wiring, keys| skew::functions(wiring, keys, Skewed(jumping)));
        }),
        case!(Clock, "reconcile-ahead", "the reconciliation is 5 minutes ahead: it has no grace", reconcile_ahead)
            .with(|setup| setup.latency = Duration::from_millis(60)),
        case!(Clock, "reconcile-behind", "the reconciliation is 5 minutes behind", reconcile_behind),
    ]
}

/// Another offset in every interval, between −10 and 10 minutes.
fn jumping(now_ms: i64) -> i64 {
    let step = now_ms.div_euclid(JUMP_EVERY_MS);
    (step.wrapping_mul(7_919).rem_euclid(21) - 10) * MINUTE_MS
}

async fn selling(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.until_seen("", ANSWERS).await?;
    // Every second call went to the process with the wrong clock.
    let second = scene.stage.second_proxy.as_ref().map_or(0, |proxy| proxy.counts().connections);
    scene.struck(ANSWERS / 2);
    scene.claim("the process at fault reached Redis", second > 0, format!("{second} connections"));
    Ok(())
}

async fn reconcile_ahead(scene: &mut Scene) -> Result<(), StartError> {
    reconcile(scene, Skewed(|_| 5 * MINUTE_MS)).await?;
    // Orders under way were given up: that is what a grace is for.
    scene.figure("submissions given up", &scene.stage.repairs.of("order_missing"));
    Ok(())
}

async fn reconcile_behind(scene: &mut Scene) -> Result<(), StartError> {
    reconcile(scene, Skewed(|_| -5 * MINUTE_MS)).await
}

async fn reconcile(scene: &mut Scene, clock: Skewed) -> Result<(), StartError> {
    scene.under_way().await?;
    let until = Instant::now() + RUNNING;
    for _ in 0..RUNS {
        let wiring = scene.stage.stack.backend.wiring.clone();
        let run = Reconcile { store: wiring.database, gate: wiring.gate, clock };
        // What it could not reach, the next one does.
        if let Ok(report) = run.run(Instant::now() + RUN_LIMIT).await {
            scene.stage.repairs.add(&serde_json::to_value(report)?);
            scene.struck(1);
        }
        if Instant::now() > until {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
