//! Random faults under load for a long time, on one stack: one short sale after another, the invariants
//! after each, and the memory of every process, which must stay flat.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use fastrand::Rng;
use tokio::time::{Instant, timeout};

use super::scene::{Outcome, Scene};
use super::setup::Setup;
use super::stage::Stage;
use super::worker::{Role, Worker};
use super::{FaultCase, cases, suite};
use crate::stack::StartError;

/// Faults of one round, one after another.
const FAULTS: std::ops::RangeInclusive<usize> = 1..=3;
/// How long one fault, and the settling of a round, may take.
const FAULT_LIMIT: Duration = Duration::from_mins(4);
/// Of all rounds, one in so many warms up.
const WARM_UP_PARTS: usize = 3;
/// Fewer rounds after that say nothing about memory.
const ROUNDS_MIN: usize = 6;
/// What the last third of the rounds may need more than the first: this part of it, and this many KiB.
/// Allocators keep pages that they do not use.
const GROWTH_MAX: f64 = 0.10;
const GROWTH_MAX_KIB: f64 = 8_192.0;
/// Units of each SKU, tasks that are one buyer after another, and orders after which a round takes no
/// further fault: rounds of about the same size, for an allocator keeps what the greatest one needed.
const UNITS: u64 = 800;
const BUYERS: usize = 8;
const ORDERS: u64 = 300;
/// Buyers of the sale that is sold out before the first round: no round can need more memory than it did.
const WARM_UP_BUYERS: usize = 32;
/// Answers that show that everything is sold, and how long that may take.
const SOLD_OUT: u64 = 150;
const WARM_UP_LIMIT: Duration = Duration::from_mins(5);

/// How long, and from which seed.
#[derive(Clone, Debug)]
pub struct Options {
    pub time: Duration,
    pub seed: u64,
    /// The seed of the only round that is played.
    pub round: Option<u64>,
    pub program: PathBuf,
}

/// Resident memory in KiB by process, one sample per round.
type Memory = BTreeMap<&'static str, Vec<f64>>;

/// Plays rounds until the time is over; answers whether all of them held and memory was flat.
///
/// # Errors
/// When a server does not start.
pub async fn run(options: &Options) -> Result<bool, StartError> {
    let setup = Setup { units: UNITS, buyers: BUYERS, ..Setup::default() };
    let mut stage = Stage::start(&setup, options.program.clone()).await?;
    let serve = Worker::start(&stage, Role::Serve, setup.redis_deadline_ms).await?;
    let roll_back = Worker::start(&stage, Role::RollBack, setup.redis_deadline_ms).await?;
    let faults: Vec<FaultCase> = cases::all().into_iter().filter(|case| case.plain).collect();
    stage = Box::pin(warm_up(stage, &setup, &serve)).await?;
    let (began, mut rng, mut memory) = (Instant::now(), Rng::with_seed(options.seed), Memory::new());
    let (mut rounds, mut failed, mut accepted, mut strikes) = (0_u64, 0_u64, 0_u64, 0_u64);
    while began.elapsed() < options.time {
        rounds += 1;
        stage.open(&setup, &format!("sale-{rounds}")).await;
        stage.start_schedule(Duration::from_secs(1));
        let seed = options.round.unwrap_or_else(|| rng.u64(..));
        let (outcome, after) = Box::pin(round(stage, &setup, seed, &faults, &serve)).await?;
        stage = after;
        accepted += outcome.saw.get("201").copied().unwrap_or(0);
        strikes += outcome.strikes;
        println!("{:>5.0} s  {}", began.elapsed().as_secs_f64(), suite::line(&outcome));
        for failure in suite::failures(&outcome) {
            println!("      {failure}");
        }
        failed += u64::from(!outcome.holds());
        forget(&stage).await?;
        println!(
            "         memory: {}",
            sample(&stage, &[("serving", serve.id), ("roll-back", roll_back.id)], &mut memory).await?
        );
        if options.round.is_some() {
            break;
        }
    }
    println!(
        "{rounds} rounds in {:.0} s with seed {}: {accepted} orders accepted, {strikes} strikes; {failed} rounds failed",
        began.elapsed().as_secs_f64(),
        options.seed
    );
    let flat = judge(&memory);
    stage.stop().await;
    Ok(failed == 0 && flat)
}

/// A sale without faults until everything is sold.
async fn warm_up(mut stage: Stage, setup: &Setup, serve: &Worker) -> Result<Stage, StartError> {
    stage.open(setup, "warm-up").await;
    let setup = Setup { buyers: WARM_UP_BUYERS, ..setup.clone() };
    let scene = Scene::on(stage, setup, 0)?;
    if let Some(address) = serve.address {
        scene.load.crowd.also_at(address);
    }
    let limit = Instant::now() + WARM_UP_LIMIT;
    while scene.load.crowd.orders.count("409 sold_out") < SOLD_OUT && Instant::now() < limit {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let mut outcome = Outcome::default();
    let stage = scene.conclude(&mut outcome).await;
    let accepted = outcome.saw.get("201").copied().unwrap_or(0);
    println!("warm-up: {accepted} orders accepted");
    forget(&stage).await?;
    Ok(stage)
}

/// One sale with some faults.
async fn round(
    stage: Stage,
    setup: &Setup,
    seed: u64,
    faults: &[FaultCase],
    serve: &Worker,
) -> Result<(Outcome, Stage), StartError> {
    let began = Instant::now();
    let mut scene = Scene::on(stage, setup.clone(), seed)?;
    if let Some(address) = serve.address {
        scene.load.crowd.also_at(address);
    }
    let count = scene.rng.usize(FAULTS);
    let mut names = Vec::new();
    let mut error = None;
    for _ in 0..count {
        let fault = &faults[scene.rng.usize(..faults.len())];
        names.push(fault.name.as_str());
        scene.stage.reset_counts().await?;
        let played = timeout(FAULT_LIMIT, (fault.play)(&mut scene)).await;
        let played = played.unwrap_or_else(|_| Err(format!("{} does not end", fault.name).into()));
        let played = if played.is_ok() { scene.goes_on().await } else { played };
        if let Err(broken) = played {
            error = Some(format!("{}: {broken}", fault.name));
        }
        if error.is_some() || scene.load.has_ended() || scene.load.crowd.accepted() > ORDERS {
            break;
        }
    }
    let mut outcome = Outcome { group: "soak".to_owned(), name: names.join("+"), seed, error, ..Outcome::default() };
    let stage = scene.conclude(&mut outcome).await;
    outcome.seconds = began.elapsed().as_secs_f64();
    Ok((outcome, stage))
}

/// What is past is no leak.
async fn forget(stage: &Stage) -> Result<(), StartError> {
    stage.stack.stores.forget_gate(&stage.activity).await?;
    stage.stack.fulfilment.forget();
    // The functions go on, and rely on what they have told each other.
    let backend = &stage.stack.backend;
    let (database, table) = (&backend.sdk.dynamodb, &backend.sdk.tables.table);
    let key = |name: &str| AttributeValue::S(name.to_owned());
    let read = database.get_item().table_name(table).key("pk", key("P")).key("sk", key("admission"));
    let admission = read.consistent_read(true).send().await?.item;
    backend.dynamodb.forget()?;
    if admission.is_some() {
        database.put_item().table_name(table).set_item(admission).send().await?;
    }
    Ok(())
}

async fn sample(stage: &Stage, children: &[(&'static str, u32)], memory: &mut Memory) -> Result<String, StartError> {
    let info: String = redis::cmd("INFO").arg("server").query_async(&mut stage.connect().await?).await?;
    let redis = info.lines().find_map(|line| line.strip_prefix("process_id:")?.trim().parse().ok());
    let redis = redis.ok_or("Redis does not tell its process")?;
    let mut texts = Vec::new();
    let own = [("runner", std::process::id()), ("redis", redis)];
    for (name, id) in own.iter().chain(children) {
        let status = fs::read_to_string(format!("/proc/{id}/status"))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        let resident: f64 = resident.ok_or("a process is gone")?.parse()?;
        memory.entry(name).or_default().push(resident);
        texts.push(format!("{name} {:.1} MiB", resident / 1024.0));
    }
    Ok(texts.join(", "))
}

/// Compares the last third of the rounds with the first, after the warm-up.
fn judge(memory: &Memory) -> bool {
    let mut flat = true;
    for (process, samples) in memory {
        let warm = &samples[samples.len() / WARM_UP_PARTS..];
        if warm.len() < ROUNDS_MIN {
            println!("{process}: {} rounds say nothing about memory", warm.len());
            continue;
        }
        let third = warm.len() / 3;
        let (first, last) = (median(&warm[..third]), median(&warm[warm.len() - third..]));
        let is_flat = last <= first * (1.0 + GROWTH_MAX) + GROWTH_MAX_KIB;
        let verdict = if is_flat { "flat" } else { "GROWS" };
        println!(
            "{process}: {:.1} MiB in the first third, {:.1} MiB in the last: {verdict}",
            first / 1024.0,
            last / 1024.0
        );
        flat &= is_flat;
    }
    flat
}

fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_grows_with_every_round_is_told() {
        let flat = (0..30).map(|round| 50_000.0 + f64::from(round % 5) * 900.0).collect();
        let grows = (0..30).map(|round| 50_000.0 + f64::from(round) * 1_500.0).collect();
        assert!(judge(&Memory::from([("flat", flat)])));
        assert!(!judge(&Memory::from([("grows", grows)])));
    }
}
