//! Filling an order that its home bucket cannot: looking at the other buckets, taking parts there, and
//! undoing them when they do not add up.

use tokio::time::Instant;

use crate::{
    app::{
        looks::Looks,
        stock_memory::StockMemory,
        submission::{Refusal, with_home},
    },
    domain::{
        activity::Activity,
        buckets::{ACTIONS_MAX, BucketOffer, fill_apart},
        ids::{Bucket, Sku},
        order::{Part, Placement},
        record::Side,
        stock::StockItem,
    },
    ports::{Deducted, Fault, Look, PlaceAnswer, PlaceCall, StockGate, Undone},
};

/// How often the missing parts are planned: once from the look, once more from what was learnt.
const ROUNDS_MAX: usize = 2;

/// What filling comes to.
#[derive(Debug)]
#[must_use]
pub enum Filled {
    /// Every line is held, in these parts.
    Parts(Vec<Part>),
    /// The submission was given up by somebody: its order tells its state.
    GivenBack,
    /// Nothing is held: this is the answer.
    NothingWritten(Refusal),
    /// Not filled, and not everything could be undone: claim before this is told.
    StillHeld { refusal: Refusal, buckets: Vec<Bucket> },
}

/// One order that looks for parts.
pub struct Filling<'a, G> {
    gate: &'a G,
    activity: &'a Activity,
    placement: &'a Placement,
    memory: &'a StockMemory,
}

impl<'a, G: StockGate> Filling<'a, G> {
    pub const fn new(gate: &'a G, activity: &'a Activity, placement: &'a Placement, memory: &'a StockMemory) -> Self {
        Self { gate, activity, placement, memory }
    }

    /// The home bucket was short and nothing is written yet: look first, so that "sold out everywhere"
    /// writes nothing. The inner error is what the home script said instead when it was asked again.
    pub async fn after_short(
        &self,
        free_at_home: &[u64],
        asked_at: Instant,
    ) -> Result<Result<Filled, PlaceAnswer>, Fault> {
        self.note(self.placement.home, free_at_home, asked_at);
        if self.placement.lines.iter().any(|line| self.memory.is_sold_out(self.activity, &line.sku)) {
            return Ok(Ok(Filled::NothingWritten(Refusal::SoldOut)));
        }
        let looks = self.look(&[]).await?;
        let home: Vec<u32> = self
            .placement
            .lines
            .iter()
            .zip(free_at_home)
            .map(|(line, free)| line.quantity.get().min(u32::try_from(*free).unwrap_or(u32::MAX)))
            .collect();
        if self.plan(&self.missing(&home), &looks).is_none() {
            return Ok(Ok(Filled::NothingWritten(looks.refusal())));
        }
        match self.gate.place(PlaceCall { activity: self.activity, placement: self.placement, look: true }).await? {
            PlaceAnswer::Admitted(held) => Ok(Ok(self.take_missing(&held, looks).await)),
            other => Ok(Err(other)),
        }
    }

    /// The home bucket holds so many units per line already, by this call or an earlier one.
    pub async fn with_home(&self, held: &[u32]) -> Result<Filled, Fault> {
        let units: Vec<_> = self.home_parts(held).into_iter().map(|part| (part.sku, part.units)).collect();
        self.took(self.placement.home, &units);
        if self.missing(held).is_empty() {
            return Ok(Filled::Parts(self.home_parts(held)));
        }
        if let Some(filled) = self.try_remembered(held).await {
            return Ok(filled);
        }
        let looks = self.look(&[]).await?;
        Ok(self.take_missing(held, looks).await)
    }

    /// Takes what is missing where this process last saw it, without looking around first. `None` when it is
    /// not there any more.
    async fn try_remembered(&self, held: &[u32]) -> Option<Filled> {
        let missing = self.missing(held);
        let bucket = self.memory.bucket_with(self.activity, self.placement.home, &missing)?;
        let asked_at = Instant::now();
        match self.gate.deduct(self.activity, self.placement, bucket, &missing).await {
            Ok(Deducted::Done) => {
                let away = missing.iter().map(|(sku, units)| Part { sku: sku.clone(), bucket, units: *units });
                self.took(bucket, &missing);
                Some(Filled::Parts(self.home_parts(held).into_iter().chain(away).collect()))
            }
            Ok(Deducted::GivenBack) => Some(Filled::GivenBack),
            Ok(Deducted::Short(may_hold)) => {
                for ((sku, _), free) in missing.iter().zip(may_hold) {
                    self.memory.note(self.activity, sku, bucket, free, asked_at);
                }
                None
            }
            Ok(_) | Err(_) => None,
        }
    }

    fn note(&self, bucket: Bucket, free: &[u64], asked_at: Instant) {
        for (line, free) in self.placement.lines.iter().zip(free) {
            self.memory.note(self.activity, &line.sku, bucket, *free, asked_at);
        }
    }

    fn took(&self, bucket: Bucket, units: &[(Sku, u32)]) {
        for (sku, units) in units {
            self.memory.took(self.activity, sku, bucket, *units);
        }
    }

    /// Lets go of what home has just admitted.
    pub async fn let_go(&self, refusal: Refusal) -> Filled {
        self.undo(&[], refusal).await
    }

    /// The database had too little in some buckets: their parts go, others are looked for, where the database has
    /// some as well.
    pub async fn after_database_short(
        &self,
        parts: &[Part],
        short: &[(Sku, Bucket)],
        stock: &[StockItem],
    ) -> Result<Filled, Fault> {
        let exhausted: Vec<Bucket> = short.iter().map(|(_, bucket)| *bucket).collect();
        let is_short = |part: &Part| short.iter().any(|(sku, bucket)| *sku == part.sku && *bucket == part.bucket);
        let kept: Vec<Part> = parts.iter().filter(|part| !is_short(part)).cloned().collect();
        for bucket in distinct(parts).into_iter().filter(|bucket| exhausted.contains(bucket)) {
            let units = units_in(self.placement, &kept, bucket);
            match self.gate.deduct(self.activity, self.placement, bucket, &units).await? {
                Deducted::Done => {}
                Deducted::GivenBack => return Ok(Filled::GivenBack),
                _ => return Ok(Filled::NothingWritten(Refusal::SoldOut)),
            }
        }
        let missing: Vec<(Sku, u32)> = self
            .placement
            .lines
            .iter()
            .map(|line| {
                let held: u32 = kept.iter().filter(|part| part.sku == line.sku).map(|part| part.units).sum();
                (line.sku.clone(), line.quantity.get() - held)
            })
            .filter(|(_, units)| *units > 0)
            .collect();
        let mut looks = self.look(&exhausted).await?;
        looks.cap(self.placement, stock);
        Ok(self.take(kept, missing, looks).await)
    }

    async fn look(&self, except: &[Bucket]) -> Result<Looks, Fault> {
        let home = self.placement.home;
        let others: Vec<Bucket> =
            self.activity.buckets.all().filter(|bucket| *bucket != home && !except.contains(bucket)).collect();
        if others.is_empty() {
            return Ok(Looks { seen: Vec::new(), blind: false });
        }
        let asked_at = Instant::now();
        let seen = self.gate.look(self.activity, self.placement, &others).await?;
        for look in &seen {
            self.note(look.bucket, &look.free, asked_at);
        }
        // A bucket that does not answer, is frozen or lost its keys may have stock all the same.
        let blind = seen.len() < others.len() || seen.iter().any(|look| look.free.is_empty());
        Ok(Looks { seen, blind })
    }

    fn missing(&self, held: &[u32]) -> Vec<(Sku, u32)> {
        self.placement
            .lines
            .iter()
            .zip(held)
            .map(|(line, held)| (line.sku.clone(), line.quantity.get().saturating_sub(*held)))
            .filter(|(_, units)| *units > 0)
            .collect()
    }

    fn home_parts(&self, held: &[u32]) -> Vec<Part> {
        let bucket = self.placement.home;
        self.placement
            .lines
            .iter()
            .zip(held)
            .filter(|(_, units)| **units > 0)
            .map(|(line, units)| Part { sku: line.sku.clone(), bucket, units: *units })
            .collect()
    }

    fn plan(&self, missing: &[(Sku, u32)], looks: &Looks) -> Option<Vec<Part>> {
        let usable = looks.seen.iter().filter(|look| !look.limited || look.record.is_some());
        let offers: Vec<BucketOffer> = usable.map(|look| self.offer(look)).collect();
        // The home parts take actions too: one per line at most.
        let most = parts_max(self.placement).saturating_sub(self.placement.lines.len());
        fill_apart(missing, &offers, most, fastrand::u64(..))
    }

    fn offer(&self, look: &Look) -> BucketOffer {
        let available = self.placement.lines.iter().zip(&look.free);
        BucketOffer {
            bucket: look.bucket,
            available: available.map(|(line, free)| (line.sku.clone(), free + held(look, &line.sku))).collect(),
            has_record: look.record.is_some(),
        }
    }

    async fn take_missing(&self, held: &[u32], looks: Looks) -> Filled {
        self.take(self.home_parts(held), self.missing(held), looks).await
    }

    /// Takes the missing parts, planning once more when a bucket had less than it showed.
    async fn take(&self, kept: Vec<Part>, missing: Vec<(Sku, u32)>, mut looks: Looks) -> Filled {
        if looks.seen.iter().any(|look| look.record.as_ref().is_some_and(|record| record.side == Side::Returned)) {
            return Filled::GivenBack;
        }
        let mut tried = distinct(&kept);
        for _ in 0..ROUNDS_MAX {
            let Some(plan) = self.plan(&missing, &looks) else { break };
            tried.extend(distinct(&plan));
            match self.take_plan(&kept, &plan, &mut looks).await {
                Taken::All => {
                    let parts = [kept, plan].concat();
                    self.drop_unused(&tried, &parts).await;
                    return Filled::Parts(parts);
                }
                Taken::GivenBack => return Filled::GivenBack,
                Taken::Less => {}
            }
        }
        tried.extend(looks.seen.iter().filter(|look| look.record.is_some()).map(|look| look.bucket));
        self.undo(&tried, looks.refusal()).await
    }

    async fn take_plan(&self, kept: &[Part], plan: &[Part], looks: &mut Looks) -> Taken {
        let all = [kept, plan].concat();
        for bucket in distinct(plan) {
            let units = units_in(self.placement, &all, bucket);
            match self.gate.deduct(self.activity, self.placement, bucket, &units).await {
                Ok(Deducted::Done) => self.took(bucket, &units),
                Ok(Deducted::GivenBack) => return Taken::GivenBack,
                Ok(Deducted::Limited) => {
                    looks.update(bucket, |look| look.limited = true);
                    return Taken::Less;
                }
                Ok(Deducted::Short(may_hold)) => {
                    looks.update(bucket, |look| {
                        for (line, free) in self.placement.lines.iter().zip(&mut look.free) {
                            let asked = units.iter().zip(&may_hold).find(|((sku, _), _)| *sku == line.sku);
                            if let Some((_, may_hold)) = asked {
                                *free = *may_hold;
                            }
                        }
                        // What it may hold includes what it held.
                        look.record = None;
                    });
                    return Taken::Less;
                }
                // No answer, or none that helps: the order does without this bucket.
                Ok(Deducted::Frozen | Deducted::Unusable | Deducted::BadData) | Err(_) => {
                    looks.seen.retain(|look| look.bucket != bucket);
                    looks.blind = true;
                    return Taken::Less;
                }
            }
        }
        Taken::All
    }

    /// Parts that an earlier round took and the last plan does without. What is not undone here is
    /// found by reconciliation: the order will not name that bucket.
    async fn drop_unused(&self, tried: &[Bucket], parts: &[Part]) {
        let unused = |bucket: &&Bucket| **bucket != self.placement.home && !parts.iter().any(|p| p.bucket == **bucket);
        for bucket in tried.iter().filter(unused) {
            if let Err(fault) = self.gate.undo(self.activity, self.placement, *bucket).await {
                tracing::warn!(order_no = %self.placement.order_no, %bucket, fault = fault.chain(), "part_left_behind");
            }
        }
    }

    /// Other parts first, home last: while the home record stands, the submission can still be found.
    async fn undo(&self, tried: &[Bucket], refusal: Refusal) -> Filled {
        let home = self.placement.home;
        let buckets = with_home(home, tried);
        for bucket in buckets.iter().rev() {
            match self.gate.undo(self.activity, self.placement, *bucket).await {
                Ok(Undone::Done | Undone::Absent) => {}
                Ok(Undone::GivenBack) => return Filled::GivenBack,
                Ok(Undone::BadData) | Err(_) => return Filled::StillHeld { refusal, buckets },
            }
        }
        Filled::NothingWritten(refusal)
    }
}

/// Parts for a whole order from what the database shows as available; nothing is taken yet. `None` when that
/// is too little.
pub(super) fn fill_from_database(activity: &Activity, placement: &Placement, stock: &[StockItem]) -> Option<Vec<Part>> {
    let offers: Vec<BucketOffer> = activity
        .buckets
        .all()
        .map(|bucket| BucketOffer {
            bucket,
            available: stock
                .iter()
                .filter(|item| item.bucket == bucket && item.on_sale)
                .map(|item| (item.sku.clone(), item.available))
                .collect(),
            has_record: false,
        })
        .collect();
    let missing: Vec<(Sku, u32)> = placement.lines.iter().map(|line| (line.sku.clone(), line.quantity.get())).collect();
    fill_apart(&missing, &offers, parts_max(placement), fastrand::u64(..))
}

/// Stock items that fit into the order transaction beside the order and its guards.
fn parts_max(placement: &Placement) -> usize {
    ACTIONS_MAX.saturating_sub(placement.actions())
}

enum Taken {
    All,
    /// A bucket had less than planned; the looks say what is known now.
    Less,
    GivenBack,
}

/// Units of a SKU that the order's own record holds in the bucket that was looked into.
fn held(look: &Look, sku: &Sku) -> u64 {
    look.record.as_ref().map_or(0, |record| u64::from(record.holds(sku)))
}

fn distinct(parts: &[Part]) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = parts.iter().map(|part| part.bucket).collect();
    buckets.sort_unstable();
    buckets.dedup();
    buckets
}

/// The units per line that these parts put into one bucket, in line order, zeros left out.
fn units_in(placement: &Placement, parts: &[Part], bucket: Bucket) -> Vec<(Sku, u32)> {
    placement
        .lines
        .iter()
        .map(|line| {
            let held = parts.iter().filter(|part| part.bucket == bucket && part.sku == line.sku);
            (line.sku.clone(), held.map(|part| part.units).sum())
        })
        .filter(|(_, units)| *units > 0)
        .collect()
}
