//! A function process killed with SIGKILL at each of its steps, before and after the step's effect. The
//! child's proxies tell when the call of that step comes by: it is kept back, or passed on and its reply
//! thrown away, and then the process is killed.

use std::time::Duration;

use ::redis::{AsyncCommands, cmd};
use servers::{Fault, FaultKind, Flow, Proxy, Tripwire, Weather};
use tokio::time::timeout;

use super::super::scene::Scene;
use super::super::setup::Setup;
use super::super::worker::{Role, Worker};
use super::super::{FaultCase, Group};
use super::database::impatient;
use super::operations;
use super::scripts::hash_of;
use super::show_too_much;
use crate::stack::StartError;

/// How long the step may take to come by.
const STEP_LIMIT: Duration = Duration::from_secs(20);
const SIGKILL: i32 = 9;
/// Calls of the step that are let through before.
const SKIP_MAX: u32 = 4;
/// Attempts of transactions that go wrong to make work for the step.
const ATTEMPTS: u32 = 400;
const ORPHANS: u64 = 6;

/// Between which servers the step's call is seen.
#[derive(Clone, Copy)]
enum Server {
    Redis,
    Dynamodb,
    Sqs,
}

/// What makes the step come by.
#[derive(Clone, Copy)]
enum Occasion {
    /// It is on every order's way.
    Always,
    /// Few units, so that home buckets run short.
    Short,
    /// Redis shows more than there is: the database refuses.
    TooMuch,
    /// Transactions are applied and never answered.
    Unknown,
    /// Deductions without an order, and no message.
    Orphans,
    /// Buckets are lost.
    Lost,
    /// The sale switch of the database does not reach Redis.
    StaleSwitch,
    /// A change of the configuration does not reach Redis.
    StaleConfiguration,
}

struct Step {
    name: &'static str,
    what: &'static str,
    role: Role,
    server: Server,
    /// The script's name, or part of the HTTP request.
    pattern: &'static str,
    occasion: Occasion,
}

const fn step(
    name: &'static str,
    what: &'static str,
    role: Role,
    server: Server,
    pattern: &'static str,
    occasion: Occasion,
) -> Step {
    Step { name, what, role, server, pattern, occasion }
}

/// Every step of every function that has an effect.
const STEPS: [Step; 18] = {
    use Occasion as O;
    use Role::{Reconcile, ReconcileLater, RollBack, Serve};
    use Server::{Dynamodb, Redis, Sqs};
    [
        step("place-token", "counting a token", Serve, Redis, "count_token", O::Always),
        step("place-home", "the home script", Serve, Redis, "place_order", O::Always),
        step("place-look", "looking into other buckets", Serve, Redis, "look_bucket", O::Short),
        step("place-part", "deducting in another bucket", Serve, Redis, "deduct_part", O::Short),
        step("place-transaction", "the order's transaction", Serve, Dynamodb, ".TransactWriteItems", O::Always),
        step("place-claim", "the claim before a refusal", Serve, Dynamodb, ".PutItem", O::TooMuch),
        step("place-restock", "restocking after a refusal", Serve, Redis, "restock_order", O::TooMuch),
        step("place-message", "sending a roll-back message", Serve, Sqs, ".SendMessage", O::Unknown),
        step("roll-back-claim", "the consumer's claim", RollBack, Dynamodb, ".PutItem", O::Unknown),
        step("roll-back-restock", "the consumer's restock", RollBack, Redis, "restock_order", O::Unknown),
        step("roll-back-delete", "deleting the messages that are done", RollBack, Sqs, ".DeleteMessage", O::Unknown),
        step("reconcile-reload", "loading a lost bucket", Reconcile, Redis, "preheat_bucket", O::Lost),
        step("reconcile-restore", "restoring a record", Reconcile, Redis, "restore_order", O::Lost),
        step(
            "reconcile-claim",
            "claiming a deduction without an order",
            ReconcileLater,
            Dynamodb,
            ".PutItem",
            O::Orphans,
        ),
        step("reconcile-restock", "restocking it", ReconcileLater, Redis, "restock_order", O::Orphans),
        step("reconcile-sums", "correcting a sum", Reconcile, Redis, "sum_bucket", O::TooMuch),
        step("reconcile-switch", "carrying the sale switch", Reconcile, Redis, "sync_allotment", O::StaleSwitch),
        step(
            "reconcile-control",
            "carrying the configuration",
            Reconcile,
            Redis,
            "sync_control",
            O::StaleConfiguration,
        ),
    ]
};

pub(super) fn cases() -> Vec<FaultCase> {
    let both = STEPS.iter().flat_map(|step| [(step, false), (step, true)]);
    both.map(|(step, applied)| {
        let when = if applied { "after" } else { "before" };
        FaultCase::new(
            Group::Process,
            &format!("{}-{when}", step.name),
            &format!("`kill -9` {when} {}", step.what),
            move |scene| Box::pin(play(scene, step, applied)),
        )
        .with(|setup| set_up(setup, step))
    })
    .collect()
}

fn set_up(setup: &mut Setup, step: &Step) {
    match step.occasion {
        Occasion::Always => {}
        Occasion::Short => {
            setup.units = 160;
            setup.skus = vec!["a"];
        }
        Occasion::TooMuch => {
            setup.breaks_sums = true;
            setup.units = 60;
            setup.reconcile_every = None;
        }
        Occasion::Unknown => {
            impatient(setup);
            setup.early_messages = step.role == Role::RollBack;
        }
        Occasion::Orphans => {
            impatient(setup);
            setup.reconcile_every = None;
        }
        Occasion::Lost | Occasion::StaleSwitch | Occasion::StaleConfiguration => setup.reconcile_every = None,
    }
}

async fn play(scene: &mut Scene, step: &Step, applied: bool) -> Result<(), StartError> {
    let worker = Worker::start(&scene.stage, step.role, scene.setup.redis_deadline_ms).await?;
    if let Some(address) = worker.address {
        scene.load.crowd.also_at(address);
    }
    scene.under_way().await?;
    let proxy = match step.server {
        Server::Redis => &worker.redis,
        Server::Dynamodb => &worker.dynamodb,
        Server::Sqs => &worker.sqs,
    };
    let pattern = match step.server {
        Server::Redis => hash_of(step.pattern)?.into_bytes(),
        Server::Dynamodb | Server::Sqs => step.pattern.as_bytes().to_vec(),
    };
    let skip = if matches!(step.occasion, Occasion::Always) { scene.rng.u32(..SKIP_MAX) } else { 0 };
    proxy.trip(Tripwire { pattern, skip, applied });
    provoke(scene, step).await?;
    timeout(STEP_LIMIT, proxy.tripped()).await.map_err(|_| format!("{} did not come by", step.name))?;
    if applied {
        until_applied(scene, proxy, step.server).await?;
    }
    let signal = worker.kill().await?;
    scene.struck(1);
    scene.claim("the process died of SIGKILL", signal == Some(SIGKILL), format!("signal {signal:?}"));
    scene.load.crowd.only_at_first();
    calm(scene);
    if matches!(step.occasion, Occasion::StaleSwitch) {
        operations::unfreeze(scene).await?;
    }
    scene.lifted();
    if scene.setup.reconcile_every.is_none() && !matches!(step.occasion, Occasion::TooMuch) {
        scene.stage.start_schedule(Duration::from_millis(500));
    }
    Ok(())
}

/// Makes the step's occasion.
async fn provoke(scene: &mut Scene, step: &Step) -> Result<(), StartError> {
    let dynamodb = scene.stage.stack.backend.dynamodb.control().clone();
    let transactions = |kind| Fault { operation: Some("TransactWriteItems"), kind, times: Some(ATTEMPTS) };
    match step.occasion {
        Occasion::Always | Occasion::Short => {}
        Occasion::TooMuch => show_too_much(scene).await?,
        Occasion::Unknown => dynamodb.inject(transactions(FaultKind::DropBefore)),
        Occasion::Orphans => {
            let sqs = scene.stage.stack.backend.sqs.control().clone();
            sqs.inject(Fault::standing("SendMessage", FaultKind::Error500));
            dynamodb.inject(transactions(FaultKind::DropBefore));
            scene.until_seen("202", ORPHANS).await?;
        }
        Occasion::Lost => {
            let mut connection = scene.stage.connect().await?;
            for bucket in 0..scene.setup.buckets {
                let keys = ["bucket", "orders", "ledger"].map(|key| scene.key(bucket, key));
                let () = connection.del(keys.to_vec()).await?;
            }
        }
        Occasion::StaleSwitch => {
            scene.stage.proxy()?.set(Weather { requests: Flow::Swallow, ..Weather::default() });
            operations::freeze(scene).await?;
            scene.stage.proxy()?.set(Weather::default());
        }
        Occasion::StaleConfiguration => {
            scene.stage.proxy()?.set(Weather { refuse: true, ..Weather::default() });
            scene.stage.proxy()?.cut();
            operations::save(scene, 1).await?;
            scene.stage.proxy()?.set(Weather::default());
        }
    }
    Ok(())
}

/// Everything that made the occasion is over.
fn calm(scene: &Scene) {
    scene.stage.stack.backend.dynamodb.control().clear();
    scene.stage.stack.backend.sqs.control().clear();
}

/// Waits until the server has applied the call: an HTTP server has answered it; Redis, which runs one
/// thing at a time, has read all its connections twice.
async fn until_applied(scene: &Scene, proxy: &Proxy, server: Server) -> Result<(), StartError> {
    scene.until("the call is answered", |_| proxy.counts().replies_lost > 0).await?;
    if matches!(server, Server::Redis) {
        let mut connection = scene.stage.connect().await?;
        for _ in 0..2 {
            cmd("PING").query_async::<()>(&mut connection).await?;
        }
    }
    Ok(())
}
