//! One case as it plays: stage, load, what struck, what it must prove, and the settling at its end.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use holdfast::app::reconcile::Reconcile;
use holdfast::domain::repair::GRACE_MS;
use serde::Serialize;
use tokio::time::Instant;

use super::load::{Load, LoadOptions, client_keys};
use super::setup::Setup;
use super::skew::Skewed;
use super::stage::Stage;
use super::tally::Repaired;
use crate::checks::{self, Check, agreement};
use crate::sale::settle::drain;
use crate::stack::StartError;
use crate::stores::snapshot::Snapshot;

/// Accepted orders after which the load counts as under way.
const UNDER_WAY: u64 = 25;
/// Accepted orders after the fault that show that the sale goes on.
const GOES_ON: u64 = 15;
/// How long any condition may take, on a machine that has other work too.
const CONDITION_LIMIT: Duration = Duration::from_mins(1);
/// How often the suite's own calls are tried: a time-out of theirs says nothing about the product.
const TRIES: usize = 4;
const POLL: Duration = Duration::from_millis(10);
/// Pause while another run, or a dead one, holds the lease.
const BUSY_PAUSE: Duration = Duration::from_millis(200);
/// Reconciliations after which both stores have to agree.
const RUNS: usize = 2;
/// Time that one of them has.
const RUN_LIMIT: Duration = Duration::from_mins(1);

/// What one case came to.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Outcome {
    pub name: String,
    pub group: String,
    pub what: String,
    pub seed: u64,
    pub seconds: f64,
    /// What orders were answered, and tokens where they were not given.
    pub saw: BTreeMap<String, u64>,
    /// What reconciliation found and repaired.
    pub repaired: BTreeMap<String, Repaired>,
    /// Places where the stores differed when the load had ended.
    pub differences: usize,
    /// From the end of the fault until the stores agreed, the rest of the load included, in seconds.
    pub agreed_after_s: f64,
    /// How often the fault struck.
    pub strikes: u64,
    pub figures: Vec<(String, String)>,
    pub checks: Vec<Check>,
    /// Why the case could not be played to its end.
    pub error: Option<String>,
}

impl Outcome {
    #[must_use]
    pub fn holds(&self) -> bool {
        self.error.is_none() && self.checks.iter().all(Check::holds)
    }
}

/// A case at play.
pub struct Scene {
    pub stage: Stage,
    pub load: Load,
    pub setup: Setup,
    pub rng: Rng,
    pub strikes: u64,
    pub figures: Vec<(String, String)>,
    claims: Vec<Check>,
    lifted_at: Option<Instant>,
    ended: Option<Ended>,
}

/// Both stores at rest.
#[derive(Clone)]
pub struct Ended {
    pub snapshot: Snapshot,
    pub differences: usize,
    pub agreed_after_s: f64,
}

impl Scene {
    /// Starts stack and load.
    ///
    /// # Errors
    /// When a server does not start.
    pub async fn start(setup: Setup, seed: u64, program: &Path) -> Result<Self, StartError> {
        let stage = Stage::start(&setup, program.to_owned()).await?;
        Self::on(stage, setup, seed)
    }

    /// Starts a load on a stage that is up.
    ///
    /// # Errors
    /// When its Redis does not answer.
    pub fn on(stage: Stage, setup: Setup, seed: u64) -> Result<Self, StartError> {
        let options = LoadOptions {
            activity: stage.activity.clone(),
            buyers: setup.buyers,
            limit: setup.limit,
            skus: setup.skus.clone(),
            patience: setup.patience,
            allowed: setup.allowed,
            seed,
        };
        let stack = &stage.stack;
        let load = Load::start(stack.address(), stack.authorizer.clone(), Arc::new(client_keys()?), options);
        Ok(Self {
            stage,
            load,
            setup,
            rng: Rng::with_seed(seed),
            strikes: 0,
            figures: Vec::new(),
            claims: Vec::new(),
            lifted_at: None,
            ended: None,
        })
    }

    /// A key of a bucket: `bucket`, `orders` or `ledger`.
    #[must_use]
    pub fn key(&self, bucket: u16, name: &str) -> String {
        format!("hf:{{{}:{bucket}}}:{name}", self.stage.activity)
    }

    /// Waits until a condition holds.
    ///
    /// # Errors
    /// When it does not within [`CONDITION_LIMIT`]; the text names it.
    pub async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) -> Result<(), StartError> {
        let limit = Instant::now() + CONDITION_LIMIT;
        while !holds(self) {
            if Instant::now() > limit {
                return Err(format!("{what}: not within {} s", CONDITION_LIMIT.as_secs()).into());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Waits until the load is really under way.
    ///
    /// # Errors
    /// When no orders are accepted.
    pub async fn under_way(&self) -> Result<(), StartError> {
        self.until("the load is under way", |scene| scene.load.crowd.accepted() >= UNDER_WAY).await
    }

    /// Waits until so many more orders were answered like this.
    ///
    /// # Errors
    /// When they were not in time.
    pub async fn until_seen(&self, answer: &str, more: u64) -> Result<(), StartError> {
        let before = self.load.crowd.orders.count(answer);
        let what = format!("{more} orders more are answered {answer}");
        self.until(&what, |scene| scene.load.crowd.orders.count(answer) >= before + more).await
    }

    /// Notes that the fault struck.
    pub fn struck(&mut self, times: u64) {
        self.strikes += times;
    }

    /// The fault is over now. The first call counts.
    pub fn lifted(&mut self) {
        self.lifted_at.get_or_insert_with(Instant::now);
    }

    /// What this case claims beside the invariants.
    pub fn claim(&mut self, name: &'static str, holds: bool, numbers: impl Into<String>) {
        let numbers = numbers.into();
        let violations = if holds { Vec::new() } else { vec![numbers.clone()] };
        self.claims.push(Check::new("claim", name, numbers, violations));
    }

    pub fn figure(&mut self, name: &str, value: &dyn std::fmt::Display) {
        self.figures.push((name.to_owned(), value.to_string()));
    }

    /// The sale goes on after the fault: orders are accepted again, or everything is sold. Nothing is
    /// asked where the case has let the load end.
    ///
    /// # Errors
    /// When they are not.
    pub async fn goes_on(&self) -> Result<(), StartError> {
        if self.load.has_ended() {
            return Ok(());
        }
        let (accepted, sold_out) = (self.load.crowd.accepted(), self.load.crowd.orders.count("409 sold_out"));
        self.until("orders are accepted after the fault", |scene| {
            let crowd = &scene.load.crowd;
            crowd.accepted() >= accepted + GOES_ON || crowd.orders.count("409 sold_out") >= sold_out + GOES_ON
        })
        .await
    }

    /// Lets the load end and brings both stores to rest: messages and stream drained, two
    /// reconciliations past the grace. Does it once.
    ///
    /// # Errors
    /// When a store does not answer or the queues do not run empty.
    pub async fn end(&mut self) -> Result<Ended, StartError> {
        if let Some(ended) = &self.ended {
            return Ok(ended.clone());
        }
        let lifted_at = *self.lifted_at.get_or_insert_with(Instant::now);
        self.load.finish().await;
        self.stage.stop_schedule().await;
        self.drain().await?;
        let differences = agreement::differences(&self.snapshot().await?).len();
        let mut agreed_after = (differences == 0).then(|| lifted_at.elapsed());
        for _ in 0..RUNS {
            self.reconcile_later().await?;
            if agreed_after.is_none() && agreement::differences(&self.snapshot().await?).is_empty() {
                agreed_after = Some(lifted_at.elapsed());
            }
        }
        let agreed_after_s = agreed_after.unwrap_or_else(|| lifted_at.elapsed()).as_secs_f64();
        // Repairs are changes as well: their audit rows have to arrive.
        self.drain().await?;
        let ended = Ended { snapshot: self.snapshot().await?, differences, agreed_after_s };
        self.ended = Some(ended.clone());
        Ok(ended)
    }

    /// One reconciliation when every grace over an order is over.
    ///
    /// # Errors
    /// When the list of activities cannot be read.
    pub async fn reconcile_later(&self) -> Result<(), StartError> {
        self.reconcile(Skewed(|_| 2 * GRACE_MS)).await
    }

    /// One reconciliation by this clock, repeated until one ran through.
    ///
    /// # Errors
    /// When the list of activities cannot be read.
    pub async fn reconcile(&self, clock: Skewed) -> Result<(), StartError> {
        let wiring = self.stage.stack.backend.wiring.clone();
        let run = Reconcile { store: wiring.database, gate: wiring.gate, clock };
        let limit = Instant::now() + CONDITION_LIMIT;
        loop {
            let ran = run.run(Instant::now() + RUN_LIMIT).await;
            if let Ok(report) = &ran {
                self.stage.repairs.add(&serde_json::to_value(report)?);
                if report.busy == 0 && report.faults == 0 {
                    return Ok(());
                }
            }
            // A run that died keeps its lease until it runs out; on a busy machine calls are late. Neither
            // is a reconciliation that ran.
            if Instant::now() > limit {
                return Err(format!("no reconciliation runs through: {ran:?}").into());
            }
            tokio::time::sleep(BUSY_PAUSE).await;
        }
    }

    /// Until queues and stream are empty.
    async fn drain(&self) -> Result<(), StartError> {
        let mut tries = 1;
        loop {
            match drain(&self.stage.stack).await {
                Err(_) if tries < TRIES => tries += 1,
                drained => return drained,
            }
        }
    }

    /// What both stores hold now.
    ///
    /// # Errors
    /// When one does not answer.
    pub async fn snapshot(&self) -> Result<Snapshot, StartError> {
        let mut tries = 1;
        loop {
            match self.stage.stack.stores.snapshot(&self.stage.activity).await {
                Ok(snapshot) => return snapshot.ok_or_else(|| "the activity is gone".into()),
                Err(error) if tries == TRIES => return Err(error.into()),
                Err(_) => tries += 1,
            }
        }
    }

    /// Repairs that no failure of infrastructure may ever make necessary: each script keeps the sums, and
    /// what a live order holds is not given back. Otherwise a broken rule would be mended out of sight.
    fn claim_impossible(&mut self) {
        let repairs = self.stage.repairs.all();
        let found = |finding: &str| repairs.get(finding).map_or(0, |repaired| repaired.found);
        let sums = if self.setup.breaks_sums { 0 } else { found("gate_sum") };
        let (database, returned) = (found("database_sum"), found("returned_while_live"));
        let numbers = format!("{sums} sums in Redis, {database} in the database, {returned} returned while live");
        self.claim("nothing impossible was found", sums + database + returned == 0, numbers);
    }

    /// Fills in what the case came to.
    pub(super) async fn conclude(mut self, outcome: &mut Outcome) -> Stage {
        match self.end().await {
            Ok(ended) => {
                let told = self.load.crowd.submissions();
                outcome.checks = checks::invariants(&ended.snapshot, &told);
                outcome.differences = ended.differences;
                outcome.agreed_after_s = ended.agreed_after_s;
            }
            Err(error) => outcome.error = outcome.error.take().or(Some(error.to_string())),
        }
        outcome.checks.push(self.load.crowd.answers());
        let struck = format!("struck {} times", self.strikes);
        self.claim("the fault struck", self.strikes > 0, struck);
        self.claim_impossible();
        outcome.checks.append(&mut self.claims);
        outcome.saw = self.load.crowd.seen();
        outcome.repaired = self.stage.repairs.all();
        outcome.strikes = self.strikes;
        outcome.figures = std::mem::take(&mut self.figures);
        self.stage
    }
}
