//! The product's own decisions, asked with the model's small values. Each question is asked of the
//! product once per thread and remembered: there are few different ones.

use std::{cell::RefCell, collections::HashMap, sync::LazyLock};

use holdfast::domain::{
    activity::{Activity, ActivityDraft, QuotaPolicy},
    buckets::{BucketOffer, fill},
    cart::Cart,
    ids::{self, ActivityId, BuyerId},
    money::Quantity,
    order::{self, Placement, Status, Take},
    order_no::OrderNo,
    record::{self, Side},
    repair::{self, GRACE_MS, Sighting},
    token::TokenId,
};

use crate::reference::{Bucket, Part, Sku, Units, database::Stored, gate::Record, held_in};

/// What reconciliation does about one order in one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Repair {
    Restore(Take),
    Claim,
    Restock { take: Take, keep_mark: bool },
    Freeze,
}

/// What is known of one order in one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    pub bucket: Bucket,
    pub at_home: bool,
    pub record: Option<&'a Record>,
    pub marked: bool,
    pub order: Option<&'a Stored>,
    pub policy: QuotaPolicy,
    /// A planted mistake: what the record counts against is not looked at.
    pub any_day: bool,
}

type Held = Vec<(Sku, Units)>;
/// Whether a record counts against the same as its order does.
type SameCharges = bool;
type Question = (bool, bool, bool, Option<(Take, Side, Held, SameCharges)>, Option<(Status, Take, Held)>);
type FillQuestion = (Held, Vec<(Bucket, Held, bool)>, usize);

thread_local! {
    static DECIDED: RefCell<HashMap<Question, Option<Repair>>> = RefCell::default();
    static FILLED: RefCell<HashMap<FillQuestion, Option<Vec<Part>>>> = RefCell::default();
}

/// A submission to make orders and records of; what it says in detail decides nothing.
static TEMPLATE: LazyLock<Option<Placement>> = LazyLock::new(|| {
    let draft: ActivityDraft = serde_json::from_value(serde_json::json!({
        "name": "n", "starts_at": "2026-11-29T20:00:00Z", "ends_at": "2026-11-29T21:00:00Z", "time_zone": "UTC",
        "strategy": "prededuct", "buckets": 4, "limit": {"scope": "activity", "max": 5}, "on_cancel": "release",
        "payment_minutes": 15, "currency": "EUR", "skus": [{"sku": "s0", "stock": 9, "price": 1}]
    }))
    .ok()?;
    let activity = Activity::create(ActivityId::parse("a").ok()?, draft).ok()?;
    let buyer = BuyerId::parse("b").ok()?;
    let cart = Cart::new([(sku(Sku(0))?, Quantity::new(1).ok()?)]).ok()?;
    let order_no = OrderNo::derive(&activity.id, &buyer, &TokenId::from_bytes([1; 16]));
    let (lines, now) = (cart.priced(&activity).ok()?, activity.window.starts_at);
    Some(Placement::admit(&activity, order_no, buyer, &cart, lines, now))
});

fn sku(sku: Sku) -> Option<ids::Sku> {
    ids::Sku::parse(&format!("s{}", sku.0)).ok()
}

fn bucket(bucket: Bucket) -> Option<ids::Bucket> {
    ids::Bucket::new(u16::from(bucket.0)).ok()
}

fn units(held: &[(Sku, Units)]) -> Option<Vec<(ids::Sku, u32)>> {
    held.iter().map(|(of, units)| Some((sku(*of)?, u32::from(*units)))).collect()
}

/// `holdfast::domain::repair::decide`, past the grace.
#[must_use]
pub fn decide(sight: Sight<'_>) -> Option<Repair> {
    let record = sight.record.map(|record| {
        let held = record.held.iter().map(|(sku, units)| (sku, *units)).collect();
        let same = match (&record.placement, sight.order) {
            (Some(own), Some(Stored::Order(order))) if !sight.any_day => own.charges == order.placement.charges,
            _ => true,
        };
        (record.take, record.side, held, same)
    });
    let order = sight.order.map(|stored| match stored {
        Stored::Aborted(_) => (Status::Aborted, Take::FIRST, Held::new()),
        Stored::Order(order) => {
            let held = held_in(&order.parts, sight.bucket).iter().map(|(sku, units)| (sku, *units)).collect();
            (order.status, order.take, held)
        }
    });
    let question = (sight.at_home, sight.marked, sight.policy == QuotaPolicy::Keep, record, order);
    DECIDED.with_borrow_mut(|decided| {
        if let Some(known) = decided.get(&question) {
            return *known;
        }
        // A question that cannot be put is answered with what no model lets pass.
        let answer = ask(&question, sight.bucket).unwrap_or(Some(Repair::Freeze));
        decided.insert(question, answer);
        answer
    })
}

/// A value that the product's types do not take.
struct Unaskable;

fn ask(question: &Question, here: Bucket) -> Result<Option<Repair>, Unaskable> {
    let template = TEMPLATE.clone().ok_or(Unaskable)?;
    let here = bucket(here).ok_or(Unaskable)?;
    let (at_home, marked, keep, seen, stored) = question;
    let record = match seen {
        None => None,
        Some((take, side, held, same)) => {
            let (at, lines_hash) = (template.created_at, Some(template.lines_hash.clone()));
            let (take, side, held) = (*take, *side, units(held).ok_or(Unaskable)?);
            let mut placement = template.clone();
            if !same {
                placement.charges.iter_mut().for_each(|charge| charge.units += 1);
            }
            Some(record::Record { take, side, at, lines_hash, held, placement: Some(placement) })
        }
    };
    let order = match stored {
        None => None,
        Some((Status::Aborted, ..)) => {
            Some(order::Stored::Aborted(template.clone().into_tombstone(template.created_at)))
        }
        Some((status, take, held)) => {
            let held = units(held).ok_or(Unaskable)?;
            let parts = held.into_iter().map(|(sku, units)| order::Part { sku, bucket: here, units }).collect();
            let order = template.clone().into_order(parts);
            Some(order::Stored::Order(order::Order { status: *status, take: *take, ..order }))
        }
    };
    let decided = repair::decide(&Sighting {
        bucket: here,
        at_home: *at_home,
        record: record.as_ref(),
        marked: *marked,
        order: order.as_ref(),
        on_cancel: if *keep { QuotaPolicy::Keep } else { QuotaPolicy::Release },
        now: template.created_at.plus_ms(GRACE_MS + 1),
    });
    Ok(decided.map(|(_, repair)| match repair {
        repair::Repair::Restore { take, .. } => Repair::Restore(take),
        repair::Repair::Claim => Repair::Claim,
        repair::Repair::Restock { take, keep_mark } => Repair::Restock { take, keep_mark },
        repair::Repair::Freeze => Repair::Freeze,
    }))
}

/// What one bucket offers: units that the order may hold there per SKU, and whether it has a record.
#[derive(Clone, Debug)]
pub struct Offer {
    pub bucket: Bucket,
    pub available: Vec<(Sku, Units)>,
    pub has_record: bool,
}

/// `holdfast::domain::buckets::fill`.
#[must_use]
pub fn plan(missing: &[(Sku, Units)], offers: &[Offer], parts_max: usize) -> Option<Vec<Part>> {
    let offered = offers.iter().map(|offer| (offer.bucket, offer.available.clone(), offer.has_record)).collect();
    let question = (missing.to_vec(), offered, parts_max);
    FILLED.with_borrow_mut(|filled| {
        if let Some(known) = filled.get(&question) {
            return known.clone();
        }
        let answer = ask_fill(&question);
        filled.insert(question, answer.clone());
        answer
    })
}

fn ask_fill((missing, offers, parts_max): &FillQuestion) -> Option<Vec<Part>> {
    let offers: Option<Vec<BucketOffer>> = offers
        .iter()
        .map(|(of, available, has_record)| {
            let available = units(available)?.into_iter().map(|(sku, units)| (sku, u64::from(units))).collect();
            Some(BucketOffer { bucket: bucket(*of)?, available, has_record: *has_record })
        })
        .collect();
    let parts = fill(&units(missing)?, &offers?, *parts_max)?;
    parts
        .iter()
        .map(|part| {
            let sku = Sku(part.sku.as_str().strip_prefix('s')?.parse().ok()?);
            let bucket = Bucket(u8::try_from(part.bucket.get()).ok()?);
            Some(Part { sku, bucket, units: Units::try_from(part.units).ok()? })
        })
        .collect()
}
