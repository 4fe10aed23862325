//! What operators do, interrupted or at an awkward moment: freeze, configuration, keys, new versions,
//! preheating.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{AsyncCommands, cmd};
use harness::faulty::{Faulty, Saboteur, Strike};
use holdfast::adapters::redis::keys::{SENTINEL, is_mark};
use holdfast::app::activity_cache::ActivityCache;
use holdfast::app::admin::{Admin, Expected, LoadState, PreheatResult, SavedActivity, SwitchResult};
use holdfast::domain::ids::{ActivityId, Sku};
use holdfast::domain::reason::Reason;
use holdfast::domain::stock::StockItem;
use holdfast::domain::token::TokenKeys;
use holdfast::ports::{ActivityStore, StockStore, SystemClock};
use serde_json::json;
use servers::{Flow, Weather};

use super::super::FaultCase;
use super::super::load::signing_key;
use super::super::scene::Scene;
use super::case;
use super::scripts::{hash_of, text_of};
use crate::stack::StartError;
use crate::wire;

const OPERATOR: &str = "olivia";
/// Orders accepted in one phase.
const ORDERS: u64 = 40;
/// The operator's call dies before this step: some buckets are done, some are not.
const FREEZE_DIES_AT: u32 = 3;
/// How long nothing may be sold after a freeze.
const FROZEN: Duration = Duration::from_secs(1);
/// Changes of the configuration while it is in use, and the pause in between.
const CHANGES: u32 = 6;
const PAUSE: Duration = Duration::from_millis(400);
/// Records that a newer version wrote.
const NEWER_RECORDS: usize = 5;
/// Answers of tokens that the other process did not issue.
const REFUSED: u64 = 10;

pub(super) fn cases() -> Vec<FaultCase> {
    vec![
        case!(Operations, "freeze-half-way", "a freeze dies half way and reaches only some buckets", freeze_half_way)
            .with(|setup| setup.skus = vec!["a"]),
        case!(Operations, "freeze-without-redis", "a freeze reaches the database and not Redis", freeze_without_redis)
            .with(|setup| setup.reconcile_every = None),
        case!(Operations, "configuration-changed", "the configuration changes six times under load", changed)
            .with(|setup| setup.second = Some(wire::functions)),
        case!(
            Operations,
            "configuration-not-carried",
            "a change of the configuration does not reach Redis",
            not_carried
        ),
        case!(Operations, "keys-rotated", "token keys are rotated, process by process", keys_rotated)
            .with(|setup| setup.second = Some(wire::functions)),
        case!(Operations, "keys-torn", "two processes with different token keys", keys_torn).with(|setup| {
            setup.second = Some(wire::functions);
            setup.allowed = &["403 token_invalid"];
        }),
        case!(Operations, "scripts-mixed", "one process has newer scripts", scripts_mixed)
            .with(|setup| setup.second = Some(wire::functions)),
        case!(Operations, "newer-records", "records that a newer version wrote", newer_records),
        case!(
            Operations,
            "preheat-half-way",
            "Redis is flushed, and loading it again dies half way, again and again",
            preheat
        )
        .with(|setup| setup.reconcile_every = None),
    ]
}

fn activity(scene: &Scene) -> Result<ActivityId, StartError> {
    Ok(ActivityId::parse(&scene.stage.activity)?)
}

/// The stock items as the database has them.
async fn items(scene: &Scene) -> Result<Vec<StockItem>, StartError> {
    let store = &scene.stage.stack.backend.wiring.database;
    let stored =
        store.activity(&activity(scene)?).await.map_err(|fault| fault.chain())?.ok_or("the activity is gone")?;
    let skus: Vec<Sku> = stored.skus.iter().map(|offer| offer.sku.clone()).collect();
    Ok(store.stock(&stored, &skus).await.map_err(|fault| fault.chain())?)
}

/// How many of these items are sold from or changed when the load has gone on.
fn changed_since(before: &[StockItem], after: &[StockItem]) -> usize {
    let same = |item: &&StockItem| {
        after.iter().any(|now| now.sku == item.sku && now.bucket == item.bucket && now.version == item.version)
    };
    before.iter().filter(|item| !same(item)).count()
}

async fn switch(scene: &Scene, on_sale: bool, saboteur: Saboteur) -> Result<SwitchResult, StartError> {
    let wiring = scene.stage.stack.backend.wiring.clone();
    let store = Faulty { inner: wiring.database, saboteur: saboteur.clone() };
    let admin = Admin {
        cache: ActivityCache::new(store.clone()),
        store,
        gate: Faulty { inner: wiring.gate, saboteur },
        clock: SystemClock,
    };
    let switched = admin.switch(&activity(scene)?, None, on_sale, OPERATOR, &Reason::parse("test")?).await;
    Ok(switched.map_err(|fault| fault.chain())?)
}

/// One that never strikes.
fn sound() -> Saboteur {
    Saboteur::at(u32::MAX - 1, Strike::Refused)
}

async fn freeze_half_way(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let saboteur = Saboteur::at(FREEZE_DIES_AT, Strike::CrashBefore);
    let _ = switch(scene, false, saboteur.clone()).await?;
    scene.struck(u64::from(saboteur.is_dead()));
    let frozen: Vec<StockItem> = items(scene).await?.into_iter().filter(|item| !item.on_sale).collect();
    scene.until_seen("201", ORDERS / 2).await?;
    let all = items(scene).await?;
    let sold = changed_since(&frozen, &all);
    let some = !frozen.is_empty() && frozen.len() < all.len();
    scene.claim("only some buckets are frozen", some, format!("{} of {} stock items", frozen.len(), all.len()));
    scene.claim("nothing is sold from them", sold == 0, format!("{sold} of {} changed", frozen.len()));
    scene.until("reconciliation tells Redis", |scene| scene.stage.repairs.of("gate_stale") > 0).await?;
    whole_freeze(scene).await
}

/// The whole freeze, and that nothing is sold until it is lifted.
async fn whole_freeze(scene: &mut Scene) -> Result<(), StartError> {
    let SwitchResult::Done(switches) = switch(scene, false, sound()).await? else { return Err("not frozen".into()) };
    let in_force = switches.iter().filter(|switch| switch.in_force()).count();
    scene.claim("the freeze is in force", in_force == switches.len(), format!("{in_force} of {}", switches.len()));
    let frozen = items(scene).await?;
    scene.until_seen("503 frozen", REFUSED).await?;
    tokio::time::sleep(FROZEN).await;
    let sold = changed_since(&frozen, &items(scene).await?);
    scene.claim("nothing is sold during the freeze", sold == 0, format!("{sold} stock items changed"));
    let _ = switch(scene, true, sound()).await?;
    Ok(())
}

/// Redis goes on admitting; the database refuses every commit.
async fn freeze_without_redis(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.stage.proxy()?.set(Weather { requests: Flow::Swallow, ..Weather::default() });
    let SwitchResult::Done(switches) = switch(scene, false, sound()).await? else { return Err("not frozen".into()) };
    scene.stage.proxy()?.set(Weather::default());
    let told = switches.iter().filter(|switch| switch.database && !switch.in_force()).count();
    scene.claim("the answer says that Redis was not reached", told == switches.len(), format!("{told} buckets"));
    scene.struck(scene.stage.proxy()?.counts().requests_lost);
    let frozen = items(scene).await?;
    scene.until_seen("503 frozen", REFUSED).await?;
    let sold = changed_since(&frozen, &items(scene).await?);
    scene.claim("nothing is sold all the same", sold == 0, format!("{sold} stock items changed"));
    let _ = switch(scene, true, sound()).await?;
    Ok(())
}

/// Freezes everything, as far as it can be reached.
pub(super) async fn freeze(scene: &Scene) -> Result<(), StartError> {
    let _ = switch(scene, false, sound()).await?;
    Ok(())
}

pub(super) async fn unfreeze(scene: &Scene) -> Result<(), StartError> {
    let _ = switch(scene, true, sound()).await?;
    Ok(())
}

/// Saves the activity with another rate and name.
pub(super) async fn save(scene: &Scene, change: u32) -> Result<u64, StartError> {
    let wiring = scene.stage.stack.backend.wiring.clone();
    let stored = wiring.database.activity(&activity(scene)?).await.map_err(|fault| fault.chain())?;
    let version = stored.ok_or("the activity is gone")?.version;
    let mut draft = scene.stage.draft.clone();
    draft["name"] = json!(format!("Test sale, change {change}"));
    draft["bucket_rate"] = json!(scene.setup.bucket_rate - 1 - change);
    let admin = Admin { store: wiring.database, cache: wiring.cache, gate: wiring.gate, clock: SystemClock };
    let saved = admin.save(activity(scene)?, serde_json::from_value(draft)?, Expected::Version(version)).await;
    match saved.map_err(|fault| fault.chain())? {
        SavedActivity::Changed(activity) => Ok(activity.version),
        other => Err(format!("not changed: {other:?}").into()),
    }
}

async fn changed(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    for change in 0..CHANGES {
        save(scene, change).await?;
        scene.struck(1);
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn not_carried(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    scene.stage.proxy()?.set(Weather { refuse: true, ..Weather::default() });
    scene.stage.proxy()?.cut();
    save(scene, 1).await?;
    // Who finds the breaker open does not even try: the next one that does is refused.
    scene.until("a connection is refused", |scene| refused(scene) > 0).await?;
    scene.struck(refused(scene));
    scene.stage.proxy()?.set(Weather::default());
    // A bucket that another fault emptied meanwhile was loaded with it.
    let carried = |scene: &Scene| scene.stage.repairs.of("gate_stale") + scene.stage.repairs.of("gate_empty") > 0;
    scene.until("reconciliation carries it", carried).await
}

fn refused(scene: &Scene) -> u64 {
    scene.stage.proxy().map_or(0, |proxy| proxy.counts().refused)
}

/// Both processes again, with these keys each.
fn deploy(scene: &mut Scene, first: (u8, Option<u8>), second: (u8, Option<u8>)) -> Result<(), StartError> {
    let keys = |(current, other): (u8, Option<u8>)| -> Result<Arc<TokenKeys>, StartError> {
        Ok(Arc::new(TokenKeys::new(signing_key(current)?, other.map(signing_key).transpose()?)?))
    };
    let wiring = &scene.stage.stack.backend.wiring;
    let another = scene.stage.another_process(&scene.setup)?;
    scene.stage.deployed.set(vec![wire::functions(wiring, &keys(first)?), wire::functions(&another, &keys(second)?)]);
    scene.struck(1);
    Ok(())
}

/// The new key is known everywhere before anyone signs with it, and the old one as long as tokens live.
async fn keys_rotated(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let (old, known, new) = ((1, None), (1, Some(2)), (2, Some(1)));
    for (first, second) in [(old, known), (known, known), (known, new), (new, new)] {
        deploy(scene, first, second)?;
        scene.until_seen("201", ORDERS / 2).await?;
    }
    Ok(())
}

async fn keys_torn(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    deploy(scene, (1, None), (2, None))?;
    scene.until_seen("403 token_invalid", REFUSED).await?;
    deploy(scene, (2, Some(1)), (2, Some(1)))
}

/// The scripts whose newer version differs in its text only, so that both are known to Redis by their
/// own hashes.
const NEWER_SCRIPTS: [&str; 4] = ["place_order", "deduct_part", "undo_part", "count_token"];

async fn scripts_mixed(scene: &mut Scene) -> Result<(), StartError> {
    let mut connection = scene.stage.connect().await?;
    let proxy = scene.stage.second_proxy.as_ref().ok_or("there is no second process")?;
    for name in NEWER_SCRIPTS {
        let newer = format!("{}\n-- newer", text_of(name)?);
        let newer: String = cmd("SCRIPT").arg("LOAD").arg(newer).query_async(&mut connection).await?;
        proxy.rewrite(hash_of(name)?.into_bytes(), newer.into_bytes())?;
    }
    scene.under_way().await?;
    scene.until_seen("201", ORDERS).await?;
    let newer = scene.stage.second_proxy.as_ref().map_or(0, |proxy| proxy.counts().rewritten);
    scene.struck(newer);
    Ok(())
}

/// Records of another format are never read half way: reconciliation leaves them and their bucket's sums
/// alone until a version that reads them is there.
async fn newer_records(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let key = scene.key(0, "orders");
    let mut connection = scene.stage.connect().await?;
    let records: Vec<(String, String)> = connection.hgetall(&key).await?;
    let orders = records.into_iter().filter(|(field, _)| field != SENTINEL && !is_mark(field));
    let mut newer = Vec::new();
    for (field, value) in orders.take(NEWER_RECORDS) {
        let rest = value.strip_prefix('1').ok_or("a record of a strange format")?;
        let () = connection.hset(&key, &field, format!("2{rest}")).await?;
        newer.push((field, value));
    }
    scene.struck(u64::try_from(newer.len())?);
    scene.until("reconciliation meets them", |scene| scene.stage.repairs.faults() > 0).await?;
    scene.until_seen("201", ORDERS).await?;
    let sums = scene.stage.repairs.of("gate_sum");
    scene.claim("sums are left alone", sums == 0, format!("{sums} sums corrected"));
    for (field, value) in newer {
        let () = connection.hset(&key, &field, value).await?;
    }
    Ok(())
}

async fn preheat(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let () = cmd("FLUSHALL").query_async(&mut scene.stage.connect().await?).await?;
    for step in 0.. {
        let strike = if step % 2 == 0 { Strike::CrashBefore } else { Strike::CrashAfter };
        let saboteur = Saboteur::at(step, strike);
        let wiring = scene.stage.stack.backend.wiring.clone();
        let store = Faulty { inner: wiring.database, saboteur: saboteur.clone() };
        let admin = Admin {
            cache: ActivityCache::new(store.clone()),
            store,
            gate: Faulty { inner: wiring.gate, saboteur: saboteur.clone() },
            clock: SystemClock,
        };
        let preheated = admin.preheat(&activity(scene)?, OPERATOR).await;
        if saboteur.is_dead() {
            scene.struck(1);
            continue;
        }
        let Ok(PreheatResult::Done(progress)) = preheated else { return Err(format!("{preheated:?}").into()) };
        let complete = progress.buckets.iter().all(|(_, state)| *state != LoadState::Pending);
        scene.claim("the last one completes it", complete, format!("{:?}", progress.buckets));
        return Ok(());
    }
    Ok(())
}
