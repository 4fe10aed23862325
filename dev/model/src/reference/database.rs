//! Orders, guards and stock in the database, and the order transaction. What changes an order
//! afterwards is in `changes.rs`, what changes stock in `stock.rs`.

use std::sync::Arc;

use holdfast::domain::{
    activity::QuotaPolicy,
    order::{Transition, next},
};

use super::{
    Bucket, Buyer, Event, Map, Moment, OrderId, Part, Placement, Scope, Sku, Status, Take, Units,
    changes::{PaymentId, Refund, keeps_quota},
    stock::Move,
};

/// A committed order, live or dead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Order {
    pub placement: Arc<Placement>,
    pub status: Status,
    pub take: Take,
    pub parts: Vec<Part>,
    /// When its status last changed.
    pub updated: Moment,
    /// Payments that took effect, or were judged while the order could have been paid, in their order.
    pub payments: Vec<PaymentId>,
    /// What the operator said of the quota who ended it.
    pub quota_kept: Option<bool>,
}

impl Order {
    /// Whether its quota stays used now that it is dead.
    #[must_use]
    pub fn keeps_quota(&self, policy: QuotaPolicy) -> bool {
        self.quota_kept.unwrap_or_else(|| keeps_quota(policy, self.status))
    }

    /// Home and every other bucket that holds a part, each once, home first.
    #[must_use]
    pub fn buckets(&self) -> Vec<Bucket> {
        let mut buckets = vec![self.placement.home];
        for part in &self.parts {
            if !buckets.contains(&part.bucket) {
                buckets.push(part.bucket);
            }
        }
        buckets
    }
}

/// What is stored under an order number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Stored {
    Order(Order),
    /// The placement where the claimer knew it.
    Aborted(Option<Arc<Placement>>),
}

impl Stored {
    #[must_use]
    pub const fn status(&self) -> Status {
        match self {
            Self::Order(order) => order.status,
            Self::Aborted(_) => Status::Aborted,
        }
    }

    /// The order, if it holds stock and quota.
    #[must_use]
    pub fn live(&self) -> Option<&Order> {
        match self {
            Self::Order(order) if order.status.is_live() => Some(order),
            _ => None,
        }
    }
}

/// What a buyer holds in one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Guard {
    pub units: Units,
    /// Every placement, dead ones included.
    pub orders: Map<OrderId, Units>,
}

/// The stock of one SKU in one bucket. Every change raises the version by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    pub allotted: Units,
    pub available: Units,
    pub version: u16,
    pub on_sale: bool,
}

/// A change of allotments, by its deterministic id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MoveId(pub u8);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Database {
    pub orders: Map<OrderId, Stored>,
    pub guards: Map<(Buyer, Scope), Guard>,
    pub stock: Map<(Sku, Bucket), Item>,
    pub refunds: Map<(OrderId, PaymentId), Refund>,
    pub moves: Map<MoveId, Move>,
}

/// Most units and placements per buyer and scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    pub units: Units,
    pub placements: usize,
}

/// What the order transaction answers, in order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Commit {
    Committed,
    Exists,
    LimitReached,
    Frozen,
    /// In order of SKU, then bucket.
    Short(Vec<(Sku, Bucket)>),
}

/// A submission and the parts that it becomes an order with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Draft {
    pub placement: Arc<Placement>,
    pub parts: Vec<Part>,
}

/// What a claim answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Claim {
    Aborted,
    Order(Order),
}

impl Database {
    /// The order transaction of one order.
    pub fn commit(&mut self, draft: &Draft, limit: Limit) -> Commit {
        self.commit_batch(std::slice::from_ref(draft), limit).pop().unwrap_or(Commit::Committed)
    }

    /// One transaction of several orders, each there once: one action per order, guard and stock item,
    /// those of the same item merged; all of it or nothing. Answers per order, as if each reason were its
    /// own: an order that only shares the transaction with a refused one is told `Committed`, and was not.
    pub fn commit_batch(&mut self, drafts: &[Draft], limit: Limit) -> Vec<Commit> {
        let mut charged: Map<(Buyer, Scope), Guard> = Map::default();
        let mut taken: Map<(Sku, Bucket), Units> = Map::default();
        for Draft { placement, parts } in drafts {
            for (scope, units) in &placement.charges {
                let key = (placement.buyer, *scope);
                let mut guard = charged.get(key).cloned().unwrap_or_default();
                guard.units += units;
                guard.orders.insert(placement.order, *units);
                charged.insert(key, guard);
            }
            for part in parts {
                let key = (part.sku, part.bucket);
                let before = taken.get(key).copied().unwrap_or(0);
                taken.insert(key, before + part.units);
            }
        }
        let answers: Vec<Commit> = drafts.iter().map(|draft| self.judge(draft, &charged, &taken, limit)).collect();
        if answers.iter().all(|answer| *answer == Commit::Committed) {
            self.write(drafts, &charged, &taken);
        }
        answers
    }

    fn judge(
        &self,
        draft: &Draft,
        charged: &Map<(Buyer, Scope), Guard>,
        taken: &Map<(Sku, Bucket), Units>,
        limit: Limit,
    ) -> Commit {
        let Draft { placement, parts } = draft;
        let stored = self.orders.get(placement.order).map(Stored::status);
        if !matches!(next(stored, Event::Place), Transition::To(..)) {
            return Commit::Exists;
        }
        let over = |(scope, _): &(Scope, Units)| {
            let key = (placement.buyer, *scope);
            let more = charged.get(key).cloned().unwrap_or_default();
            let (units, orders) = self.guards.get(key).map_or((0, 0), |guard| (guard.units, guard.orders.len()));
            units + more.units > limit.units || orders + more.orders.len() > limit.placements
        };
        if placement.charges.iter().any(over) {
            return Commit::LimitReached;
        }
        let mut frozen = false;
        let mut short = Vec::new();
        for part in parts {
            let key = (part.sku, part.bucket);
            let wanted = taken.get(key).copied().unwrap_or(0);
            match self.stock.get(key) {
                Some(item) if !item.on_sale => frozen = true,
                Some(item) if item.available >= wanted => {}
                _ => short.push(key),
            }
        }
        short.sort_unstable();
        short.dedup();
        if frozen {
            Commit::Frozen
        } else if short.is_empty() {
            Commit::Committed
        } else {
            Commit::Short(short)
        }
    }

    fn write(&mut self, drafts: &[Draft], charged: &Map<(Buyer, Scope), Guard>, taken: &Map<(Sku, Bucket), Units>) {
        for Draft { placement, parts } in drafts {
            let order = Order {
                placement: placement.clone(),
                status: Status::PendingPayment,
                take: Take::FIRST,
                parts: parts.clone(),
                updated: Moment::default(),
                payments: Vec::new(),
                quota_kept: None,
            };
            self.orders.insert(placement.order, Stored::Order(order));
        }
        for (key, more) in charged.iter() {
            let mut guard = self.guards.get(key).cloned().unwrap_or_default();
            guard.units += more.units;
            for (order, units) in more.orders.iter() {
                guard.orders.insert(order, *units);
            }
            self.guards.insert(key, guard);
        }
        for (key, units) in taken.iter() {
            if let Some(item) = self.stock.get_mut(key) {
                item.available -= units;
                item.version += 1;
            }
        }
    }

    /// Stores the tombstone if nothing is stored under the number.
    pub fn claim(&mut self, order: OrderId, placement: Option<Arc<Placement>>) -> Claim {
        match self.orders.get(order) {
            Some(Stored::Aborted(_)) => Claim::Aborted,
            Some(Stored::Order(order)) => Claim::Order(order.clone()),
            None => {
                self.orders.insert(order, Stored::Aborted(placement));
                Claim::Aborted
            }
        }
    }

    #[must_use]
    pub fn order(&self, order: OrderId) -> Option<&Stored> {
        self.orders.get(order)
    }

    /// The live orders, in order of their ids.
    pub fn live(&self) -> impl Iterator<Item = &Order> {
        self.orders.iter().filter_map(|(_, stored)| stored.live())
    }
}
