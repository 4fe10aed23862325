//! Reconciliation: by order, never by counter. One run goes over every bucket of every activity that
//! is preheated and not long over, within a budget, and goes on where the last run's budget ended. Once
//! an hour it compares every order, in between what changed.

mod activity;
mod bucket;
mod changes;
mod gaps;
mod orders;
mod report;
mod state;
mod sums;

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

use self::{
    activity::{ActivityPass, Went},
    gaps::STREAM_LIFE_MS,
};
pub use self::{
    activity::{FINDINGS_LIFE_MS, FINDINGS_MAX},
    gaps::GAP_GRACE_MS,
    report::{Found, REPORTED_MAX, Report, Seen},
    state::{FULL_EVERY_MS, JobState, OVERLAP_MS, Pass, PassEnded, PassKind},
};
use crate::{
    app::lease::{Locked, Locking},
    domain::{
        activity::Activity,
        ids::ActivityId,
        lease::{Fence, Lease, LockName},
    },
    ports::{
        ActivityStore, ArchiveStore, AuditStore, ChangeFeed, Clock, Cursor, Fault, FindingStore, LockGate, OrderStore,
        ProgressStore, StockGate, StockStore,
    },
    telemetry::{self, Metric},
};

/// The job's name where its place among the activities is kept.
const JOB: &str = "reconcile";
/// Lease of an activity: three to five times what one bucket takes at the 99th percentile, as the test at
/// size measures it. See docs/operations.md.
pub const LEASE: Lease = Lease::new(Duration::from_secs(15));
/// Most renewals: at a third of the lease, a run's whole time and a little more.
pub const RENEWALS_MAX: u32 = 60;

pub struct Reconcile<D, G, C> {
    pub store: D,
    pub gate: G,
    pub clock: C,
}

/// What a pass on demand comes to.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum OnDemand {
    UnknownActivity,
    /// Nothing was preheated, or its keys are gone by now.
    NotRunning,
    /// Another run is at it.
    InProgress,
    Done(Box<Report>),
}

impl<D, G, C> Reconcile<D, G, C>
where
    D: ActivityStore + ArchiveStore + OrderStore + StockStore + ProgressStore + AuditStore + FindingStore,
    G: StockGate + ChangeFeed + LockGate,
    C: Clock,
{
    /// One run, until everything was compared or the deadline is near.
    ///
    /// # Errors
    /// When the list of activities or the progress cannot be read: nothing more was done.
    pub async fn run(&self, deadline: Instant) -> Result<Report, Fault> {
        let (mut report, began_at) = (Report::default(), Instant::now());
        let ran = self.run_all(deadline, &mut report).await;
        telemetry::record_since(Metric::ReconcileTime, began_at);
        telemetry::count(Metric::ReconcileFaults, report.faults.into());
        ran.map(|()| report)
    }

    async fn run_all(&self, deadline: Instant, report: &mut Report) -> Result<(), Fault> {
        let resume_from = self.store.progress(JOB).await?.and_then(|Cursor(id)| ActivityId::parse(&id).ok());
        let mut page = None;
        loop {
            let (activities, next) = self.store.activities(page.as_ref()).await?;
            for activity in activities {
                if resume_from.as_ref().is_some_and(|from| activity.id < *from) {
                    continue;
                }
                if !self.concerns(&activity) {
                    self.archive(&activity, report).await;
                    continue;
                }
                // The first one gets further in any case.
                if report.activities > 0 && Instant::now() >= deadline {
                    self.save_place(&activity).await?;
                    return Ok(());
                }
                let went = self.turn(&activity, PassKind::Incremental, deadline, report).await;
                if went == Some(Went::Stopped) {
                    self.save_place(&activity).await?;
                    return Ok(());
                }
            }
            page = next;
            if page.is_none() {
                break;
            }
        }
        if resume_from.is_some() {
            let _ = self.store.save_progress(JOB, Fence::NONE, None, None).await?;
        }
        report.complete = true;
        Ok(())
    }

    /// Of no turn: whichever run writes last, the next one begins somewhere.
    async fn save_place(&self, activity: &Activity) -> Result<(), Fault> {
        let at = Cursor(activity.id.to_string());
        self.store.save_progress(JOB, Fence::NONE, Some(&at), None).await.map(drop)
    }

    /// Everything of one activity, now.
    ///
    /// # Errors
    /// When the activity cannot be read: nothing was done.
    pub async fn run_activity(&self, id: &ActivityId, deadline: Instant) -> Result<OnDemand, Fault> {
        let Some(activity) = self.store.activity(id).await? else { return Ok(OnDemand::UnknownActivity) };
        if !self.concerns(&activity) {
            return Ok(OnDemand::NotRunning);
        }
        let mut report = Report::default();
        let went = self.turn(&activity, PassKind::Full, deadline, &mut report).await;
        if report.busy > 0 {
            return Ok(OnDemand::InProgress);
        }
        report.complete = matches!(went, Some(Went::Through)) && report.faults == 0;
        Ok(OnDemand::Done(Box::new(report)))
    }

    /// Preheated, and its keys may still be alive.
    fn concerns(&self, activity: &Activity) -> bool {
        activity.ready && self.clock.now() < activity.stock_keys_expire_at()
    }

    /// One activity under its lock. `None` when another run is at it, or it cannot even be begun.
    async fn turn(&self, activity: &Activity, kind: PassKind, deadline: Instant, report: &mut Report) -> Option<Went> {
        let name = match LockName::parse(&format!("{JOB}#{}", activity.id)) {
            Ok(name) => name,
            Err(invalid) => {
                report.fault("lock", &Fault::not_applied("name a lock", invalid));
                return None;
            }
        };
        let locking = Locking { gate: &self.gate, name, lease: LEASE, renewals_max: RENEWALS_MAX };
        // Boxed: what it waits for is nested deeply.
        let ran = locking.run(Box::pin(self.fenced(activity, kind, deadline, report))).await;
        match ran {
            Ok(Locked::Done(went)) => went,
            Ok(Locked::Busy) => {
                tracing::info!(activity = %activity.id, "reconcile_busy");
                report.busy += 1;
                None
            }
            Err(fault) => {
                report.fault("lock", &fault);
                None
            }
        }
    }

    /// With or without the lock: from here on the fence alone keeps an earlier run from going on.
    async fn fenced(
        &self,
        activity: &Activity,
        kind: PassKind,
        deadline: Instant,
        report: &mut Report,
    ) -> Option<Went> {
        report.activities += 1;
        let (fence, cursor) = match self.store.take_turn(&JobState::job(&activity.id)).await {
            Ok(turn) => turn,
            Err(fault) => {
                report.fault("take_turn", &fault);
                return None;
            }
        };
        let mut pass = self.pass(activity, fence, cursor.as_ref(), deadline, report);
        match Box::pin(pass.run(kind)).await {
            Ok(went) => {
                pass.report.superseded += u32::from(went == Went::Superseded);
                Some(went)
            }
            Err(fault) => {
                pass.report.fault("activity", &fault);
                None
            }
        }
    }

    /// What is over for good is listed no more: its keys are gone, and no audit row can come any more, or is
    /// missing.
    async fn archive(&self, activity: &Activity, report: &mut Report) {
        // As long as orders expire, their units come back.
        let last_change = activity.stock_keys_expire_at().max(activity.expiry_ends_at());
        let over = last_change.plus_ms(STREAM_LIFE_MS);
        if self.clock.now() < over {
            return;
        }
        let turn = self.store.take_turn(&JobState::job(&activity.id)).await;
        let archived = match turn {
            Err(fault) => Err(fault),
            Ok((fence, cursor)) => {
                let mut pass = self.pass(activity, fence, cursor.as_ref(), Instant::now(), report);
                match Box::pin(pass.last_trails()).await {
                    Ok(true) => self.store.archive(activity).await,
                    unfinished => unfinished,
                }
            }
        };
        match archived {
            Ok(archived) => tracing::info!(activity = %activity.id, archived, "archive"),
            Err(fault) => report.fault("archive", &fault),
        }
    }

    fn pass<'a>(
        &'a self,
        activity: &'a Activity,
        fence: Fence,
        cursor: Option<&Cursor>,
        deadline: Instant,
        report: &'a mut Report,
    ) -> ActivityPass<'a, D, G, C> {
        ActivityPass {
            store: &self.store,
            gate: &self.gate,
            clock: &self.clock,
            activity,
            fence,
            deadline,
            pages: 0,
            job: JobState::read(cursor),
            rows: Vec::new(),
            counts: BTreeMap::new(),
            kept: 0,
            pages_kept: 0,
            seen: Seen::default(),
            report,
        }
    }
}
