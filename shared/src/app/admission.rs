//! Admission at a bounded rate: past Redis while it is gone, and while the rollback queue is too long.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::{Instant, timeout};

use crate::{
    domain::{
        rate::{Share, SharedRate},
        time::UnixMillis,
        token::TOKEN_LIFE_MS,
    },
    ports::{Admission, AdmissionStore, Bypass},
};

/// How long the state of admission is used without asking again; as long as an activity's.
pub const LIFETIME: Duration = super::activity_cache::LIFETIME;
/// How long asking may hold up an order. Without an answer the last one serves on.
const READ_MAX: Duration = Duration::from_millis(500);
/// A process notes at most this often that it places past Redis.
const NOTE_EVERY_MS: i64 = 60_000;
/// Until when a token may expire whose order is placed past Redis under one note: it was issued before
/// the note is renewed, at the latest, by clocks that differ by a minute.
const BYPASS_MS: i64 = NOTE_EVERY_MS + TOKEN_LIFE_MS + 60_000;
/// How long after the first note another process may not have read it: what it knew serves for a
/// lifetime, and for as long as reading it anew may take.
const UNAWARE: Duration = LIFETIME.saturating_add(READ_MAX);

/// One process's part in it. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct AdmissionControl<S> {
    store: S,
    shared: Arc<Shared>,
}

struct Shared {
    /// Orders past Redis.
    past: Mutex<Share>,
    /// New submissions while admission is limited. Of its own, so that an order that needs both does not
    /// take two places of one share, which may hold no more than one.
    limited: Mutex<Share>,
    known: Mutex<Known>,
    /// Held while noting: an order past Redis waits for the note that tells others of it.
    noted_at: tokio::sync::Mutex<Option<UnixMillis>>,
}

#[derive(Default)]
struct Known {
    admission: Admission,
    asked_at: Option<Instant>,
}

impl<S: AdmissionStore> AdmissionControl<S> {
    pub fn new(store: S, rate: SharedRate) -> Self {
        let share = || Mutex::new(Share::new(rate));
        let (past, limited) = (share(), share());
        Self {
            store,
            shared: Arc::new(Shared {
                past,
                limited,
                known: Mutex::default(),
                noted_at: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// How admission stands, at most [`LIFETIME`] old while the database answers.
    pub async fn state(&self) -> Admission {
        let now = Instant::now();
        {
            let mut known = self.known();
            if known.asked_at.is_some_and(|at| now.duration_since(at) < LIFETIME) {
                return known.admission.clone();
            }
            // Others go on with what is known meanwhile.
            known.asked_at = Some(now);
        }
        match timeout(READ_MAX, self.store.admission()).await {
            Ok(Ok(admission)) => self.known().admission = admission,
            Ok(Err(fault)) => tracing::warn!(fault = fault.chain(), "admission_not_read"),
            Err(_) => tracing::warn!("admission_not_read"),
        }
        self.known().admission.clone()
    }

    /// Whether one more order may go past Redis, by the bounded rate.
    pub fn may_pass(&self, now: UnixMillis) -> bool {
        take(&self.shared.past, now)
    }

    /// Whether one more new submission may be admitted while admission is limited.
    pub fn may_submit(&self, now: UnixMillis) -> bool {
        take(&self.shared.limited, now)
    }

    /// Tells all processes that from now on the database may have orders that Redis does not know of, and
    /// waits until they can have read it: a repeat must not reach one that would take Redis's word.
    /// If telling fails, the order goes on: what is at stake is what a repeat of it is told.
    pub async fn note_bypass(&self, now: UnixMillis) {
        let mut noted_at = self.shared.noted_at.lock().await;
        if noted_at.is_some_and(|at| (0..NOTE_EVERY_MS).contains(&now.since_ms(at))) {
            return;
        }
        let until = now.plus_ms(BYPASS_MS);
        self.known().admission.bypassed_until = Some(until);
        match self.store.note_bypass(Bypass { at: now, covers: now.plus_ms(TOKEN_LIFE_MS), until }).await {
            Ok(since) => {
                *noted_at = Some(now);
                let known_for = Duration::from_millis(u64::try_from(now.since_ms(since)).unwrap_or(0));
                tokio::time::sleep(UNAWARE.saturating_sub(known_for)).await;
            }
            Err(fault) => tracing::warn!(fault = fault.chain(), "bypass_not_noted"),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn take(share: &Mutex<Share>, now: UnixMillis) -> bool {
    share.lock().unwrap_or_else(PoisonError::into_inner).take(now, fastrand::f64())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::ports::{Fault, Limiting};

    /// Counts reads and writes; fails on demand, as no server does.
    #[derive(Default)]
    struct Counting {
        reads: AtomicUsize,
        writes: AtomicUsize,
        broken: AtomicBool,
    }

    impl Counting {
        fn answer(&self, calls: &AtomicUsize) -> Result<(), Fault> {
            calls.fetch_add(1, Ordering::SeqCst);
            if self.broken.load(Ordering::SeqCst) { Err(Fault::not_applied("admission", "broken")) } else { Ok(()) }
        }
    }

    impl AdmissionStore for Arc<Counting> {
        async fn admission(&self) -> Result<Admission, Fault> {
            tokio::task::yield_now().await;
            self.answer(&self.reads)?;
            Ok(Admission { limited_until: Some(UnixMillis::new(5)), ..Admission::default() })
        }

        async fn note_bypass(&self, bypass: Bypass) -> Result<UnixMillis, Fault> {
            self.answer(&self.writes).map(|()| bypass.at.plus_ms(-10_000))
        }

        async fn limit_admission(&self, _: &Limiting) -> Result<(), Fault> {
            Ok(())
        }
    }

    fn control() -> (Arc<Counting>, AdmissionControl<Arc<Counting>>) {
        let store = Arc::new(Counting::default());
        (Arc::clone(&store), AdmissionControl::new(store, SharedRate { per_second: 1, processes: 1 }))
    }

    #[tokio::test]
    async fn many_orders_ask_once_and_a_failure_is_not_theirs() {
        let (store, control) = control();
        store.broken.store(true, Ordering::SeqCst);
        let all = futures_util::future::join_all((0..50).map(|_| control.state())).await;
        assert!(all.iter().all(|state| *state == Admission::default()));
        assert_eq!(store.reads.load(Ordering::SeqCst), 1, "nor do they ask again at once");
        let (store, control) = self::control();
        assert!(control.state().await.is_limited(UnixMillis::new(4)));
        store.broken.store(true, Ordering::SeqCst);
        control.known().asked_at = None;
        assert!(control.state().await.is_limited(UnixMillis::new(4)), "the last answer serves on");
        assert!(!control.state().await.is_limited(UnixMillis::new(5)), "and runs out by itself");
    }

    #[tokio::test]
    async fn a_bypass_is_known_at_once_and_noted_once_a_minute() {
        let (store, control) = control();
        let now = UnixMillis::new(1_000_000);
        store.broken.store(true, Ordering::SeqCst);
        control.note_bypass(now).await;
        assert!(control.known().admission.may_have_passed(now.plus_ms(TOKEN_LIFE_MS)));
        store.broken.store(false, Ordering::SeqCst);
        for after_ms in [0, 1, 59_999, 60_000, 60_001] {
            control.note_bypass(now.plus_ms(after_ms)).await;
        }
        // One failed, one done, one renewed.
        assert_eq!(store.writes.load(Ordering::SeqCst), 3);
    }
}
