//! The people and things of one script, as the reference numbers them and as the product names them.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use holdfast::{
    adapters::redis::keys::mark_field,
    domain::{
        activity::{Activity, ActivityDraft},
        cart::Cart,
        ids::{ActivityId, Bucket as RealBucket, BuyerId, Sku as RealSku},
        limit::{LimitScope, ScopeKey},
        money::Quantity,
        order::{Part as RealPart, Placement as RealPlacement},
        order_no::OrderNo,
        time::{BusinessDate, UnixMillis},
        token::TokenId,
    },
    ports::{Clock as _, SystemClock},
};
use model::reference::{
    Bucket, Buyer, Day, LinesId, Moment, OrderId, Part, Placement, Scope, Sku, Units,
    gate::{Control, Phase},
};
use serde_json::json;

pub const BUCKETS: u8 = 2;
pub const SKUS: u8 = 3;
pub const SKU_NAMES: [&str; 3] = ["a", "b-1", "c_2.x"];
pub const BUYERS: u8 = 3;
/// Submissions, three of each buyer in turn.
pub const ORDERS: u8 = 9;
/// What a submission may ask for: SKU and units of each line.
pub const CARTS: [&[(u8, Units)]; 6] =
    [&[(0, 1)], &[(0, 2)], &[(0, 1), (1, 2)], &[(1, 3)], &[(0, 1), (2, 1)], &[(0, 2), (1, 1), (2, 2)]];
/// Buyers have whatever their identity provider gives them.
const BUYER_STEMS: [&str; BUYERS as usize] = ["alice", "e=f;g|D#h", "}{a:b}"];
const HOUR_MS: i64 = 3_600_000;
/// From admission to the deadline of the first submission, in milliseconds; each next one has one more.
const PAY_WITHIN_MS: u32 = 900_000;
/// Orders that only make a buyer's list long, from this number on: [`Cast::filler`].
const FILLERS_FROM: u8 = 100;
pub const FILLERS_MAX: u8 = 20;

/// A submission: one number, whatever it asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    pub order: u8,
    pub cart: u8,
    /// The call began after midnight: the same submission on the other day.
    pub late: bool,
}

impl Submission {
    pub const fn new(order: u8, cart: u8) -> Self {
        Self { order, cart, late: false }
    }

    /// Days alternate from order to order.
    const fn day(self) -> Day {
        Day((self.order + self.late as u8) % 2)
    }
}

impl std::fmt::Debug for Submission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let buyer = usize::from(buyer_of(self.order).0);
        let lines = CARTS[usize::from(self.cart)].iter().map(|(sku, units)| unit_text(*sku, *units));
        let late = if self.late { " after midnight" } else { "" };
        let lines = lines.collect::<Vec<_>>().join(" ");
        write!(f, "{}'s #{} [{lines}]{late}", ["Alice", "Eve", "Brace"][buyer], self.order)
    }
}

pub fn unit_text(sku: u8, units: Units) -> String {
    format!("{units}{}", ["a", "b", "c"][usize::from(sku)])
}

pub fn part_list(parts: &[Part]) -> String {
    let one = |part: &Part| format!("{}@{}", unit_text(part.sku.0, part.units), part.bucket.0);
    parts.iter().map(one).collect::<Vec<_>>().join(" ")
}

pub const fn buyer_of(order: u8) -> Buyer {
    Buyer(if order < FILLERS_FROM { order % BUYERS } else { (order - FILLERS_FROM) / FILLERS_MAX })
}

/// Until when an order has to be paid.
pub const fn due(order: OrderId) -> Moment {
    Moment(PAY_WITHIN_MS + order.0 as u32)
}

/// Two buyers at home in the first bucket, one in the second.
pub const fn home_of(buyer: Buyer) -> Bucket {
    Bucket(if buyer.0 == 2 { 1 } else { 0 })
}

/// The configurations of a sale by version, from 1: where its window stands, and its rate.
pub const CONFIGURATIONS: [(Phase, u16); 5] =
    [(Phase::Open, 500), (Phase::Open, 2), (Phase::Before, 500), (Phase::Over, 500), (Phase::Open, 500)];
/// Below it the rate can be reached by a script, and the second of Redis's clock matters.
pub const RATE_THAT_MATTERS: u16 = 100;

pub const fn control(version: u16) -> Control {
    let (phase, rate) = CONFIGURATIONS[version as usize - 1];
    Control { version, phase, rate }
}

/// One admitted submission, in both forms.
pub struct Both {
    pub reference: Arc<Placement>,
    pub real: RealPlacement,
    /// As it travels in a record.
    pub text: String,
}

pub struct Cast {
    pub scope: LimitScope,
    pub limit: Units,
    pub created: UnixMillis,
    /// By version, from 1.
    activities: Vec<Activity>,
    placements: Vec<Both>,
    orders: BTreeMap<String, OrderId>,
    lines: BTreeMap<String, LinesId>,
    /// Field of each mark.
    marks: BTreeMap<String, (Scope, Buyer)>,
    pub scopes: BTreeMap<(Scope, Buyer), ScopeKey>,
    buyers: Vec<BuyerId>,
}

impl Cast {
    /// New names each time, so that scripts on one server have nothing in common.
    pub fn new(scope: LimitScope, limit: Units) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = ActivityId::parse(&format!("sale-{}", NEXT.fetch_add(1, Ordering::Relaxed))).unwrap();
        let created = SystemClock.now();
        let activities: Vec<Activity> = (1..)
            .zip(CONFIGURATIONS)
            .map(|(version, (phase, rate))| activity(&id, version, phase, rate, scope, limit, created))
            .collect();
        let buyers = (0..BUYERS).map(|buyer| buyer_at_home(Buyer(buyer), &activities[0])).collect();
        let mut cast = Self {
            scope,
            limit,
            created,
            activities,
            buyers,
            placements: Vec::new(),
            orders: BTreeMap::new(),
            lines: BTreeMap::new(),
            marks: BTreeMap::new(),
            scopes: BTreeMap::new(),
        };
        for order in 0..ORDERS {
            for cart in 0..u8::try_from(CARTS.len()).unwrap() {
                for late in [false, true] {
                    cast.add(Submission { order, cart, late });
                }
            }
        }
        for filler in 0..BUYERS * FILLERS_MAX {
            let order = FILLERS_FROM + filler;
            cast.orders.insert(cast.number(OrderId(order)).as_str().to_owned(), OrderId(order));
        }
        cast
    }

    fn add(&mut self, submission: Submission) {
        let (order, buyer) = (OrderId(submission.order), buyer_of(submission.order));
        let day = submission.day();
        let lines: Vec<_> =
            CARTS[usize::from(submission.cart)].iter().map(|(sku, units)| (Sku(*sku), *units)).collect();
        let reference =
            Placement::new(order, buyer, home_of(buyer), (LinesId(submission.cart), lines.clone()), self.scope, day);
        let activity = &self.activities[0];
        let cart =
            Cart::new(lines.iter().map(|(sku, units)| (real_sku(*sku), Quantity::new((*units).into()).unwrap())));
        let cart = cart.unwrap();
        let lines = cart.priced(activity).unwrap();
        let biz_date = BusinessDate::parse(["2026-11-29", "2026-11-30"][usize::from(day.0)]).unwrap();
        let order_no = self.number(order);
        let buyer_id = self.buyers[usize::from(buyer.0)].clone();
        let real = RealPlacement {
            order_no: order_no.clone(),
            activity: activity.id.clone(),
            home: buyer_id.home(activity.buckets),
            buyer: buyer_id.clone(),
            strategy: activity.strategy,
            lines_hash: cart.hash(None),
            charges: activity.limit.charges(&lines, biz_date),
            lines,
            currency: activity.currency.clone(),
            biz_date,
            created_at: self.created,
            pay_before: self.at(due(order)),
            coupon: None,
        };
        for (charge, (scope, units)) in real.charges.iter().zip(&reference.charges) {
            assert_eq!(charge.units, u32::from(*units));
            self.marks.insert(mark_field(&charge.scope, &buyer_id), (*scope, buyer));
            self.scopes.insert((*scope, buyer), charge.scope.clone());
        }
        self.orders.insert(order_no.as_str().to_owned(), order);
        self.lines.insert(real.lines_hash.as_str().to_owned(), LinesId(submission.cart));
        self.placements.push(Both { text: serde_json::to_string(&real).unwrap(), reference, real });
    }

    pub fn activity(&self, version: u16) -> &Activity {
        &self.activities[usize::from(version) - 1]
    }

    pub fn id(&self) -> &ActivityId {
        &self.activities[0].id
    }

    pub fn both(&self, submission: Submission) -> &Both {
        let of_cart = usize::from(submission.order) * CARTS.len() + usize::from(submission.cart);
        &self.placements[2 * of_cart + usize::from(submission.late)]
    }

    pub fn by_text(&self, text: &str) -> Option<&Both> {
        self.placements.iter().find(|both| both.text == text)
    }

    pub fn by_real(&self, real: &RealPlacement) -> Option<&Both> {
        self.placements.iter().find(|both| both.real == *real)
    }

    pub fn by_reference(&self, reference: &Placement) -> Option<&Both> {
        self.placements.iter().find(|both| *both.reference == *reference)
    }

    /// Moments are counted in milliseconds from the admission on.
    pub fn at(&self, moment: Moment) -> UnixMillis {
        self.created.plus_ms(moment.0.into())
    }

    pub fn moment(&self, at: UnixMillis) -> Option<Moment> {
        u32::try_from(at.since_ms(self.created)).ok().map(Moment)
    }

    pub fn number(&self, order: OrderId) -> OrderNo {
        let activity = &self.activities[0].id;
        OrderNo::derive(activity, &self.buyers[usize::from(buyer_of(order.0).0)], &TokenId::from_bytes([order.0; 16]))
    }

    pub fn order(&self, number: &str) -> Option<OrderId> {
        self.orders.get(number).copied()
    }

    pub fn lines(&self, hash: &str) -> Option<LinesId> {
        self.lines.get(hash).copied()
    }

    pub fn mark(&self, field: &str) -> Option<(Scope, Buyer)> {
        self.marks.get(field).copied()
    }

    pub fn mark_field(&self, scope: Scope, buyer: Buyer) -> String {
        mark_field(&self.scopes[&(scope, buyer)], self.buyer(buyer))
    }

    pub fn buyer(&self, buyer: Buyer) -> &BuyerId {
        &self.buyers[usize::from(buyer.0)]
    }

    /// An order of this buyer that is only there to be counted.
    pub const fn filler(buyer: Buyer, index: u8) -> OrderId {
        OrderId(FILLERS_FROM + buyer.0 * FILLERS_MAX + index)
    }
}

fn activity(
    id: &ActivityId,
    version: u64,
    phase: Phase,
    rate: u16,
    scope: LimitScope,
    limit: Units,
    now: UnixMillis,
) -> Activity {
    let (starts, ends) = match phase {
        Phase::Before => (1, 3),
        Phase::Open => (-2, 1 + i64::try_from(version).unwrap()),
        Phase::Over => (-2, -1),
    };
    let skus: Vec<_> = SKU_NAMES.iter().map(|sku| json!({"sku": sku, "stock": 9, "price": 100})).collect();
    let draft: ActivityDraft = serde_json::from_value(json!({
        "name": "Sale", "starts_at": now.plus_ms(starts * HOUR_MS), "ends_at": now.plus_ms(ends * HOUR_MS),
        "time_zone": "Europe/Berlin", "strategy": "prededuct", "buckets": BUCKETS, "bucket_rate": rate,
        "limit": {"scope": scope, "max": limit}, "on_cancel": "release", "payment_minutes": 15,
        "currency": "EUR", "skus": skus
    }))
    .unwrap();
    Activity { opened: true, version, ..Activity::create(id.clone(), draft).unwrap() }
}

fn buyer_at_home(buyer: Buyer, activity: &Activity) -> BuyerId {
    let named = |suffix: u32| BuyerId::parse(&format!("{}{suffix}", BUYER_STEMS[usize::from(buyer.0)])).unwrap();
    (0..1_000).map(named).find(|id| id.home(activity.buckets).get() == u16::from(home_of(buyer).0)).unwrap()
}

pub fn real_sku(sku: Sku) -> RealSku {
    RealSku::parse(SKU_NAMES[usize::from(sku.0)]).unwrap()
}

pub fn reference_sku(name: &str) -> Option<Sku> {
    SKU_NAMES.iter().position(|known| *known == name).map(|at| Sku(u8::try_from(at).unwrap()))
}

pub fn real_bucket(bucket: Bucket) -> RealBucket {
    RealBucket::new(bucket.0.into()).unwrap()
}

pub fn real_parts(parts: &[Part]) -> Vec<RealPart> {
    let real =
        |part: &Part| RealPart { sku: real_sku(part.sku), bucket: real_bucket(part.bucket), units: part.units.into() };
    parts.iter().map(real).collect()
}
