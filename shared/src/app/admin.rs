//! What operators do: save an activity, preheat it, freeze and unfreeze.

use futures_util::future::{join_all, try_join_all};
use serde::Serialize;

use crate::{
    app::activity_cache::ActivityCache,
    domain::{
        Invalid,
        activity::{Activity, ActivityDraft, ChangeRefused},
        buckets::split,
        ids::{ActivityId, Bucket, Sku},
        reason::Reason,
        stock::{Allotment, ChangeMark, Operation, StockItem},
    },
    ports::{ActivityStore, Clock, Fault, Preheated, Saved, StockGate, StockStore},
};

/// Most calls under way at once when an operation touches every bucket: it must not crowd out a sale.
const PARALLEL: usize = 16;

/// The version that the operator expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// `If-None-Match: *`: there must be none.
    Absent,
    /// `If-Match`: this one.
    Version(u64),
}

/// What saving comes to.
#[derive(Debug)]
#[must_use]
pub enum SavedActivity {
    Created(Box<Activity>),
    Changed(Box<Activity>),
    /// The stored version is another than expected, or there is none.
    PreconditionFailed,
    /// This field is fixed while stock is on sale.
    Running(&'static str),
    Invalid(Invalid),
}

/// What preheating comes to.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum PreheatResult {
    UnknownActivity,
    Ended,
    Done(Progress),
}

/// How far preheating is: complete when no bucket is pending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Of the activity; preheating raises it.
    pub version: u64,
    pub buckets: Vec<(Bucket, LoadState)>,
}

/// Where one bucket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadState {
    /// By this call.
    Loaded,
    /// The bucket had stock keys: nothing was changed.
    Already,
    /// On sale in the database; the activity uses no Redis.
    Opened,
    /// It could not be reached: call again.
    Pending,
}

/// Whether the sale switch is in force in one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BucketSwitch {
    pub bucket: Bucket,
    /// In the database, which refuses every commit while frozen.
    pub database: bool,
    /// In Redis. `None` where the activity does not use it.
    pub gate: Option<bool>,
}

impl BucketSwitch {
    #[must_use]
    pub fn in_force(&self) -> bool {
        self.database && self.gate != Some(false)
    }
}

#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum SwitchResult {
    UnknownActivity,
    UnknownSku,
    /// Nothing is on sale yet.
    NotPreheated,
    Done(Vec<BucketSwitch>),
}

pub struct Admin<D, G, C> {
    pub store: D,
    pub cache: ActivityCache<D>,
    pub gate: G,
    pub clock: C,
}

impl<D, G, C> Admin<D, G, C>
where
    D: ActivityStore + StockStore,
    G: StockGate,
    C: Clock,
{
    /// Creates or changes an activity. A change of a running one is carried to every bucket.
    pub async fn save(&self, id: ActivityId, draft: ActivityDraft, expected: Expected) -> Result<SavedActivity, Fault> {
        let current = self.store.activity(&id).await?;
        let version = current.as_ref().map(|activity| activity.version);
        let next = match (current, expected) {
            (None, Expected::Absent) => Activity::create(id, draft).map(Ok),
            (Some(current), Expected::Version(version)) if version == current.version => current.change(draft),
            _ => return Ok(SavedActivity::PreconditionFailed),
        };
        let activity = match next {
            Err(invalid) => return Ok(SavedActivity::Invalid(invalid)),
            Ok(Err(ChangeRefused::Running(field))) => return Ok(SavedActivity::Running(field)),
            Ok(Ok(activity)) => activity,
        };
        if self.store.save_activity(&activity, version).await? == Saved::Conflict {
            return Ok(SavedActivity::PreconditionFailed);
        }
        self.carry_configuration(&activity).await;
        let activity = Box::new(activity);
        Ok(if version.is_none() { SavedActivity::Created(activity) } else { SavedActivity::Changed(activity) })
    }

    /// Puts the stock on sale and loads Redis. Every step may be repeated: again → no change, and what
    /// a broken run left is completed.
    pub async fn preheat(&self, id: &ActivityId, operator: &str) -> Result<PreheatResult, Fault> {
        let Some(mut activity) = self.store.activity(id).await? else { return Ok(PreheatResult::UnknownActivity) };
        if self.clock.now() >= activity.window.ends_at {
            return Ok(PreheatResult::Ended);
        }
        // First the configuration is fixed, then stock is made from it.
        if !activity.opened {
            let Some(opened) = self.advance(&activity, |next| next.opened = true).await? else {
                return Err(Fault::not_applied("preheat", "the activity was changed meanwhile"));
            };
            activity = opened;
        }
        if !activity.ready {
            self.open_stock(&activity, operator).await?;
            // The version that Redis is told is the one that says "ready".
            let Some(ready) = self.advance(&activity, |next| next.ready = true).await? else {
                return Err(Fault::not_applied("preheat", "the activity was changed meanwhile"));
            };
            activity = ready;
        }
        let mut buckets = Vec::with_capacity(usize::from(activity.buckets.get()));
        for bucket in activity.buckets.all() {
            let state = self.load(&activity, bucket).await.unwrap_or_else(|fault| {
                tracing::warn!(activity = %activity.id, %bucket, fault = fault.chain(), "bucket_not_loaded");
                LoadState::Pending
            });
            buckets.push((bucket, state));
        }
        Ok(PreheatResult::Done(Progress { version: activity.version, buckets }))
    }

    /// Ends the sale now; again → no change. Orders are not touched: they can still be paid and cancelled.
    /// `None` when there is no such activity.
    ///
    /// # Errors
    /// When the database does not answer, or the activity was changed meanwhile.
    pub async fn end(&self, id: &ActivityId) -> Result<Option<Activity>, Fault> {
        let Some(activity) = self.store.activity(id).await? else { return Ok(None) };
        let now = self.clock.now().max(activity.window.starts_at);
        if activity.window.ends_at <= now {
            return Ok(Some(activity));
        }
        let Some(ended) = self.advance(&activity, |next| next.window.ends_at = now).await? else {
            return Err(Fault::not_applied("end a sale", "the activity was changed meanwhile"));
        };
        self.carry_configuration(&ended).await;
        Ok(Some(ended))
    }

    /// To every bucket of Redis. Where that fails, functions answer `unavailable` there until reconciliation
    /// has carried it.
    async fn carry_configuration(&self, activity: &Activity) {
        if !activity.ready || !activity.strategy.uses_gate() {
            return;
        }
        let now = self.clock.now();
        for bucket in activity.buckets.all() {
            if let Err(fault) = self.gate.sync_control(activity, bucket, now).await {
                tracing::warn!(activity = %activity.id, %bucket, fault = fault.chain(), "configuration_not_carried");
            }
        }
    }

    async fn advance(&self, from: &Activity, change: impl FnOnce(&mut Activity)) -> Result<Option<Activity>, Fault> {
        let mut next = Activity { version: from.version + 1, ..from.clone() };
        change(&mut next);
        Ok((self.store.save_activity(&next, Some(from.version)).await? == Saved::Done).then_some(next))
    }

    async fn open_stock(&self, activity: &Activity, operator: &str) -> Result<(), Fault> {
        let (now, mark) = (self.clock.now(), mark(operator, "preheat"));
        let items: Vec<StockItem> = activity
            .skus
            .iter()
            .flat_map(|offer| {
                split(&offer.sku, offer.stock, activity.buckets).into_iter().map(|(bucket, units)| StockItem {
                    activity: activity.id.clone(),
                    sku: offer.sku.clone(),
                    bucket,
                    allotted: units,
                    available: units,
                    version: 1,
                    on_sale: true,
                    changed_at: now,
                })
            })
            .collect();
        for some in items.chunks(PARALLEL) {
            try_join_all(some.iter().map(|item| self.store.open_stock(item, &mark))).await?;
        }
        Ok(())
    }

    async fn load(&self, activity: &Activity, bucket: Bucket) -> Result<LoadState, Fault> {
        if !activity.strategy.uses_gate() {
            return Ok(LoadState::Opened);
        }
        let now = self.clock.now();
        let stock = self.store.bucket_stock(activity, bucket).await?;
        let allotments: Vec<Allotment> = stock.iter().map(|item| activity.allotment(item)).collect();
        Ok(match self.gate.preheat(activity, bucket, &allotments, now).await? {
            Preheated::Loaded => LoadState::Loaded,
            Preheated::Already => {
                self.gate.sync_control(activity, bucket, now).await?;
                LoadState::Already
            }
        })
    }

    /// Sets the sale switch of one SKU or all: the database first, so that nothing commits from then
    /// on, then every bucket of Redis. A bucket that could not be reached is answered as not in force;
    /// reconciliation asserts it again.
    pub async fn switch(
        &self,
        id: &ActivityId,
        sku: Option<&Sku>,
        on_sale: bool,
        operator: &str,
        reason: &Reason,
    ) -> Result<SwitchResult, Fault> {
        // Read, not cached: the operator just acted on what is stored.
        let Some(activity) = self.store.activity(id).await? else { return Ok(SwitchResult::UnknownActivity) };
        if !activity.ready {
            return Ok(SwitchResult::NotPreheated);
        }
        if sku.is_some_and(|sku| activity.offer(sku).is_none()) {
            return Ok(SwitchResult::UnknownSku);
        }
        let all = activity.skus.iter().map(|offer| offer.sku.clone());
        let skus: Vec<Sku> = sku.map_or_else(|| all.collect(), |sku| vec![sku.clone()]);
        let verb = if on_sale { "unfreeze" } else { "freeze" };
        let mark = mark(operator, &format!("{verb}: {}", reason.as_str()));
        let buckets: Vec<Bucket> = activity.buckets.all().collect();
        let mut switches = Vec::with_capacity(buckets.len());
        for some in buckets.chunks(PARALLEL) {
            let switching = some.iter().map(|bucket| self.switch_bucket(&activity, &skus, *bucket, on_sale, &mark));
            switches.extend(join_all(switching).await);
        }
        Ok(SwitchResult::Done(switches))
    }

    async fn switch_bucket(
        &self,
        activity: &Activity,
        skus: &[Sku],
        bucket: Bucket,
        on_sale: bool,
        mark: &ChangeMark,
    ) -> BucketSwitch {
        let mut allotments = Vec::with_capacity(skus.len());
        let mut database = true;
        for sku in skus {
            match self.store.set_on_sale(&activity.id, sku, bucket, on_sale, mark).await {
                Ok(item) => allotments.extend(item.as_ref().map(|item| activity.allotment(item))),
                Err(fault) => {
                    tracing::error!(activity = %activity.id, %sku, %bucket, fault = fault.chain(), "switch_failed");
                    database = false;
                }
            }
        }
        if !activity.strategy.uses_gate() {
            return BucketSwitch { bucket, database, gate: None };
        }
        let gate = match self.gate.sync_allotment(&activity.id, bucket, &allotments).await {
            Ok(_) => database,
            Err(fault) => {
                tracing::error!(activity = %activity.id, %bucket, fault = fault.chain(), "switch_not_in_redis");
                false
            }
        };
        BucketSwitch { bucket, database, gate: Some(gate) }
    }
}

fn mark(operator: &str, reference: &str) -> ChangeMark {
    ChangeMark { operation: Operation::Manual, operator: operator.to_owned(), reference: reference.to_owned() }
}
