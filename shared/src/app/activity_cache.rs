//! What this process remembers of activities. A stale entry cannot mis-sell: the script compares the
//! configuration version and the window, the database its own conditions.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{
    domain::{activity::Activity, ids::ActivityId},
    ports::{ActivityStore, Fault},
};

/// How long an entry is used without asking again, also one that says "there is none".
pub const LIFETIME: Duration = Duration::from_secs(2);
/// How long an old entry still serves when the database does not answer.
pub const STALE_LIFETIME: Duration = Duration::from_mins(1);
/// Most activities remembered.
pub const CAPACITY: usize = 1_000;

/// `None` inside an entry: no such activity.
type Entry = (Instant, Option<Arc<Activity>>);
/// Held while loading, so that many requests for one activity ask the database once.
type Slot = Arc<tokio::sync::Mutex<Option<Entry>>>;

/// Cheap to clone; clones share the entries.
pub struct ActivityCache<S> {
    store: S,
    lifetime: Duration,
    stale_lifetime: Duration,
    slots: Arc<Mutex<HashMap<ActivityId, Slot>>>,
}

impl<S: Clone> Clone for ActivityCache<S> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), slots: Arc::clone(&self.slots), ..*self }
    }
}

impl<S: ActivityStore> ActivityCache<S> {
    pub fn new(store: S) -> Self {
        Self { store, lifetime: LIFETIME, stale_lifetime: STALE_LIFETIME, slots: Arc::default() }
    }

    /// The activity, at most [`LIFETIME`] old.
    pub async fn get(&self, id: &ActivityId) -> Result<Option<Arc<Activity>>, Fault> {
        self.fetch(id, self.lifetime).await
    }

    /// The activity as the database has it now: after Redis named another version.
    pub async fn reload(&self, id: &ActivityId) -> Result<Option<Arc<Activity>>, Fault> {
        self.fetch(id, Duration::ZERO).await
    }

    async fn fetch(&self, id: &ActivityId, lifetime: Duration) -> Result<Option<Arc<Activity>>, Fault> {
        let asked_at = Instant::now();
        let slot = self.slot(id);
        let mut entry = slot.lock().await;
        // Somebody may have loaded it while this call waited: that is as new as its own load.
        let fresh_from = asked_at.checked_sub(lifetime).unwrap_or(asked_at);
        if let Some((loaded_at, activity)) = entry.as_ref()
            && *loaded_at >= fresh_from
        {
            return Ok(activity.clone());
        }
        match self.store.activity(id).await {
            Ok(activity) => {
                let activity = activity.map(Arc::new);
                *entry = Some((Instant::now(), activity.clone()));
                Ok(activity)
            }
            Err(fault) => match entry.as_ref() {
                Some((loaded_at, Some(activity)))
                    if lifetime > Duration::ZERO && loaded_at.elapsed() < self.stale_lifetime =>
                {
                    Ok(Some(Arc::clone(activity)))
                }
                _ => Err(fault),
            },
        }
    }

    fn slot(&self, id: &ActivityId) -> Slot {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= CAPACITY && !slots.contains_key(id) {
            make_room(&mut slots);
        }
        Arc::clone(slots.entry(id.clone()).or_default())
    }
}

/// Drops the entries that say "there is none" and the expired ones; if that frees nothing, all: they
/// are only a cache, and a thousand activities at once are a scan, not a sale.
fn make_room(slots: &mut HashMap<ActivityId, Slot>) {
    slots.retain(|_, slot| match slot.try_lock() {
        Err(_) => true, // being loaded right now
        Ok(entry) => matches!(&*entry, Some((at, Some(_))) if at.elapsed() < LIFETIME),
    });
    if slots.len() >= CAPACITY {
        slots.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::ports::{Cursor, Saved};

    /// Counts reads; fails on demand, as no server does.
    #[derive(Default)]
    struct Counting {
        reads: AtomicUsize,
        broken: std::sync::atomic::AtomicBool,
    }

    impl ActivityStore for Arc<Counting> {
        async fn activity(&self, id: &ActivityId) -> Result<Option<Activity>, Fault> {
            self.reads.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            if self.broken.load(Ordering::SeqCst) {
                return Err(Fault::not_applied("read", "broken"));
            }
            Ok(id.as_str().starts_with("sale").then(|| sample(id)))
        }

        async fn activities(&self, _: Option<&Cursor>) -> Result<(Vec<Activity>, Option<Cursor>), Fault> {
            Ok((Vec::new(), None))
        }

        async fn save_activity(&self, _: &Activity, _: Option<u64>) -> Result<Saved, Fault> {
            Ok(Saved::Conflict)
        }
    }

    fn sample(id: &ActivityId) -> Activity {
        let draft = serde_json::from_value(serde_json::json!({
            "name": "n", "starts_at": "2026-11-29T20:00:00Z", "ends_at": "2026-11-29T21:00:00Z", "time_zone": "UTC",
            "strategy": "cas", "buckets": 1, "limit": {"scope": "activity", "max": 1}, "on_cancel": "release",
            "payment_minutes": 15, "currency": "EUR", "skus": [{"sku": "a", "stock": 1, "price": 1}]
        }));
        Activity::create(id.clone(), draft.unwrap()).unwrap()
    }

    fn id(text: &str) -> ActivityId {
        ActivityId::parse(text).unwrap()
    }

    #[tokio::test]
    async fn many_requests_ask_once_and_an_entry_lives_for_its_lifetime() {
        let store = Arc::new(Counting::default());
        let mut cache = ActivityCache::new(Arc::clone(&store));
        let sale = id("sale");
        let all = futures_util::future::join_all((0..50).map(|_| cache.get(&sale))).await;
        assert!(all.into_iter().all(|found| found.unwrap().is_some()));
        assert_eq!(store.reads.load(Ordering::SeqCst), 1);
        assert!(cache.get(&id("none")).await.unwrap().is_none());
        assert!(cache.get(&id("none")).await.unwrap().is_none());
        assert_eq!(store.reads.load(Ordering::SeqCst), 2, "absence is remembered too");
        cache.lifetime = Duration::ZERO;
        cache.get(&sale).await.unwrap();
        assert_eq!(store.reads.load(Ordering::SeqCst), 3);
        cache.lifetime = LIFETIME;
        cache.reload(&sale).await.unwrap();
        assert_eq!(store.reads.load(Ordering::SeqCst), 4);
    }

    #[tokio::test]
    async fn a_silent_database_is_bridged_for_a_while_but_never_on_reload() {
        let store = Arc::new(Counting::default());
        let mut cache = ActivityCache::new(Arc::clone(&store));
        cache.get(&id("sale")).await.unwrap();
        store.broken.store(true, Ordering::SeqCst);
        cache.lifetime = Duration::from_nanos(1);
        assert!(cache.get(&id("sale")).await.unwrap().is_some());
        assert!(cache.reload(&id("sale")).await.is_err());
        cache.stale_lifetime = Duration::ZERO;
        assert!(cache.get(&id("sale")).await.is_err());
    }

    #[tokio::test]
    async fn the_number_of_entries_is_bounded() {
        let cache = ActivityCache::new(Arc::new(Counting::default()));
        for n in 0..CAPACITY * 2 + 10 {
            cache.get(&id(&format!("x{n}"))).await.unwrap();
        }
        assert!(cache.slots.lock().unwrap().len() <= CAPACITY);
    }
}
