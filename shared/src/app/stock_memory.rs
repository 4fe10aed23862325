//! What this process learnt of free stock in Redis. It only saves calls: whoever it sends to a bucket asks
//! that bucket, and what it calls sold out is asked again a second later.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::domain::{
    activity::Activity,
    buckets::by_weight,
    ids::{ActivityId, Bucket, Sku},
    order::Placement,
};

/// How long something is believed: stock that comes back is sold no later than that.
pub const LIFETIME: Duration = Duration::from_secs(1);
/// Most SKUs that are remembered. Beyond, everything is forgotten: it is learnt again within a call or two.
pub const CAPACITY: usize = 1_000;

/// What was learnt of one SKU, each with when the question was sent.
#[derive(Default)]
struct Seen {
    /// Free units in Redis.
    free: HashMap<Bucket, (u64, Instant)>,
    /// The database had none in any bucket.
    exhausted: Option<Instant>,
}

/// Cheap to clone; clones share what is remembered.
#[derive(Clone)]
pub struct StockMemory {
    lifetime: Duration,
    seen: Arc<Mutex<HashMap<(ActivityId, Sku), Seen>>>,
}

impl Default for StockMemory {
    fn default() -> Self {
        Self { lifetime: LIFETIME, seen: Arc::default() }
    }
}

impl StockMemory {
    fn lock(&self) -> MutexGuard<'_, HashMap<(ActivityId, Sku), Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A bucket had so many units free when it was asked at `asked_at`. An older answer never replaces a newer.
    pub fn note(&self, activity: &Activity, sku: &Sku, bucket: Bucket, free: u64, asked_at: Instant) {
        let mut all = self.lock();
        let known = entry(&mut all, activity, sku).free.entry(bucket).or_insert((free, asked_at));
        if known.1 <= asked_at {
            *known = (free, asked_at);
        }
    }

    /// This process took so many units there. Where none would be left, nothing is known any more: only a bucket
    /// itself says that it is empty, because another answer may have counted these units already.
    pub fn took(&self, activity: &Activity, sku: &Sku, bucket: Bucket, units: u32) {
        let mut seen = self.lock();
        let Some(entry) = seen.get_mut(&(activity.id.clone(), sku.clone())) else { return };
        let left = entry.free.get(&bucket).map_or(0, |(free, _)| free.saturating_sub(u64::from(units)));
        if left == 0 {
            entry.free.remove(&bucket);
        } else if let Some((free, _)) = entry.free.get_mut(&bucket) {
            *free = left;
        }
    }

    /// The database, asked at `asked_at`, had no unit of the SKU in any bucket. Redis may still have some to admit:
    /// what an admission ratio adds, or what a failover brought back.
    pub fn note_exhausted(&self, activity: &Activity, sku: &Sku, asked_at: Instant) {
        let mut all = self.lock();
        let exhausted = &mut entry(&mut all, activity, sku).exhausted;
        *exhausted = (*exhausted).max(Some(asked_at));
    }

    /// Whether the database had no unit of one of the SKUs when it was asked within the lifetime.
    #[must_use]
    pub fn is_exhausted(&self, placement: &Placement) -> bool {
        let seen = self.lock();
        placement.lines.iter().any(|line| {
            let known = seen.get(&(placement.activity.clone(), line.sku.clone()));
            known.and_then(|known| known.exhausted).is_some_and(|at| at.elapsed() < self.lifetime)
        })
    }

    /// Whether no bucket had a unit of the SKU, each asked within the lifetime.
    #[must_use]
    pub fn is_sold_out(&self, activity: &Activity, sku: &Sku) -> bool {
        activity.buckets.all().all(|bucket| self.free(activity, sku, bucket) == Some(0))
    }

    /// Whether the home bucket is known to be short of something, and one other bucket to have all that it
    /// is short of.
    #[must_use]
    pub fn is_elsewhere(&self, activity: &Activity, placement: &Placement) -> bool {
        let missing: Vec<(Sku, u32)> = placement
            .lines
            .iter()
            .filter_map(|line| {
                let free = self.free(activity, &line.sku, placement.home)?;
                let short = u64::from(line.quantity.get()).saturating_sub(free);
                Some((line.sku.clone(), u32::try_from(short).ok()?)).filter(|(_, units)| *units > 0)
            })
            .collect();
        !missing.is_empty() && self.bucket_with(activity, placement.home, &missing).is_some()
    }

    /// A bucket beside home that has all of these: any, more likely one that has much of the first.
    #[must_use]
    pub fn bucket_with(&self, activity: &Activity, home: Bucket, missing: &[(Sku, u32)]) -> Option<Bucket> {
        let (first, _) = missing.first()?;
        let has = |bucket: &Bucket| {
            let enough = |(sku, units): &(Sku, u32)| {
                self.free(activity, sku, *bucket).is_some_and(|free| free >= u64::from(*units))
            };
            *bucket != home && missing.iter().all(enough)
        };
        let weight = |bucket: Bucket| (bucket, self.free(activity, first, bucket).unwrap_or(0));
        let weights: Vec<(Bucket, u64)> = activity.buckets.all().filter(has).map(weight).collect();
        by_weight(&weights, fastrand::u64(..))
    }

    /// Units free in a bucket, if that was learnt within the lifetime.
    #[must_use]
    pub fn free(&self, activity: &Activity, sku: &Sku, bucket: Bucket) -> Option<u64> {
        let seen = self.lock();
        let (free, asked_at) = seen.get(&(activity.id.clone(), sku.clone()))?.free.get(&bucket)?;
        (asked_at.elapsed() < self.lifetime).then_some(*free)
    }
}

/// Where this SKU's is kept. When there are too many, everything is forgotten.
fn entry<'a>(seen: &'a mut HashMap<(ActivityId, Sku), Seen>, activity: &Activity, sku: &Sku) -> &'a mut Seen {
    if seen.len() >= CAPACITY {
        seen.clear();
    }
    seen.entry((activity.id.clone(), sku.clone())).or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::BucketCount;

    fn activity() -> Activity {
        let draft = serde_json::from_value(serde_json::json!({
            "name": "n", "starts_at": "2026-11-29T20:00:00Z", "ends_at": "2026-11-29T21:00:00Z", "time_zone": "UTC",
            "strategy": "prededuct", "buckets": 3, "limit": {"scope": "day", "max": 5}, "on_cancel": "release",
            "payment_minutes": 15, "currency": "EUR", "skus": [{"sku": "a", "stock": 9, "price": 1}]
        }));
        Activity::create(ActivityId::parse("sale").unwrap(), draft.unwrap()).unwrap()
    }

    fn sku() -> Sku {
        Sku::parse("a").unwrap()
    }

    fn bucket(index: u16) -> Bucket {
        Bucket::new(index).unwrap()
    }

    #[test]
    fn sold_out_needs_every_bucket_and_lasts_a_second() {
        let (memory, activity) = (StockMemory::default(), activity());
        assert_eq!(activity.buckets, BucketCount::new(3).unwrap());
        for index in 0..3 {
            assert!(!memory.is_sold_out(&activity, &sku()), "{index} of 3 buckets known");
            memory.note(&activity, &sku(), bucket(index), 0, Instant::now());
        }
        assert!(memory.is_sold_out(&activity, &sku()));
        let old = StockMemory::default();
        for index in 0..3 {
            old.note(&activity, &sku(), bucket(index), 0, Instant::now() - LIFETIME);
        }
        assert!(!old.is_sold_out(&activity, &sku()));
    }

    #[test]
    fn what_was_taken_is_gone_and_an_older_answer_does_not_bring_it_back() {
        let (memory, activity, before) = (StockMemory::default(), activity(), Instant::now() - LIFETIME / 2);
        memory.note(&activity, &sku(), bucket(1), 2, Instant::now());
        memory.note(&activity, &sku(), bucket(1), 9, before);
        assert_eq!(memory.free(&activity, &sku(), bucket(1)), Some(2));
        memory.took(&activity, &sku(), bucket(1), 1);
        assert_eq!(memory.free(&activity, &sku(), bucket(1)), Some(1));
        memory.took(&activity, &sku(), bucket(1), 1);
        assert_eq!(memory.free(&activity, &sku(), bucket(1)), None, "it may have more again");
    }

    #[test]
    fn a_bucket_that_has_everything_is_named_and_never_home() {
        let (memory, activity) = (StockMemory::default(), activity());
        for (index, free) in [(0, 9), (1, 3), (2, 4)] {
            memory.note(&activity, &sku(), bucket(index), free, Instant::now());
        }
        let with = |units| memory.bucket_with(&activity, bucket(0), &[(sku(), units)]);
        assert_eq!((with(4), with(5)), (Some(bucket(2)), None));
        let named: std::collections::HashSet<_> = (0..200).map(|_| with(3).unwrap()).collect();
        assert_eq!(named, [bucket(1), bucket(2)].into(), "not all go to the fullest");
    }

    #[test]
    fn it_does_not_grow_for_ever() {
        let (memory, activity) = (StockMemory::default(), activity());
        for n in 0..=CAPACITY {
            let sku = Sku::parse(&format!("a{n}")).unwrap();
            memory.note(&activity, &sku, bucket(0), 1, Instant::now());
        }
        assert_eq!(memory.lock().len(), 1);
    }
}
