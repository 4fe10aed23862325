//! What happens to committed orders and to stock, one transaction each.

use holdfast::domain::{
    activity::QuotaPolicy,
    order::{StockEffect, Transition, next},
};

use super::{
    Bucket, Event, OrderId, Part, Placement, Sku, Status, Take, Units,
    database::{Database, Item, Limit, MoveId, Order, Stored},
    gate::Allotment,
};

/// What ending, paying or shipping an order answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Changed {
    Done,
    /// It happened before.
    Already,
    /// It may not happen to an order in this state, or to none.
    Refused,
    /// Paid late, and the quota is used up.
    LimitReached,
    Frozen,
    /// Paid late, and these items have too little.
    Short(Vec<(Sku, Bucket)>),
}

/// What changing an allotment answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moved {
    Done,
    /// This move was made before.
    Already,
    /// The item to take from has too little available.
    Short,
    /// There is no such item, or both ends are the same.
    Unknown,
}

/// Whether a dead order's quota stays used.
#[must_use]
pub fn keeps_quota(policy: QuotaPolicy, status: Status) -> bool {
    policy == QuotaPolicy::Keep && !matches!(status, Status::Refunded | Status::Aborted)
}

impl Database {
    /// Cancel, expiry or refund: transition, units back, quota back as the policy says.
    pub fn finish(&mut self, order: OrderId, event: Event, policy: QuotaPolicy) -> Changed {
        let Some(Stored::Order(found)) = self.orders.get_mut(order) else { return Changed::Refused };
        let status = match next(Some(found.status), event) {
            Transition::To(status, StockEffect::GiveBack) => status,
            Transition::Already => return Changed::Already,
            Transition::To(..) | Transition::Refused => return Changed::Refused,
        };
        found.status = status;
        let found = found.clone();
        for part in merged(&found.parts) {
            if let Some(item) = self.stock.get_mut((part.sku, part.bucket)) {
                item.available += part.units;
                item.version += 1;
            }
        }
        if !keeps_quota(policy, status) {
            for (scope, units) in &found.placement.charges {
                if let Some(guard) = self.guards.get_mut((found.placement.buyer, *scope)) {
                    guard.units -= units;
                }
            }
        }
        Changed::Done
    }

    /// A payment. One that comes late takes stock and quota again, in these parts, as the next take;
    /// the parts of an order that still holds its stock are left as they are.
    pub fn pay(&mut self, order: OrderId, parts: &[Part], policy: QuotaPolicy, limit: Limit) -> Changed {
        let Some(Stored::Order(found)) = self.orders.get(order).cloned() else { return Changed::Refused };
        match next(Some(found.status), Event::Pay) {
            Transition::Already => Changed::Already,
            Transition::Refused => Changed::Refused,
            Transition::To(_, StockEffect::Take) => self.pay_late(&found, parts, policy, limit),
            Transition::To(status, _) => {
                self.orders.insert(order, Stored::Order(Order { status, ..found }));
                Changed::Done
            }
        }
    }

    fn pay_late(&mut self, closed: &Order, parts: &[Part], policy: QuotaPolicy, limit: Limit) -> Changed {
        // There is no third take: an order that was paid is never closed again.
        let Some(take) = Take::from_u8(closed.take.get() + 1) else { return Changed::Refused };
        let parts = merged(parts);
        let placement = &closed.placement;
        let charges: &[_] = if keeps_quota(policy, closed.status) { &[] } else { &placement.charges };
        let over = |units: Units, scope| {
            self.guards.get((placement.buyer, scope)).map_or(0, |guard| guard.units) + units > limit.units
        };
        if charges.iter().any(|(scope, units)| over(*units, *scope)) {
            return Changed::LimitReached;
        }
        let item = |part: &Part| self.stock.get((part.sku, part.bucket));
        if parts.iter().any(|part| item(part).is_some_and(|item| !item.on_sale)) {
            return Changed::Frozen;
        }
        let has_too_little = |part: &&Part| item(part).is_none_or(|item| item.available < part.units);
        let short: Vec<_> = parts.iter().filter(has_too_little).map(|part| (part.sku, part.bucket)).collect();
        if !short.is_empty() {
            return Changed::Short(short);
        }
        for part in &parts {
            if let Some(item) = self.stock.get_mut((part.sku, part.bucket)) {
                item.available -= part.units;
                item.version += 1;
            }
        }
        for (scope, units) in charges {
            if let Some(guard) = self.guards.get_mut((placement.buyer, *scope)) {
                guard.units += units;
            }
        }
        let Transition::To(status, _) = next(Some(closed.status), Event::Pay) else { return Changed::Refused };
        self.orders.insert(placement.order, Stored::Order(Order { status, take, parts, ..closed.clone() }));
        Changed::Done
    }

    /// Goods leave the house.
    pub fn ship(&mut self, order: OrderId) -> Changed {
        let Some(Stored::Order(found)) = self.orders.get_mut(order) else { return Changed::Refused };
        match next(Some(found.status), Event::Ship) {
            Transition::To(status, _) => {
                found.status = status;
                Changed::Done
            }
            Transition::Already => Changed::Already,
            Transition::Refused => Changed::Refused,
        }
    }

    /// Puts stock on sale if there is none there; answers what is there then.
    pub fn open_stock(&mut self, sku: Sku, bucket: Bucket, units: Units) -> Item {
        if let Some(item) = self.stock.get((sku, bucket)) {
            return *item;
        }
        let item = Item { allotted: units, available: units, version: 1, on_sale: true };
        self.stock.insert((sku, bucket), item);
        item
    }

    /// More or fewer units for a bucket: the move if it was not made, and only what is available.
    pub fn adjust(&mut self, id: MoveId, sku: Sku, bucket: Bucket, more: i16) -> Moved {
        if self.moves.contains(&id) {
            return Moved::Already;
        }
        let Some(item) = self.stock.get_mut((sku, bucket)) else { return Moved::Unknown };
        let (Some(available), Some(allotted)) =
            (item.available.checked_add_signed(more), item.allotted.checked_add_signed(more))
        else {
            return Moved::Short;
        };
        *item = Item { available, allotted, version: item.version + 1, ..*item };
        self.note_move(id);
        Moved::Done
    }

    /// Units from one bucket to another, in one transaction.
    pub fn move_units(&mut self, id: MoveId, sku: Sku, from: Bucket, to: Bucket, units: Units) -> Moved {
        if self.moves.contains(&id) {
            return Moved::Already;
        }
        // A transaction names an item once, so a move has two ends.
        let ends = (self.stock.get((sku, from)), self.stock.get((sku, to)));
        let (Some(&source), Some(&target), true) = (ends.0, ends.1, from != to) else { return Moved::Unknown };
        let Some(available) = source.available.checked_sub(units) else { return Moved::Short };
        let allotted = source.allotted.saturating_sub(units);
        self.stock.insert((sku, from), Item { available, allotted, version: source.version + 1, ..source });
        let (available, allotted) = (target.available + units, target.allotted + units);
        self.stock.insert((sku, to), Item { available, allotted, version: target.version + 1, ..target });
        self.note_move(id);
        Moved::Done
    }

    fn note_move(&mut self, id: MoveId) {
        self.moves.push(id);
        self.moves.sort_unstable();
    }

    /// The sale switch. Set to what it is already, it changes nothing.
    pub fn set_on_sale(&mut self, sku: Sku, bucket: Bucket, on_sale: bool) -> Option<Item> {
        let item = self.stock.get_mut((sku, bucket))?;
        if item.on_sale != on_sale {
            item.on_sale = on_sale;
            item.version += 1;
        }
        Some(*item)
    }

    /// Sets `available` only if the item still has this version; answers whether it had.
    pub fn correct_available(&mut self, sku: Sku, bucket: Bucket, version: u16, available: Units) -> bool {
        match self.stock.get_mut((sku, bucket)) {
            Some(item) if item.version == version => {
                item.available = available;
                item.version += 1;
                true
            }
            _ => false,
        }
    }

    /// What a bucket of Redis is told of its stock, in SKU order.
    #[must_use]
    pub fn allotments(&self, bucket: Bucket) -> Vec<Allotment> {
        let here = self.stock.iter().filter(|((_, of), _)| *of == bucket);
        here.map(|((sku, _), item)| Allotment {
            sku,
            allotted: item.allotted,
            version: item.version,
            on_sale: item.on_sale,
        })
        .collect()
    }

    /// Units of live orders in one stock item.
    #[must_use]
    pub fn live_units(&self, sku: Sku, bucket: Bucket) -> Units {
        let parts = self.live().flat_map(|order| &order.parts);
        parts.filter(|part| part.sku == sku && part.bucket == bucket).map(|part| part.units).sum()
    }

    /// Units of a buyer's live orders in one scope.
    #[must_use]
    pub fn live_charges(&self, buyer: super::Buyer, scope: super::Scope) -> Units {
        let of_buyer = self.live().map(|order| &order.placement).filter(|placement| placement.buyer == buyer);
        of_buyer.map(|placement: &std::sync::Arc<Placement>| charge(placement, scope)).sum()
    }
}

fn charge(placement: &Placement, scope: super::Scope) -> Units {
    placement.charges.iter().filter(|(of, _)| *of == scope).map(|(_, units)| units).sum()
}

/// Parts in order, those of one SKU and bucket added up: one transaction names an item once.
fn merged(parts: &[Part]) -> Vec<Part> {
    let mut merged: Vec<Part> = Vec::new();
    for part in parts {
        match merged.iter_mut().find(|known| known.sku == part.sku && known.bucket == part.bucket) {
            Some(known) => known.units += part.units,
            None => merged.push(*part),
        }
    }
    merged.sort_unstable();
    merged
}
