//! Faults of one Redis server.

use std::time::Duration;

use ::redis::{AsyncCommands, FromRedisValue, cmd, pipe};
use servers::{Flow, ProxyCounts, RedisOptions, Weather};

use super::super::FaultCase;
use super::super::scene::Scene;
use super::super::setup::{RedisKind, Setup};
use super::case;
use crate::stack::StartError;

/// How long a fault lasts whose phase nothing else ends.
const PHASE: Duration = Duration::from_secs(2);
/// How often something short is done, and the pause in between.
const TIMES: u64 = 25;
const PAUSE: Duration = Duration::from_millis(40);
/// Calls that a fault has to strike. Few: after two of them the breaker keeps the others away.
const STRIKES: u64 = 5;
/// Below what a server with a sale in it needs.
const LITTLE_MEMORY: &str = "1mb";
/// Keys that make loading an append-only file take its time, and the time of each in microseconds.
const FILLERS: usize = 8_000;
const LOAD_DELAY_US: u32 = 100;
/// After so many milliseconds of a script others are told BUSY.
const BUSY_AFTER_MS: u64 = 30;

pub(super) fn cases() -> Vec<FaultCase> {
    let with_file = |setup: &mut Setup| {
        setup.redis = RedisKind::Single(RedisOptions { appendonly: true, ..RedisOptions::default() });
    };
    vec![
        case!(Redis, "script-flush", "`SCRIPT FLUSH` again and again", script_flush),
        case!(Redis, "flushall", "`FLUSHALL`: everything in Redis is gone", flushall),
        case!(Redis, "out-of-memory", "`maxmemory` is reached, policy `noeviction`", out_of_memory),
        case!(Redis, "eviction", "`maxmemory` is reached with the wrong policy, `allkeys-lru`", eviction),
        case!(Redis, "busy-script", "another client's script runs for 2 s: `BUSY`", busy),
        case!(Redis, "loading", "killed, then loading its append-only file for a second: `LOADING`", loading).with(
            |setup| {
                let options =
                    RedisOptions { appendonly: true, load_delay_us: LOAD_DELAY_US, ..RedisOptions::default() };
                setup.redis = RedisKind::Single(options);
            },
        ),
        case!(Redis, "paused", "`SIGSTOP` for 2 s", paused),
        case!(Redis, "killed-empty", "killed, back empty after 1 s", killed),
        case!(Redis, "killed-with-file", "killed, back after 1 s with its append-only file", killed).with(with_file),
        case!(Redis, "reset", "all connections are reset, 25 times", reset),
        case!(
            Redis,
            "reset-when-short",
            "connections are reset while buckets run short and parts are taken",
            reset_short
        )
        .with(|setup| {
            setup.units = 120;
            setup.buckets = 8;
            setup.skus = vec!["a"];
        }),
        case!(Redis, "replies-lost", "calls are applied, replies never arrive", replies_lost),
        case!(Redis, "requests-lost", "calls never arrive, connections stay open", requests_lost),
        case!(Redis, "applied-late", "calls are kept back for 2 s, then applied all the same", applied_late),
        case!(Redis, "slow", "200 ms more for each call", slow),
        case!(Redis, "refused", "no connection is accepted for 2 s", refused),
        case!(Redis, "wrong-type", "a bucket's records are a key of another type", wrong_type),
    ]
}

async fn ask<T: FromRedisValue>(scene: &Scene, command: &::redis::Cmd) -> Result<T, StartError> {
    Ok(command.query_async(&mut scene.stage.connect().await?).await?)
}

/// How often Redis answered an error of this kind since it started.
async fn errors(scene: &Scene, kind: &str) -> Result<u64, StartError> {
    let info: String = ask(scene, cmd("INFO").arg("errorstats")).await?;
    let line = info.lines().find_map(|line| line.strip_prefix(&format!("errorstat_{kind}:count=")));
    Ok(line.and_then(|count| count.trim().parse().ok()).unwrap_or(0))
}

/// Waits until Redis answered so many errors of this kind.
async fn until_errors(scene: &mut Scene, kind: &str) -> Result<(), StartError> {
    let before = errors(scene, kind).await?;
    let limit = tokio::time::Instant::now() + PHASE * 5;
    loop {
        let count = errors(scene, kind).await? - before;
        if count >= STRIKES {
            scene.struck(count);
            return Ok(());
        }
        if tokio::time::Instant::now() > limit {
            return Err(format!("{count} calls were answered {kind}, {STRIKES} expected").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn script_flush(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let mut connection = scene.stage.connect().await?;
    for _ in 0..TIMES {
        cmd("SCRIPT").arg("FLUSH").query_async::<()>(&mut connection).await?;
        tokio::time::sleep(PAUSE).await;
    }
    let unknown = errors(scene, "NOSCRIPT").await?;
    scene.struck(unknown);
    Ok(())
}

async fn flushall(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    ask::<()>(scene, &cmd("FLUSHALL")).await?;
    scene.struck(1);
    scene.lifted();
    let buckets = u64::from(scene.setup.buckets);
    scene.until("lost buckets are loaded again", |scene| scene.stage.repairs.of("gate_empty") >= buckets).await?;
    scene.until("lost records are restored", |scene| scene.stage.repairs.of("record_lost") > 0).await
}

async fn out_of_memory(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    ask::<()>(scene, cmd("CONFIG").arg(&["SET", "maxmemory", LITTLE_MEMORY])).await?;
    until_errors(scene, "OOM").await?;
    ask::<()>(scene, cmd("CONFIG").arg(&["SET", "maxmemory", "0"])).await
}

async fn eviction(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    ask::<()>(scene, cmd("CONFIG").arg(&["SET", "maxmemory-policy", "allkeys-lru", "maxmemory", LITTLE_MEMORY]))
        .await?;
    tokio::time::sleep(PHASE).await;
    ask::<()>(scene, cmd("CONFIG").arg(&["SET", "maxmemory", "0", "maxmemory-policy", "noeviction"])).await?;
    let info: String = ask(scene, cmd("INFO").arg("stats")).await?;
    let evicted = info.lines().find_map(|line| line.strip_prefix("evicted_keys:"));
    let evicted = evicted.and_then(|count| count.trim().parse().ok()).unwrap_or(0);
    scene.struck(evicted);
    scene.figure("keys evicted", &evicted);
    Ok(())
}

async fn busy(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    ask::<()>(scene, cmd("CONFIG").arg("SET").arg("lua-time-limit").arg(BUSY_AFTER_MS)).await?;
    // Both before the script runs: a new connection would be told BUSY too.
    let (mut connection, mut killer) = (scene.stage.connect().await?, scene.stage.connect().await?);
    let endless = tokio::spawn(async move {
        let endless = cmd("EVAL").arg("while true do end").arg(0).query_async::<()>(&mut connection).await;
        endless.is_err()
    });
    tokio::time::sleep(PHASE).await;
    cmd("SCRIPT").arg("KILL").query_async::<()>(&mut killer).await?;
    if !endless.await? {
        return Err("the script ended by itself".into());
    }
    // The kill is answered before the script has ended, and nothing else is until then.
    while killer.ping::<()>().await.is_err() {
        tokio::time::sleep(PAUSE).await;
    }
    let busy = errors(scene, "BUSY").await?;
    scene.struck(busy);
    Ok(())
}

async fn loading(scene: &mut Scene) -> Result<(), StartError> {
    let mut fill = pipe();
    for filler in 0..FILLERS {
        fill.cmd("SET").arg(format!("filler:{filler}")).arg("").ignore();
    }
    fill.query_async::<()>(&mut scene.stage.connect().await?).await?;
    scene.under_way().await?;
    scene.stage.single()?.restart().await?;
    scene.lifted();
    let loading = errors(scene, "LOADING").await?;
    scene.struck(loading);
    Ok(())
}

async fn paused(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let mut connection = scene.stage.connect().await?;
    scene.stage.single()?.pause()?;
    tokio::time::sleep(PHASE).await;
    let answered = tokio::time::timeout(PAUSE, connection.ping::<()>()).await;
    scene.stage.single()?.resume()?;
    scene.struck(u64::from(!matches!(answered, Ok(Ok(())))));
    Ok(())
}

async fn killed(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.stage.single()?.stop_hard();
    tokio::time::sleep(PHASE / 2).await;
    scene.struck(u64::from(scene.stage.connect().await.is_err()));
    scene.stage.single()?.restart().await?;
    Ok(())
}

async fn reset(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    for _ in 0..TIMES {
        scene.stage.proxy()?.cut();
        tokio::time::sleep(2 * PAUSE).await;
    }
    let cut = scene.stage.proxy()?.counts().cut;
    scene.struck(cut);
    Ok(())
}

/// Calls that look around and take parts are broken off one by one, from the first on.
async fn reset_short(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let sold_out = |scene: &Scene| scene.load.crowd.orders.count("409 sold_out");
    let limit = tokio::time::Instant::now() + PHASE * 5;
    while sold_out(scene) < STRIKES * 10 && tokio::time::Instant::now() < limit {
        scene.stage.proxy()?.cut();
        tokio::time::sleep(Duration::from_millis(scene.rng.u64(5..120))).await;
    }
    let cut = scene.stage.proxy()?.counts().cut;
    scene.struck(cut);
    Ok(())
}

async fn replies_lost(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.stage.proxy()?.set(Weather { replies: Flow::Swallow, ..Weather::default() });
    scene
        .until("replies are lost", |scene| {
            scene.stage.proxy.as_ref().is_some_and(|p| p.counts().replies_lost >= STRIKES)
        })
        .await?;
    clear(scene, |counts| counts.replies_lost)
}

async fn requests_lost(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.stage.proxy()?.set(Weather { requests: Flow::Swallow, ..Weather::default() });
    tokio::time::sleep(PHASE).await;
    clear(scene, |counts| counts.requests_lost)
}

async fn applied_late(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.stage.proxy()?.set(Weather { requests: Flow::Hold, ..Weather::default() });
    tokio::time::sleep(PHASE).await;
    clear(scene, |counts| counts.held)
}

async fn slow(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.stage.proxy()?.set(Weather { delay: PAUSE * 5, ..Weather::default() });
    tokio::time::sleep(PHASE).await;
    clear(scene, |counts| counts.delayed)
}

async fn refused(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.stage.proxy()?.set(Weather { refuse: true, ..Weather::default() });
    scene.stage.proxy()?.cut();
    tokio::time::sleep(PHASE).await;
    clear(scene, |counts| counts.refused)
}

/// Good weather again; the strikes are what was counted.
fn clear(scene: &mut Scene, strikes: fn(ProxyCounts) -> u64) -> Result<(), StartError> {
    let proxy = scene.stage.proxy()?;
    proxy.set(Weather::default());
    let strikes = strikes(proxy.counts());
    scene.struck(strikes);
    Ok(())
}

async fn wrong_type(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let (records, aside) = (scene.key(0, "orders"), scene.key(0, "aside"));
    pipe()
        .atomic()
        .rename(&records, &aside)
        .set(&records, "not a hash")
        .query_async::<()>(&mut scene.stage.connect().await?)
        .await?;
    let before = scene.load.crowd.orders.count("503");
    scene.until_seen("503", STRIKES).await?;
    let seen = scene.load.crowd.orders.count("503") - before;
    // A person puts it right.
    ask::<()>(scene, cmd("RENAME").arg(&aside).arg(&records)).await?;
    scene.struck(seen);
    Ok(())
}
