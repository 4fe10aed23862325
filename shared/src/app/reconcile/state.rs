//! What one run leaves to the next, kept as text with the job's progress.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    domain::{
        activity::Activity,
        ids::{ActivityId, Bucket, Sku},
        stock::StockItem,
        time::UnixMillis,
    },
    ports::Cursor,
};

/// Every order is compared at least so often, in milliseconds; in between, what changed.
pub const FULL_EVERY_MS: i64 = 3_600_000;
/// How far behind the start of the last pass changes are looked at again, in milliseconds: what a replica
/// may lack that takes over (Redis gives one up after 60 s without word), and as much again until it does.
pub const OVERLAP_MS: i64 = 120_000;
/// Longest state that is kept, in bytes: an item has 400 KB. A pass over more drops its tally.
const STATE_MAX_BYTES: usize = 300_000;

/// What a pass looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassKind {
    /// Every order and record.
    Full,
    /// What changed since the last complete pass, and all of a bucket where that cannot be told.
    Incremental,
}

/// A pass that came to its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassEnded {
    pub started_at: UnixMillis,
    pub ended_at: UnixMillis,
    pub compared: u64,
    pub found: u64,
    pub repaired: u64,
}

/// A pass under way, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    pub kind: PassKind,
    pub started_at: UnixMillis,
    /// The bucket that is next, or under way.
    pub bucket: u16,
    /// That bucket's own full pass, when one is under way.
    pub full: Option<BucketFull>,
    /// Of a full pass only. `None` once it could not be kept: then the database's sums are not judged.
    pub tally: Option<Tally>,
    pub compared: u64,
    pub found: u64,
    pub repaired: u64,
    /// Buckets that could not be compared wholly.
    pub faults: u32,
}

impl Pass {
    pub(super) const fn new(kind: PassKind, started_at: UnixMillis, tally: Option<Tally>) -> Self {
        Self { kind, started_at, bucket: 0, full: None, tally, compared: 0, found: 0, repaired: 0, faults: 0 }
    }

    pub(super) const fn ended(&self, ended_at: UnixMillis) -> PassEnded {
        let Self { started_at, compared, found, repaired, .. } = *self;
        PassEnded { started_at, ended_at, compared, found, repaired }
    }
}

/// A full pass over one bucket: how it stood before the listing, and how far the listing is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketFull {
    pub node: String,
    pub entry: String,
    /// The version of each stock item.
    pub versions: BTreeMap<Sku, u64>,
    /// When the oldest deduction was written whose order may still be on its way.
    pub in_flight_since: Option<UnixMillis>,
    /// Something differs and only a person can help: counters are not judged by it.
    pub open: bool,
    pub stage: Stage,
}

/// How far a bucket's listing is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The database's orders by home, from here on.
    Orders(Option<String>),
    /// The records and marks of Redis, from here on.
    Records(u64),
    Sums,
}

/// Units of live orders per stock item, and the item's version before the listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally(pub Vec<Tallied>);

/// One stock item's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tallied {
    pub sku: Sku,
    pub bucket: Bucket,
    pub version: u64,
    pub units: u64,
}

impl Tally {
    pub(super) fn new(stock: &[StockItem]) -> Self {
        let mut items: Vec<Tallied> = stock
            .iter()
            .map(|item| Tallied { sku: item.sku.clone(), bucket: item.bucket, version: item.version, units: 0 })
            .collect();
        items.sort_by(|one, other| (&one.sku, one.bucket).cmp(&(&other.sku, other.bucket)));
        Self(items)
    }

    pub(super) fn add(&mut self, sku: &Sku, bucket: Bucket, units: u32) {
        if let Ok(at) = self.0.binary_search_by(|item| (&item.sku, item.bucket).cmp(&(sku, bucket))) {
            self.0[at].units += u64::from(units);
        }
    }
}

/// What is known of one activity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobState {
    pub pass: Option<Pass>,
    pub last_full: Option<PassEnded>,
    pub last_incremental: Option<PassEnded>,
    /// Something shows that changes alone do not tell everything.
    pub full_due: bool,
}

impl JobState {
    /// The job of an activity.
    #[must_use]
    pub fn job(activity: &ActivityId) -> String {
        format!("reconcile#{activity}")
    }

    /// Nothing is known of what cannot be read: then everything is compared.
    #[must_use]
    pub fn read(cursor: Option<&Cursor>) -> Self {
        read(cursor).unwrap_or_default()
    }

    /// As text. What grew too long gives up its tally first, then its place.
    pub(super) fn text(&self) -> Option<Cursor> {
        let mut state = self.clone();
        loop {
            let text = serde_json::to_string(&state).ok()?;
            if text.len() <= STATE_MAX_BYTES {
                return Some(Cursor(text));
            }
            match &mut state.pass {
                Some(pass) if pass.tally.is_some() => pass.tally = None,
                Some(_) => state.pass = None,
                None => return None,
            }
        }
    }

    /// By clock, also by one that was set back.
    pub(super) fn is_full_due(&self, now: UnixMillis) -> bool {
        let age = self.last_full.as_ref().map(|last| now.since_ms(last.started_at));
        self.full_due || age.is_none_or(|age| !(0..FULL_EVERY_MS).contains(&age))
    }
}

/// What was compared of one bucket, so that the next pass begins there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketSeen {
    /// The Redis server; on another one everything is compared anew.
    pub node: String,
    /// The ledger's last entry before which all is settled.
    pub entry: String,
    pub skus: BTreeMap<Sku, SkuSeen>,
}

/// Versions of one stock item up to which was seen…
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkuSeen {
    /// …what each change's order has in Redis.
    pub orders: u64,
    /// …that every change has its audit row.
    pub rows: u64,
}

impl BucketSeen {
    pub(super) fn job(activity: &Activity, bucket: Bucket) -> String {
        format!("reconcile#{}#{bucket}", activity.id)
    }

    pub(super) fn read(cursor: Option<&Cursor>) -> Option<Self> {
        read(cursor)
    }

    pub(super) fn text(&self) -> Option<Cursor> {
        serde_json::to_string(self).ok().map(Cursor)
    }
}

fn read<T: DeserializeOwned>(cursor: Option<&Cursor>) -> Option<T> {
    let Cursor(text) = cursor?;
    serde_json::from_str(text).inspect_err(|error| tracing::warn!(%error, "reconcile_state_unreadable")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> UnixMillis {
        UnixMillis::new(ms)
    }

    #[test]
    fn a_full_pass_is_due_by_the_hour_and_whatever_the_clock_does() {
        let ended = |started_at| PassEnded { started_at, ended_at: started_at, compared: 0, found: 0, repaired: 0 };
        let state = JobState { last_full: Some(ended(at(10 * FULL_EVERY_MS))), ..JobState::default() };
        assert!(JobState::default().is_full_due(at(0)));
        assert!(!state.is_full_due(at(11 * FULL_EVERY_MS - 1)));
        assert!(state.is_full_due(at(11 * FULL_EVERY_MS)));
        assert!(state.is_full_due(at(9 * FULL_EVERY_MS)), "the clock was set back");
        assert!(JobState { full_due: true, ..state }.is_full_due(at(10 * FULL_EVERY_MS + 1)));
    }

    #[test]
    fn a_state_that_is_too_long_gives_up_its_tally_and_keeps_its_place() {
        let sku = |n: usize| Sku::parse(&format!("{n:064}")).unwrap();
        let items = |count| {
            Tally(
                (0..count)
                    .map(|n| Tallied { sku: sku(n), bucket: Bucket::new(1).unwrap(), version: 1, units: 2 })
                    .collect(),
            )
        };
        let state = |count| JobState {
            pass: Some(Pass { bucket: 7, ..Pass::new(PassKind::Full, at(1), Some(items(count))) }),
            ..JobState::default()
        };
        assert_eq!(JobState::read(state(100).text().as_ref()), state(100));
        let kept = state(6_400).text().unwrap();
        assert!(kept.0.len() <= STATE_MAX_BYTES);
        let pass = JobState::read(Some(&kept)).pass.unwrap();
        assert_eq!((pass.bucket, pass.tally), (7, None));
        assert_eq!(JobState::read(Some(&Cursor("garbage".to_owned()))), JobState::default());
    }

    #[test]
    fn a_tally_counts_only_the_items_that_it_was_made_of() {
        let (sku, bucket) = (Sku::parse("a").unwrap(), Bucket::new(3).unwrap());
        let mut tally = Tally(vec![Tallied { sku: sku.clone(), bucket, version: 1, units: 0 }]);
        tally.add(&sku, bucket, 2);
        tally.add(&sku, Bucket::new(2).unwrap(), 5);
        tally.add(&sku, bucket, 3);
        assert_eq!(tally.0[0].units, 5);
    }
}
