//! One pass over one activity: bucket by bucket, then the database's sums.

use std::collections::BTreeMap;

use tokio::time::Instant;

use super::{
    report::{Difference, Report, Seen},
    state::{BucketSeen, JobState, Pass, PassKind, Tally},
};
use crate::{
    domain::{
        activity::Activity,
        ids::{Bucket, Sku},
        lease::Fence,
        repair::Finding,
        time::UnixMillis,
    },
    ports::{
        AuditStore, ChangeFeed, Clock, Counted, FINDING_ROWS_MAX, Fault, FindingPage, FindingRow, FindingStore,
        OrderStore, ProgressStore, Saved, StockGate, StockStore,
    },
    telemetry::{self, Metric},
};

/// Most findings of one run in one activity that are kept with a row; the rest is counted.
pub const FINDINGS_MAX: usize = 2_000;
/// How long findings are kept, in milliseconds (seven days).
pub const FINDINGS_LIFE_MS: i64 = 7 * 86_400_000;
/// How long what was seen of a bucket is kept after its keys are gone, in milliseconds.
const SEEN_LIFE_MS: i64 = 7 * 86_400_000;

/// How a pass went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Went {
    /// To its end, though some calls may have failed.
    Through,
    /// The time is up; the next run goes on here.
    Stopped,
    /// A later run took over: this one must not write its progress any more.
    Superseded,
}

/// How one bucket went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BucketWent {
    Through,
    Stopped,
    /// Changes do not tell everything here.
    NeedsFull,
}

/// A pass and what it works with.
pub(super) struct ActivityPass<'a, D, G, C> {
    pub store: &'a D,
    pub gate: &'a G,
    pub clock: &'a C,
    pub activity: &'a Activity,
    pub fence: Fence,
    pub deadline: Instant,
    /// Pages that this run has looked at: it looks at one at least, so that every run gets further.
    pub pages: u32,
    pub job: JobState,
    /// Findings that are not kept yet.
    pub rows: Vec<FindingRow>,
    pub counts: BTreeMap<(Bucket, Finding), Counted>,
    /// Rows and pages that are.
    pub kept: usize,
    pub pages_kept: u32,
    /// What this run has seen of the activity so far.
    pub seen: Seen,
    pub report: &'a mut Report,
}

impl<D, G, C> ActivityPass<'_, D, G, C>
where
    D: OrderStore + StockStore + ProgressStore + AuditStore + FindingStore,
    G: StockGate + ChangeFeed,
    C: Clock,
{
    /// Goes on with what an earlier run began, or begins: all of it when that was asked for, is due, or turns
    /// out to be needed.
    pub async fn run(&mut self, kind: PassKind) -> Result<Went, Fault> {
        let ran = self.run_passes(kind).await;
        self.tell();
        ran
    }

    async fn run_passes(&mut self, kind: PassKind) -> Result<Went, Fault> {
        let faults = self.report.faults;
        let went = self.pass(kind).await?;
        // While something fails, all of it is for the next run.
        if went == Went::Through && self.job.full_due && self.report.faults == faults && !self.time_is_up() {
            return self.pass(PassKind::Full).await;
        }
        Ok(went)
    }

    /// What this run found in the activity, as numbers. Nothing found is told as well.
    fn tell(&self) {
        let (id, seen) = (&self.activity.id, &self.seen);
        telemetry::count_in(id, Metric::Differences, seen.differences);
        telemetry::record_in(id, Metric::Deviation, seen.deviation());
    }

    async fn pass(&mut self, kind: PassKind) -> Result<Went, Fault> {
        let now = self.clock.now();
        let mut pass = match self.job.pass.take() {
            Some(pass) if kind == PassKind::Incremental || pass.kind == PassKind::Full => pass,
            _ if kind == PassKind::Full || self.job.is_full_due(now) => {
                // Read before any listing: a sum counts only if the item did not change since.
                let skus: Vec<Sku> = self.activity.skus.iter().map(|offer| offer.sku.clone()).collect();
                let stock = self.store.stock(self.activity, &skus).await?;
                self.job.full_due = false;
                Pass::new(PassKind::Full, now, Some(Tally::new(&stock)))
            }
            _ => Pass::new(PassKind::Incremental, now, None),
        };
        let went = self.buckets(&mut pass).await?;
        if went == Went::Through {
            if pass.kind == PassKind::Full && pass.faults == 0 {
                self.database_sums(&mut pass).await?;
            }
            self.finish(&pass);
        } else {
            self.job.pass = Some(pass.clone());
        }
        self.keep_findings(pass.started_at).await?;
        if went != Went::Superseded && self.save().await? == Saved::Conflict {
            return Ok(Went::Superseded);
        }
        Ok(went)
    }

    fn finish(&mut self, pass: &Pass) {
        // One that missed something is none: the next run begins again.
        if pass.faults > 0 {
            self.job.full_due |= pass.kind == PassKind::Full;
            return;
        }
        let ended = Some(pass.ended(self.clock.now()));
        match pass.kind {
            PassKind::Full => self.job.last_full = ended,
            PassKind::Incremental => self.job.last_incremental = ended,
        }
    }

    async fn buckets(&mut self, pass: &mut Pass) -> Result<Went, Fault> {
        let first = pass.bucket;
        for bucket in self.activity.buckets.all().filter(|bucket| bucket.get() >= first) {
            pass.bucket = bucket.get();
            let began = Instant::now();
            let went = self.bucket(pass, bucket).await;
            let took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
            self.report.slowest_bucket_ms = self.report.slowest_bucket_ms.max(took_ms);
            match went {
                Ok(BucketWent::Through) => {}
                Ok(BucketWent::Stopped | BucketWent::NeedsFull) => return Ok(Went::Stopped),
                Err(fault) => {
                    self.report.fault("bucket", &fault);
                    pass.faults += 1;
                }
            }
            self.report.buckets += 1;
            self.pages += 1;
            pass.full = None;
            pass.bucket = bucket.get() + 1;
            self.keep_findings(pass.started_at).await?;
            // A long pass keeps its place, and asks whether it is still the one that should go on.
            if pass.kind == PassKind::Full {
                self.job.pass = Some(pass.clone());
                let saved = self.save().await?;
                self.job.pass = None;
                if saved == Saved::Conflict {
                    tracing::warn!(activity = %self.activity.id, fence = self.fence.get(), "reconcile_superseded");
                    return Ok(Went::Superseded);
                }
            }
        }
        Ok(Went::Through)
    }

    async fn bucket(&mut self, pass: &mut Pass, bucket: Bucket) -> Result<BucketWent, Fault> {
        if self.time_is_up() {
            return Ok(BucketWent::Stopped);
        }
        let job = BucketSeen::job(self.activity, bucket);
        let seen = BucketSeen::read(self.store.progress(&job).await?.as_ref());
        let changes_do = pass.kind == PassKind::Incremental && pass.full.is_none();
        let mut next = seen.clone().unwrap_or_default();
        let mut went = match &seen {
            Some(_) if changes_do => Box::pin(self.changes(pass, bucket, &mut next)).await?,
            _ => BucketWent::NeedsFull,
        };
        let by_changes = went != BucketWent::NeedsFull;
        if !by_changes {
            // Its listing has the orders that are at home here. Those of other homes that have a part here are
            // found at their homes only: all of the activity has to be compared.
            self.job.full_due |= pass.kind == PassKind::Incremental;
            went = Box::pin(self.full_bucket(pass, bucket, &mut next)).await?;
        }
        // Changes that are settled stay so, also when the time was up before the last of them.
        if (went == BucketWent::Through || by_changes) && seen.as_ref() != Some(&next) {
            let until = self.activity.stock_keys_expire_at().plus_ms(SEEN_LIFE_MS);
            // A conflict shows when the activity's own place is saved.
            let _ = self.store.save_progress(&job, self.fence, next.text().as_ref(), Some(until)).await?;
        }
        Ok(went)
    }

    /// Whether to stop here. Never before the first page of a run.
    pub(super) fn time_is_up(&self) -> bool {
        self.pages > 0 && Instant::now() >= self.deadline
    }

    async fn save(&self) -> Result<Saved, Fault> {
        let job = JobState::job(&self.activity.id);
        let until = self.activity.stock_keys_expire_at().plus_ms(FINDINGS_LIFE_MS);
        self.store.save_progress(&job, self.fence, self.job.text().as_ref(), Some(until)).await
    }

    /// Notes a difference everywhere that it is told: report, log, and what is kept.
    pub(super) fn note(&mut self, pass: &mut Pass, difference: Difference) {
        let subject = difference.subject();
        tracing::warn!(
            activity = %self.activity.id, subject, kind = ?difference.kind, redis = difference.redis,
            database = difference.database, action = difference.action, repaired = difference.repaired,
            operation = "automatic", operator = "reconcile", "reconciled"
        );
        pass.found += 1;
        self.seen.note(difference.order_no.as_ref());
        pass.repaired += u64::from(difference.repaired);
        self.report.note(difference.kind, subject, difference.repaired);
        let counted = self.counts.entry((difference.bucket, difference.kind)).or_default();
        counted.count += 1;
        counted.repaired += u64::from(difference.repaired);
        if self.kept + self.rows.len() < FINDINGS_MAX {
            let Difference { kind, bucket, order_no, sku, redis, database, action, repaired } = difference;
            let at = self.clock.now();
            self.rows.push(FindingRow { kind, bucket, at, order_no, sku, redis, database, action, repaired });
        }
    }

    /// Keeps what was noted. A page is of one bucket and of few rows, so that an item holds it.
    pub(super) async fn keep_findings(&mut self, pass: UnixMillis) -> Result<(), Fault> {
        let mut pages: BTreeMap<Bucket, BTreeMap<Finding, Counted>> = BTreeMap::new();
        for ((bucket, kind), counted) in std::mem::take(&mut self.counts) {
            pages.entry(bucket).or_default().insert(kind, counted);
        }
        let rows = std::mem::take(&mut self.rows);
        self.kept += rows.len();
        for (bucket, counts) in pages {
            let of_bucket: Vec<FindingRow> = rows.iter().filter(|row| row.bucket == bucket).cloned().collect();
            let mut counts = Some(counts);
            let mut chunks = of_bucket.chunks(FINDING_ROWS_MAX);
            while let Some(counts) = counts.take().or_else(|| (chunks.len() > 0).then(BTreeMap::new)) {
                self.pages_kept += 1;
                let page = FindingPage {
                    activity: self.activity.id.clone(),
                    bucket,
                    pass,
                    at: self.clock.now(),
                    fence: self.fence.get(),
                    number: self.pages_kept,
                    counts,
                    rows: chunks.next().unwrap_or_default().to_vec(),
                };
                self.store.keep_findings(&page, page.at.plus_ms(FINDINGS_LIFE_MS)).await?;
            }
        }
        Ok(())
    }
}
