//! A primary that is lost while its replica lags, two primaries at once, and a cluster's own faults.

use std::time::Duration;

use ::redis::{FromRedisValue, cmd};
use servers::{Flow, Weather};
use tokio::time::Instant;

use super::super::FaultCase;
use super::super::scene::Scene;
use super::super::setup::{RedisKind, Setup};
use super::super::stage::RedisServers;
use super::case;
use crate::stack::StartError;
use crate::stores::snapshot::Snapshot;
use crate::wire;

/// Orders that the replica never hears of.
const LAG_ORDERS: u64 = 60;
/// Orders while there are two primaries.
const SPLIT_ORDERS: u64 = 60;
const POLL: Duration = Duration::from_millis(20);
/// How long a replica or a cluster may take to be ready.
const READY_LIMIT: Duration = Duration::from_mins(1);
/// Keys moved in one call.
const MOVE_KEYS: u64 = 10;

pub(super) fn cases() -> Vec<FaultCase> {
    let pair = |setup: &mut Setup| setup.redis = RedisKind::Pair;
    let cluster = |setup: &mut Setup| setup.redis = RedisKind::Cluster;
    vec![
        case!(Redis, "failover-lagging", "primary killed, a replica that lags takes over", lagging).with(pair),
        case!(Redis, "split-brain", "one process stays with the old primary, the other uses the new one", split_brain)
            .with(move |setup| {
                pair(setup);
                setup.second = Some(wire::functions);
            }),
        case!(Redis, "cluster-primary-killed", "a cluster's primary is killed, its replica takes over", primary_killed)
            .with(cluster),
        case!(Redis, "cluster-node-flushed", "`FLUSHALL` on each primary of a cluster in turn", node_flushed)
            .with(cluster),
        case!(Redis, "cluster-slot-moved", "the slots of two buckets move to another node", slot_moved).with(cluster),
    ]
}

async fn ask<T: FromRedisValue>(url: &str, command: &::redis::Cmd) -> Result<T, StartError> {
    let mut connection = ::redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    Ok(command.query_async(&mut connection).await?)
}

async fn until_info(url: &str, line: &str) -> Result<(), StartError> {
    let limit = Instant::now() + READY_LIMIT;
    loop {
        let info: String = ask(url, cmd("INFO").arg("replication")).await?;
        if info.lines().any(|found| found == line) {
            return Ok(());
        }
        if Instant::now() > limit {
            return Err(format!("{url} does not say {line}").into());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Lets the replica follow through its link; answers its URL.
async fn follow(scene: &Scene) -> Result<String, StartError> {
    let RedisServers::Pair { primary, replica, link } = &scene.stage.redis else {
        return Err("there is no replica".into());
    };
    let url = replica.url().to_owned();
    ask::<()>(primary.url(), cmd("CONFIG").arg(&["SET", "repl-diskless-sync-delay", "0"])).await?;
    ask::<()>(&url, cmd("REPLICAOF").arg("127.0.0.1").arg(link.address().port())).await?;
    until_info(&url, "master_link_status:up").await?;
    Ok(url)
}

fn black_hole(scene: &Scene) -> Result<(), StartError> {
    let RedisServers::Pair { link, .. } = &scene.stage.redis else { return Err("there is no replica".into()) };
    link.set(Weather { replies: Flow::Swallow, requests: Flow::Swallow, ..Weather::default() });
    Ok(())
}

fn deducted(snapshot: &Snapshot) -> u64 {
    let records = snapshot.gate.iter().flatten().flat_map(|(_, bucket)| bucket.records.values());
    records.filter(|record| record.deducted).map(|_| 1).sum()
}

async fn lagging(scene: &mut Scene) -> Result<(), StartError> {
    let replica = follow(scene).await?;
    scene.under_way().await?;
    black_hole(scene)?;
    scene.until_seen("201", LAG_ORDERS).await?;
    let before = deducted(&scene.snapshot().await?);
    let RedisServers::Pair { primary, .. } = &mut scene.stage.redis else { return Err("there is no primary".into()) };
    primary.stop_hard();
    ask::<()>(&replica, cmd("REPLICAOF").arg("NO").arg("ONE")).await?;
    scene.stage.switch_to(&replica)?;
    scene.lifted();
    let began = Instant::now();
    let after = deducted(&scene.snapshot().await?);
    let lost = before.saturating_sub(after);
    scene.struck(lost);
    scene.figure("deductions that Redis lost", &lost);
    scene.until("what was lost is restored", |scene| scene.stage.repairs.of("record_lost") >= lost).await?;
    let restored_after = began.elapsed().as_secs_f64();
    scene.goes_on().await?;
    let ended = scene.end().await?;
    let restored = scene.stage.repairs.of("record_lost");
    scene.figure("restored", &restored);
    scene.figure("restored after", &format!("{restored_after:.1} s"));
    let acknowledged = scene.load.crowd.submissions().iter().filter(|told| told.accepted).count();
    let stored = ended.snapshot.committed().count();
    scene.figure("orders acknowledged", &acknowledged);
    scene.figure("orders in the database", &stored);
    scene.claim("every acknowledged order is stored", acknowledged <= stored, format!("{acknowledged} and {stored}"));
    Ok(())
}

async fn split_brain(scene: &mut Scene) -> Result<(), StartError> {
    let replica = follow(scene).await?;
    scene.under_way().await?;
    black_hole(scene)?;
    ask::<()>(&replica, cmd("REPLICAOF").arg("NO").arg("ONE")).await?;
    // The first process goes to the new primary, and so do the tools; the second stays.
    scene.stage.switch_to(&replica)?;
    scene.stage.proxy()?.cut();
    scene.until_seen("201", SPLIT_ORDERS).await?;
    let records = scene.key(0, "orders");
    let RedisServers::Pair { primary, .. } = &mut scene.stage.redis else { return Err("there is no primary".into()) };
    let url = primary.url().to_owned();
    let keys: u64 = ask(&url, &cmd("DBSIZE")).await?;
    let size: u64 = ask(&url, cmd("HLEN").arg(&records)).await?;
    let other: u64 = ask(&replica, cmd("HLEN").arg(&records)).await?;
    primary.stop_hard();
    if let Some(second) = &scene.stage.second_proxy {
        second.redirect(replica.trim_start_matches("redis://").parse()?);
        second.cut();
    }
    scene.lifted();
    scene.struck(u64::from(keys > 0));
    scene.figure("fields in bucket 0 of the old and the new primary", &format!("{size} and {other}"));
    scene.until("the old primary's orders are restored", |scene| scene.stage.repairs.of("record_lost") > 0).await
}

async fn primary_killed(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let RedisServers::Cluster(cluster) = &mut scene.stage.redis else { return Err("there is no cluster".into()) };
    cluster.kill_primary(0);
    let began = Instant::now();
    cluster.until_complete(READY_LIMIT).await?;
    scene.struck(1);
    scene.figure("replica took over after", &format!("{:.1} s", began.elapsed().as_secs_f64()));
    Ok(())
}

async fn node_flushed(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let RedisServers::Cluster(cluster) = &scene.stage.redis else { return Err("there is no cluster".into()) };
    for url in cluster.urls().into_iter().take(3) {
        let keys: u64 = ask(&url, &cmd("DBSIZE")).await?;
        ask::<()>(&url, &cmd("FLUSHALL")).await?;
        scene.struck(u64::from(keys > 0));
        scene.goes_on().await?;
    }
    scene.lifted();
    let buckets = u64::from(scene.setup.buckets);
    scene.until("lost buckets are loaded again", |scene| scene.stage.repairs.of("gate_empty") >= buckets).await
}

async fn slot_moved(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let RedisServers::Cluster(cluster) = &scene.stage.redis else { return Err("there is no cluster".into()) };
    let urls: Vec<String> = cluster.urls().into_iter().take(3).collect();
    for bucket in 0..2 {
        let slot: u64 = ask(&urls[0], cmd("CLUSTER").arg("KEYSLOT").arg(scene.key(bucket, "bucket"))).await?;
        let from = owner(&urls, slot).await?;
        move_slot(&urls, slot, from, (from + 1) % urls.len()).await?;
        scene.struck(1);
        scene.goes_on().await?;
    }
    Ok(())
}

/// The index of the node that serves a slot.
async fn owner(urls: &[String], slot: u64) -> Result<usize, StartError> {
    for (index, url) in urls.iter().enumerate() {
        let nodes: String = ask(url, cmd("CLUSTER").arg("NODES")).await?;
        let mine = nodes.lines().find(|line| line.contains("myself")).unwrap_or("");
        let serves = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse::<u64>().is_ok_and(|first| first <= slot) && last.parse::<u64>().is_ok_and(|last| slot <= last)
        };
        if mine.split_whitespace().skip(8).any(serves) {
            return Ok(index);
        }
    }
    Err(format!("nobody serves slot {slot}").into())
}

/// Moves a slot as an operator's tool does it, key by key while it is in use.
async fn move_slot(urls: &[String], slot: u64, from: usize, to: usize) -> Result<(), StartError> {
    let id = async |node: usize| ask::<String>(&urls[node], cmd("CLUSTER").arg("MYID")).await;
    let (source, target) = (id(from).await?, id(to).await?);
    let set = |state: &str, node: &str| {
        let mut set = cmd("CLUSTER");
        set.arg("SETSLOT").arg(slot).arg(state).arg(node);
        set
    };
    ask::<()>(&urls[to], &set("IMPORTING", &source)).await?;
    ask::<()>(&urls[from], &set("MIGRATING", &target)).await?;
    let port = urls[to].rsplit(':').next().unwrap_or_default().to_owned();
    loop {
        let mut list = cmd("CLUSTER");
        let keys: Vec<String> = ask(&urls[from], list.arg("GETKEYSINSLOT").arg(slot).arg(MOVE_KEYS)).await?;
        if keys.is_empty() {
            break;
        }
        let mut migrate = cmd("MIGRATE");
        migrate.arg("127.0.0.1").arg(&port).arg("").arg(0).arg(2_000).arg("KEYS").arg(&keys);
        ask::<()>(&urls[from], &migrate).await?;
        // Long enough that calls meet a slot of which only some keys have moved.
        tokio::time::sleep(10 * POLL).await;
    }
    for node in [to, from] {
        ask::<()>(&urls[node], &set("NODE", &target)).await?;
    }
    Ok(())
}
