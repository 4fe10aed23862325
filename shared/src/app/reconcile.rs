//! Reconciliation: by order, never by counter. One run goes over every bucket of every activity that
//! is preheated and not long over, within a budget, and goes on where the last run's budget ended.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use tokio::time::Instant;

use crate::{
    app::reconcile_bucket::BucketPass,
    domain::{
        activity::Activity,
        ids::{ActivityId, Bucket, Sku},
        order_no::OrderNo,
        repair::{Finding, GRACE_MS},
        stock::{ChangeMark, Operation, StockItem},
    },
    ports::{ActivityStore, Clock, Cursor, Fault, OrderStore, ProgressStore, StockGate, StockStore},
};

/// The job's name where its progress is kept.
const JOB: &str = "reconcile";
/// Most order numbers reported per kind of finding; the rest is counted.
pub const REPORTED_MAX: usize = 50;

/// What a run found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub activities: u32,
    pub buckets: u32,
    /// Orders and records compared.
    pub compared: u64,
    pub findings: BTreeMap<Finding, Found>,
    /// Calls that failed; what they would have shown is left to the next run.
    pub faults: u32,
    /// False when the budget ended first: the next run goes on where this one stopped.
    pub complete: bool,
}

/// One kind of finding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Found {
    pub count: u64,
    pub repaired: u64,
    /// The first ones: order numbers, or bucket and SKU of a sum.
    pub examples: Vec<String>,
}

impl Report {
    pub(super) fn note(&mut self, finding: Finding, subject: String, repaired: bool) {
        let found = self.findings.entry(finding).or_default();
        found.count += 1;
        found.repaired += u64::from(repaired);
        if found.examples.len() < REPORTED_MAX {
            found.examples.push(subject);
        }
    }

    pub(super) fn fault(&mut self, what: &str, fault: &Fault) {
        self.faults += 1;
        tracing::warn!(what, fault = fault.chain(), "reconcile_fault");
    }
}

/// Where a run stopped.
struct Place {
    activity: ActivityId,
    bucket: u16,
}

impl Place {
    fn cursor(&self) -> Cursor {
        Cursor(format!("{}#{}", self.activity, self.bucket))
    }

    /// `None` when it makes no sense: the run then begins anew.
    fn parse(cursor: &Cursor) -> Option<Self> {
        let (activity, bucket) = cursor.0.split_once('#')?;
        Some(Self { activity: ActivityId::parse(activity).ok()?, bucket: bucket.parse().ok()? })
    }
}

/// Units of live orders per stock item, as the orders themselves say.
pub(super) type LiveUnits = HashMap<(Sku, Bucket), u64>;

pub struct Reconcile<D, G, C> {
    pub store: D,
    pub gate: G,
    pub clock: C,
}

impl<D, G, C> Reconcile<D, G, C>
where
    D: ActivityStore + OrderStore + StockStore + ProgressStore,
    G: StockGate,
    C: Clock,
{
    /// One run, until everything was compared or the deadline is near.
    ///
    /// # Errors
    /// When the list of activities or the progress cannot be read: nothing was done.
    pub async fn run(&self, deadline: Instant) -> Result<Report, Fault> {
        let mut report = Report::default();
        let resume_from = self.store.progress(JOB).await?.and_then(|cursor| Place::parse(&cursor));
        let mut page = None;
        loop {
            let (activities, next) = self.store.activities(page.as_ref()).await?;
            for activity in activities {
                let first = match &resume_from {
                    Some(from) if activity.id < from.activity => continue,
                    Some(from) if activity.id == from.activity => from.bucket,
                    _ => 0,
                };
                if !self.concerns(&activity) {
                    continue;
                }
                if let Some(stopped_at) = self.activity(&activity, first, deadline, &mut report).await {
                    self.store.save_progress(JOB, Some(&stopped_at.cursor())).await?;
                    return Ok(report);
                }
            }
            page = next;
            if page.is_none() {
                break;
            }
        }
        if resume_from.is_some() {
            self.store.save_progress(JOB, None).await?;
        }
        report.complete = true;
        Ok(report)
    }

    /// Preheated, and its keys may still be alive.
    fn concerns(&self, activity: &Activity) -> bool {
        activity.ready && self.clock.now() < activity.stock_keys_expire_at()
    }

    /// The buckets of one activity from this one on; answers where the deadline stopped it.
    async fn activity(&self, activity: &Activity, first: u16, deadline: Instant, report: &mut Report) -> Option<Place> {
        report.activities += 1;
        // Read before the listing: a sum counts only if the item did not change since.
        let skus: Vec<Sku> = activity.skus.iter().map(|offer| offer.sku.clone()).collect();
        let before = match self.store.stock(activity, &skus).await {
            Ok(stock) => stock,
            Err(fault) => {
                report.fault("stock", &fault);
                return None;
            }
        };
        let faults = report.faults;
        let mut live = LiveUnits::new();
        for bucket in activity.buckets.all().filter(|bucket| bucket.get() >= first) {
            if Instant::now() >= deadline {
                return Some(Place { activity: activity.id.clone(), bucket: bucket.get() });
            }
            let pass = BucketPass { store: &self.store, gate: &self.gate, activity, bucket, now: self.clock.now() };
            if let Err(fault) = pass.run(&mut live, report).await {
                report.fault("bucket", &fault);
            }
            report.buckets += 1;
        }
        // Only a pass over all orders knows the units of all of them.
        if first == 0 && report.faults == faults {
            self.database_sums(&before, &live, report).await;
        }
        None
    }

    /// available + units of live orders = allotted. Repaired only where nothing changed since before
    /// the listing: the write's own condition. The listing comes from an index that may lag, so an item
    /// that changed within the grace is left for the next run: an order missing from the listing would
    /// look like stock to give away.
    async fn database_sums(&self, before: &[StockItem], live: &LiveUnits, report: &mut Report) {
        let mark = ChangeMark {
            operation: Operation::Automatic,
            operator: "reconcile".to_owned(),
            reference: "database_sum".to_owned(),
        };
        for item in before {
            let units = live.get(&(item.sku.clone(), item.bucket)).copied().unwrap_or(0);
            if item.available + units == item.allotted {
                continue;
            }
            let settled = self.clock.now().since_ms(item.changed_at) > GRACE_MS;
            let subject = format!("{}#{}#{}", item.activity, item.sku, item.bucket);
            match item.allotted.checked_sub(units) {
                Some(available) if settled => match self.store.correct_available(item, available, &mark).await {
                    // Another version by now: the sums were of different moments.
                    Ok(false) => {}
                    Ok(true) => {
                        tracing::error!(subject, from = item.available, to = available, "database_sum_corrected");
                        report.note(Finding::DatabaseSum, subject, true);
                    }
                    Err(fault) => report.fault("correct_available", &fault),
                },
                // More live units than were ever put on sale: a person is needed.
                None => {
                    tracing::error!(subject, allotted = item.allotted, units, "oversold");
                    report.note(Finding::DatabaseSum, subject, false);
                }
                Some(_) => {}
            }
        }
    }
}

/// A subject of a finding: one order in one bucket.
pub(super) fn subject(order_no: &OrderNo, bucket: Bucket) -> String {
    format!("{order_no}@{bucket}")
}
