//! What the last reconciliations of an activity found and did, for operators and auditors.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    app::reconcile::{JobState, Pass, PassEnded},
    domain::{
        ids::{ActivityId, Bucket},
        repair::Finding,
    },
    ports::{ActivityStore, Clock, Counted, Fault, FindingRow, FindingStore, ProgressStore},
};

/// Most findings that are shown; there may be more.
pub const SHOWN_MAX: usize = 500;
/// Most pages of the store that are read for it.
const PAGES_MAX: usize = 5;

pub struct Findings<D, C> {
    pub store: D,
    pub clock: C,
}

/// Passes and findings of one activity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// The pass that is under way, or whose time ended.
    pub pass: Option<Pass>,
    pub last_full: Option<PassEnded>,
    pub last_incremental: Option<PassEnded>,
    /// Of the findings that were read, also those without a row.
    pub counts: Vec<BucketCount>,
    /// The latest ones first.
    pub rows: Vec<FindingRow>,
    /// Whether there are more than these, of the last seven days.
    pub truncated: bool,
}

/// How much of one kind was found in one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BucketCount {
    pub bucket: Bucket,
    pub kind: Finding,
    #[serde(flatten)]
    pub counted: Counted,
}

impl<D, C> Findings<D, C>
where
    D: ActivityStore + ProgressStore + FindingStore,
    C: Clock,
{
    /// `None` when there is no such activity.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn read(&self, activity: &ActivityId) -> Result<Option<Reconciliation>, Fault> {
        if self.store.activity(activity).await?.is_none() {
            return Ok(None);
        }
        let JobState { pass, last_full, last_incremental, .. } =
            JobState::read(self.store.progress(&JobState::job(activity)).await?.as_ref());
        let mut answer = Reconciliation { pass, last_full, last_incremental, ..Reconciliation::default() };
        let (mut counts, mut after) = (BTreeMap::<(Bucket, Finding), Counted>::new(), None);
        for _ in 0..PAGES_MAX {
            let (pages, next) = self.store.findings(activity, self.clock.now(), after.as_ref()).await?;
            for page in pages {
                for (kind, counted) in page.counts {
                    let sum = counts.entry((page.bucket, kind)).or_default();
                    sum.count += counted.count;
                    sum.repaired += counted.repaired;
                }
                answer.rows.extend(page.rows);
            }
            after = next;
            if after.is_none() || answer.rows.len() >= SHOWN_MAX {
                break;
            }
        }
        let found: u64 = counts.values().map(|counted| counted.count).sum();
        answer.truncated = after.is_some() || found > u64::try_from(SHOWN_MAX.min(answer.rows.len())).unwrap_or(0);
        answer.rows.truncate(SHOWN_MAX);
        answer.counts =
            counts.into_iter().map(|((bucket, kind), counted)| BucketCount { bucket, kind, counted }).collect();
        Ok(Some(answer))
    }
}
