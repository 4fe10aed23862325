//! One sale: its buyers and what they submit.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU64, Ordering},
};

use holdfast::{
    domain::{
        activity::{Activity, ActivityDraft, QuotaPolicy},
        cart::Cart,
        ids::{ActivityId, Bucket, BuyerId, Sku},
        limit::{LimitScope, ScopeKey},
        money::Quantity,
        order::{Part, Placement},
        order_no::OrderNo,
        stock::StockItem,
        time::UnixMillis,
        token::TokenId,
    },
    ports::{Clock as _, SystemClock},
};
use serde_json::json;

pub const BUYERS: u8 = 2;
/// More submissions of each buyer than a guard lists.
pub const ORDERS: u8 = 28;
const SKUS: [&str; 3] = ["a", "b-1", "c_2.x"];
/// SKU and units of each line.
pub const CARTS: [&[(usize, u32)]; 6] =
    [&[(0, 1)], &[(1, 1)], &[(0, 2)], &[(0, 1), (1, 1)], &[(0, 1), (1, 2), (2, 1)], &[(1, 3), (2, 2)]];
/// What never runs out.
const STOCK: u64 = 100_000;
const HOUR_MS: i64 = 3_600_000;

/// One order number, and what it is asked to be this time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    pub buyer: u8,
    pub order: u8,
    pub cart: u8,
    pub tomorrow: bool,
}

pub struct Sale {
    pub activity: Activity,
    pub now: UnixMillis,
    buyers: Vec<BuyerId>,
}

impl Sale {
    pub fn new(scope: LimitScope, max: u32, policy: QuotaPolicy) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = ActivityId::parse(&format!("limits-{}", NEXT.fetch_add(1, Ordering::Relaxed))).unwrap();
        let now = SystemClock.now();
        let skus: Vec<_> = SKUS.iter().map(|sku| json!({"sku": sku, "stock": STOCK, "price": 100})).collect();
        let draft: ActivityDraft = serde_json::from_value(json!({
            "name": "Limits", "starts_at": now.plus_ms(-HOUR_MS), "ends_at": now.plus_ms(48 * HOUR_MS),
            "time_zone": "Europe/Berlin", "strategy": "prededuct", "buckets": 1, "bucket_rate": 500,
            "limit": {"scope": scope, "max": max}, "on_cancel": policy, "payment_minutes": 15,
            "currency": "EUR", "skus": skus
        }))
        .unwrap();
        let activity = Activity { opened: true, ..Activity::create(id, draft).unwrap() };
        let buyers = ["alice", "}e=f;g|D#h{"].map(|name| BuyerId::parse(name).unwrap()).to_vec();
        Self { activity, now, buyers }
    }

    pub fn buyer(&self, buyer: u8) -> &BuyerId {
        &self.buyers[usize::from(buyer)]
    }

    pub fn number(&self, buyer: u8, order: u8) -> OrderNo {
        OrderNo::derive(&self.activity.id, self.buyer(buyer), &TokenId::from_bytes([order; 16]))
    }

    /// The submission as the product admits it.
    pub fn placement(&self, of: Submission) -> Placement {
        let lines = CARTS[usize::from(of.cart)].iter();
        let lines = lines.map(|(sku, units)| (Sku::parse(SKUS[*sku]).unwrap(), Quantity::new(*units).unwrap()));
        let cart = Cart::new(lines).unwrap();
        let lines = cart.priced(&self.activity).unwrap();
        let now = if of.tomorrow { self.now.plus_ms(24 * HOUR_MS) } else { self.now };
        let buyer = self.buyer(of.buyer).clone();
        Placement::admit(&self.activity, self.number(of.buyer, of.order), buyer, &cart, lines, now)
    }

    /// All of it from its home.
    pub fn parts(placement: &Placement) -> Vec<Part> {
        let part = |line: &holdfast::domain::cart::OrderLine| Part {
            sku: line.sku.clone(),
            bucket: placement.home,
            units: line.quantity.get(),
        };
        placement.lines.iter().map(part).collect()
    }

    /// Every scope that any submission counts in.
    pub fn scopes(&self) -> BTreeSet<ScopeKey> {
        let carts = 0..u8::try_from(CARTS.len()).unwrap();
        let all = carts.flat_map(|cart| [false, true].map(|tomorrow| (cart, tomorrow)));
        let charges =
            all.flat_map(|(cart, tomorrow)| self.placement(Submission { buyer: 0, order: 0, cart, tomorrow }).charges);
        charges.map(|charge| charge.scope).collect()
    }

    pub fn stock(&self) -> Vec<StockItem> {
        let item = |offer: &holdfast::domain::activity::Offer| StockItem {
            activity: self.activity.id.clone(),
            sku: offer.sku.clone(),
            bucket: Bucket::new(0).unwrap(),
            allotted: STOCK,
            available: STOCK,
            version: 1,
            on_sale: true,
            changed_at: self.now,
        };
        self.activity.skus.iter().map(item).collect()
    }
}
