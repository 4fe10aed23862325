//! An activity: one flash sale with its window, SKUs, strategy, buckets and policies.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{
    Invalid,
    admission_ratio::AdmissionRatio,
    ids::{ActivityId, BucketCount, Sku},
    json,
    limit::Limit,
    money::{Currency, Money, STOCK_MAX},
    stock::{Allotment, StockItem},
    time::{UnixMillis, Zone},
};

/// Most SKUs of one activity.
pub const SKUS_MAX: usize = 100;
/// Longest activity name, in characters.
pub const NAME_MAX_CHARS: usize = 200;
/// Longest window, in days: no key or queue has to live longer.
pub const WINDOW_MAX_DAYS: i64 = 92;
/// Longest time to pay, in minutes (seven days).
pub const PAYMENT_MAX_MINUTES: u32 = 10_080;
/// Highest admission rate of one bucket, in orders a second: a database item takes 1,000 write units
/// a second and a transaction costs two.
pub const BUCKET_RATE_MAX: u32 = 500;
const DAY_MS: i64 = 86_400_000;

/// How an order reaches the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// One Redis script, then one database transaction.
    Prededuct,
    /// The database transaction alone.
    Cas,
    /// A distributed lock around the transaction. Not built yet.
    Lock,
    /// One Redis script, then batched persistence from a queue. Not built yet.
    Queued,
}

impl Strategy {
    /// Whether this version can run it.
    #[must_use]
    pub const fn is_built(self) -> bool {
        matches!(self, Self::Prededuct | Self::Cas)
    }

    /// Whether Redis is the gate in front of the database.
    #[must_use]
    pub const fn uses_gate(self) -> bool {
        matches!(self, Self::Prededuct | Self::Queued)
    }
}

/// What happens to a buyer's quota when a committed order is cancelled or expires. An aborted order
/// always gives it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuotaPolicy {
    Release,
    Keep,
}

/// When orders are taken: from `starts_at`, until before `ends_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    pub starts_at: UnixMillis,
    pub ends_at: UnixMillis,
}

/// One SKU on sale.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    pub sku: Sku,
    /// Units put on sale when the activity opens. Afterwards stock changes by adjusting only.
    pub stock: u64,
    /// Price of one unit.
    pub price: Money,
    /// Units under which the shop wants to be told.
    #[serde(default)]
    pub safety_stock: u64,
}

/// What an operator sends to create or change an activity.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ActivityDraft {
    pub name: String,
    pub starts_at: UnixMillis,
    pub ends_at: UnixMillis,
    pub time_zone: Zone,
    #[serde(deserialize_with = "json::word")]
    pub strategy: Strategy,
    pub buckets: BucketCount,
    #[serde(default = "default_bucket_rate")]
    pub bucket_rate: u32,
    #[serde(deserialize_with = "json::object")]
    pub limit: Limit,
    #[serde(deserialize_with = "json::word")]
    pub on_cancel: QuotaPolicy,
    pub payment_minutes: u32,
    #[serde(default = "default_admission_ratio")]
    pub admission_ratio: f64,
    pub currency: Currency,
    #[serde(deserialize_with = "json::objects")]
    pub skus: Vec<Offer>,
}

const fn default_bucket_rate() -> u32 {
    80
}

const fn default_admission_ratio() -> f64 {
    1.0
}

/// A flash sale as it is stored and cached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activity {
    pub id: ActivityId,
    /// Raised by one with every change. Redis holds the version it was told, so a stale cache shows.
    pub version: u64,
    /// Whether preheating has begun. From then on little may change.
    pub opened: bool,
    /// Whether preheating was completed once: orders are taken inside the window.
    #[serde(default)]
    pub ready: bool,
    pub name: String,
    pub window: Window,
    pub zone: Zone,
    pub strategy: Strategy,
    pub buckets: BucketCount,
    /// Most orders that the script admits into one bucket in one second.
    pub bucket_rate: u32,
    pub limit: Limit,
    pub on_cancel: QuotaPolicy,
    pub payment_minutes: u32,
    #[serde(default)]
    pub admission_ratio: AdmissionRatio,
    pub currency: Currency,
    pub skus: Vec<Offer>,
}

/// Why a change of an activity is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeRefused {
    /// This field is fixed once the stock is on sale.
    Running(&'static str),
}

impl Activity {
    /// The first version of an activity.
    ///
    /// # Errors
    /// The first rule that the draft breaks.
    pub fn create(id: ActivityId, draft: ActivityDraft) -> Result<Self, Invalid> {
        check(&draft)?;
        Ok(Self {
            id,
            version: 1,
            opened: false,
            ready: false,
            name: draft.name,
            window: Window { starts_at: draft.starts_at, ends_at: draft.ends_at },
            zone: draft.time_zone,
            strategy: draft.strategy,
            buckets: draft.buckets,
            bucket_rate: draft.bucket_rate,
            limit: draft.limit,
            on_cancel: draft.on_cancel,
            payment_minutes: draft.payment_minutes,
            admission_ratio: AdmissionRatio::parse(draft.admission_ratio)?,
            currency: draft.currency,
            skus: draft.skus,
        })
    }

    /// The next version, with the draft's values. Once opened only `name`, `safety_stock`, the
    /// limit's `max`, `bucket_rate` and a later `ends_at` may change: the number of buckets decides a
    /// buyer's home, and orders already carry prices, zone and policy.
    ///
    /// # Errors
    /// The rule that the draft breaks, or the fixed field that it would change.
    pub fn change(&self, draft: ActivityDraft) -> Result<Result<Self, ChangeRefused>, Invalid> {
        let next = Self {
            version: self.version + 1,
            opened: self.opened,
            ready: self.ready,
            ..Self::create(self.id.clone(), draft)?
        };
        Ok(match self.opened.then(|| self.fixed_field_changed(&next)).flatten() {
            Some(field) => Err(ChangeRefused::Running(field)),
            None => Ok(next),
        })
    }

    fn fixed_field_changed(&self, next: &Self) -> Option<&'static str> {
        let fixed = |offers: &[Offer]| -> Vec<Offer> {
            offers.iter().map(|offer| Offer { safety_stock: 0, ..offer.clone() }).collect()
        };
        [
            ("starts_at", self.window.starts_at == next.window.starts_at),
            ("ends_at", self.window.ends_at <= next.window.ends_at),
            ("time_zone", self.zone == next.zone),
            ("strategy", self.strategy == next.strategy),
            ("buckets", self.buckets == next.buckets),
            ("limit.scope", self.limit.scope == next.limit.scope),
            ("on_cancel", self.on_cancel == next.on_cancel),
            ("payment_minutes", self.payment_minutes == next.payment_minutes),
            ("admission_ratio", self.admission_ratio == next.admission_ratio),
            ("currency", self.currency == next.currency),
            ("skus", fixed(&self.skus) == fixed(&next.skus)),
        ]
        .into_iter()
        .find_map(|(field, same)| (!same).then_some(field))
    }

    /// What is sold of this SKU, if it is sold here.
    #[must_use]
    pub fn offer(&self, sku: &Sku) -> Option<&Offer> {
        self.skus.iter().find(|offer| offer.sku == *sku)
    }

    /// What Redis is told of a stock item: units that it may admit, which may be more than are on sale.
    #[must_use]
    pub fn allotment(&self, item: &StockItem) -> Allotment {
        let StockItem { sku, allotted, version, on_sale, .. } = item;
        Allotment {
            sku: sku.clone(),
            allotted: self.admission_ratio.admits(*allotted),
            version: *version,
            on_sale: *on_sale,
        }
    }

    /// When the last order that can be taken has to be paid.
    #[must_use]
    pub fn last_deadline(&self) -> UnixMillis {
        self.window.ends_at.plus_ms(i64::from(self.payment_minutes) * 60_000)
    }

    /// Until when orders may expire: a day past the last deadline, for runs that were late.
    #[must_use]
    pub fn expiry_ends_at(&self) -> UnixMillis {
        self.last_deadline().plus_ms(DAY_MS)
    }

    /// Until when stock keys must live: a day past the end, for late retries and repairs.
    #[must_use]
    pub fn stock_keys_expire_at(&self) -> UnixMillis {
        self.window.ends_at.plus_ms(DAY_MS)
    }

    /// Until when records and marks must live: at least twice as long as the stock keys do from
    /// `now` on, so that no restock or replay can outlive the mark that makes it single.
    #[must_use]
    pub fn marks_expire_at(&self, now: UnixMillis) -> UnixMillis {
        let stock = self.stock_keys_expire_at();
        stock.plus_ms(stock.since_ms(now).max(DAY_MS))
    }
}

fn check(draft: &ActivityDraft) -> Result<(), Invalid> {
    let fail = |field, rule: &str| Err(Invalid::new(field, rule));
    draft.limit.checked()?;
    let name_chars = draft.name.chars().count();
    if name_chars == 0 || name_chars > NAME_MAX_CHARS || draft.name.chars().any(char::is_control) {
        return fail("name", "must be 1 to 200 characters without control characters");
    }
    let length_ms = draft.ends_at.since_ms(draft.starts_at);
    if length_ms <= 0 || length_ms > WINDOW_MAX_DAYS * DAY_MS {
        return fail("ends_at", "must be after starts_at, by 92 days at most");
    }
    if !draft.strategy.is_built() {
        return fail("strategy", "must be prededuct or cas: lock and queued are not built yet");
    }
    if !(1..=BUCKET_RATE_MAX).contains(&draft.bucket_rate) {
        return fail("bucket_rate", "must be 1 to 500 orders a second");
    }
    if !(1..=PAYMENT_MAX_MINUTES).contains(&draft.payment_minutes) {
        return fail("payment_minutes", "must be 1 to 10080");
    }
    let ratio = AdmissionRatio::parse(draft.admission_ratio)?;
    if !ratio.is_exact() && !draft.strategy.uses_gate() {
        return fail("admission_ratio", "must be 1 where Redis does not admit");
    }
    if !(1..=SKUS_MAX).contains(&draft.skus.len()) {
        return fail("skus", "must be 1 to 100");
    }
    let mut seen = BTreeSet::new();
    for offer in &draft.skus {
        Money::price(offer.price.minor())?;
        if offer.stock > STOCK_MAX || offer.safety_stock > STOCK_MAX {
            return fail("stock", "must be 0 to 1000000000");
        }
        if !seen.insert(&offer.sku) {
            return fail("skus", "must not name a SKU twice");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Edit = fn(&mut ActivityDraft);

    fn draft() -> ActivityDraft {
        serde_json::from_value(serde_json::json!({
            "name": "Phones", "starts_at": "2026-11-29T20:00:00Z", "ends_at": "2026-11-29T21:00:00Z",
            "time_zone": "Europe/Berlin", "strategy": "prededuct", "buckets": 8,
            "limit": {"scope": "activity", "max": 1}, "on_cancel": "release", "payment_minutes": 15,
            "currency": "EUR", "skus": [{"sku": "phone", "stock": 100, "price": 49_900}]
        }))
        .unwrap()
    }

    fn edited(edit: Edit) -> ActivityDraft {
        let mut draft = draft();
        edit(&mut draft);
        draft
    }

    fn activity() -> Activity {
        Activity::create(ActivityId::parse("sale").unwrap(), draft()).unwrap()
    }

    #[test]
    fn a_draft_that_breaks_a_rule_names_its_field() {
        let cases: [(&str, Edit); 12] = [
            ("name", |d| d.name.clear()),
            ("ends_at", |d| d.ends_at = d.starts_at),
            ("ends_at", |d| d.ends_at = d.starts_at.plus_ms(93 * DAY_MS)),
            ("strategy", |d| d.strategy = Strategy::Queued),
            ("strategy", |d| d.strategy = Strategy::Lock),
            ("bucket_rate", |d| d.bucket_rate = 0),
            ("payment_minutes", |d| d.payment_minutes = 0),
            ("admission_ratio", |d| d.admission_ratio = 1.101),
            ("admission_ratio", |d| (d.admission_ratio, d.strategy) = (1.1, Strategy::Cas)),
            ("skus", |d| d.skus.clear()),
            ("skus", |d| d.skus.push(d.skus[0].clone())),
            ("limit.max", |d| d.limit.max = 0),
        ];
        for (field, edit) in cases {
            let refused = Activity::create(ActivityId::parse("sale").unwrap(), edited(edit)).unwrap_err();
            assert_eq!(refused.field, field);
        }
    }

    #[test]
    fn f26_once_opened_only_the_harmless_fields_change() {
        let opened = Activity { opened: true, ..activity() };
        let harmless: [Edit; 5] = [
            |d| d.name = "Phones!".to_owned(),
            |d| d.bucket_rate = 90,
            |d| d.limit.max = 3,
            |d| d.ends_at = d.ends_at.plus_ms(1),
            |d| d.skus[0].safety_stock = 5,
        ];
        for edit in harmless {
            let next = opened.change(edited(edit)).unwrap().unwrap();
            assert_eq!((next.version, next.opened), (2, true));
        }
        let fixed: [(&str, Edit); 7] = [
            ("admission_ratio", |d| d.admission_ratio = 1.05),
            ("starts_at", |d| d.starts_at = d.starts_at.plus_ms(1)),
            ("ends_at", |d| d.ends_at = d.ends_at.plus_ms(-1)),
            ("buckets", |d| d.buckets = BucketCount::new(4).unwrap()),
            ("strategy", |d| d.strategy = Strategy::Cas),
            ("skus", |d| d.skus[0].stock += 1),
            ("skus", |d| d.skus[0].price = Money::from_minor(1)),
        ];
        for (field, edit) in fixed {
            assert_eq!(opened.change(edited(edit)).unwrap(), Err(ChangeRefused::Running(field)));
            assert!(activity().change(edited(edit)).unwrap().is_ok(), "{field} may change before opening");
        }
    }

    #[test]
    fn marks_outlive_stock_keys_twofold() {
        let (activity, now) = (activity(), UnixMillis::parse("t", "2026-11-29T12:00:00Z").unwrap());
        let stock_life = activity.stock_keys_expire_at().since_ms(now);
        assert!(activity.marks_expire_at(now).since_ms(now) >= 2 * stock_life);
    }
}
