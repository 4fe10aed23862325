//! What buyers saw, and what reconciliation repaired, counted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;
use serde_json::Value;

use crate::sale::client::{NoReply, Reply};

/// How a call that was never answered is counted.
pub const NO_REPLY: &str = "no reply";

/// Counts by a name. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<BTreeMap<String, u64>>>);

impl Tally {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn add(&self, name: &str) {
        *self.lock().entry(name.to_owned()).or_default() += 1;
    }

    /// The sum of all names that begin so.
    #[must_use]
    pub fn count(&self, prefix: &str) -> u64 {
        self.lock().iter().filter(|(name, _)| name.starts_with(prefix)).map(|(_, count)| count).sum()
    }

    #[must_use]
    pub fn all(&self) -> BTreeMap<String, u64> {
        self.lock().clone()
    }
}

/// `201`, `409 sold_out`, or [`NO_REPLY`].
#[must_use]
pub fn name_of(reply: &Result<Reply, NoReply>) -> String {
    match reply {
        Ok(reply) if reply.code().is_empty() => reply.status.to_string(),
        Ok(reply) => format!("{} {}", reply.status, reply.code()),
        Err(NoReply) => NO_REPLY.to_owned(),
    }
}

/// One kind of finding over all reconciliations of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repaired {
    pub found: u64,
    pub repaired: u64,
}

/// What the reconciliations reported. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Repairs(Arc<Mutex<BTreeMap<String, Repaired>>>, Arc<AtomicU64>);

impl Repairs {
    /// Adds a run's report.
    pub fn add(&self, report: &Value) {
        self.1.fetch_add(report["faults"].as_u64().unwrap_or(0), Ordering::Relaxed);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (finding, found) in report["findings"].as_object().into_iter().flatten() {
            let sum = all.entry(finding.clone()).or_default();
            sum.found += found["count"].as_u64().unwrap_or(0);
            sum.repaired += found["repaired"].as_u64().unwrap_or(0);
        }
    }

    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.1.store(0, Ordering::Relaxed);
    }

    #[must_use]
    pub fn all(&self) -> BTreeMap<String, Repaired> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What runs could not read or reach.
    #[must_use]
    pub fn faults(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }

    /// How many of this kind were repaired.
    #[must_use]
    pub fn of(&self, finding: &str) -> u64 {
        self.all().get(finding).map_or(0, |repaired| repaired.repaired)
    }
}
