//! What happens to committed orders, one write or transaction each: endings, payments, refunds. What happens
//! to stock is in `stock.rs`.
//!
//! Each says for itself what the order must be like; what its caller read before is only where it begins.

use holdfast::domain::{
    activity::QuotaPolicy,
    order::{StockEffect, Transition, next},
    payment::RefundReason,
};

use super::{
    Buyer, Event, Moment, OrderId, Part, Placement, Scope, Status, Take, Units,
    database::{Commit, Database, Limit, Order, Stored},
};

/// What a change of an order answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Changed {
    Done,
    /// The order is not, or not any more, as the change needs it.
    Otherwise,
}

/// Names money that came, or that an operator gives back of one take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PaymentId {
    Provider(u8),
    Operator(Take),
}

/// Money that goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Refund {
    pub reason: RefundReason,
    pub at: Moment,
}

/// How a live order ends.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    /// Cancel, expire or refund.
    pub event: Event,
    pub at: Moment,
    /// Whether the order's deadline is over at that moment.
    pub is_due: bool,
    pub keep_quota: bool,
    /// Whether an operator ends it, whose word on the quota is remembered.
    pub by_operator: bool,
    /// Money that goes back with it.
    pub refund: Option<(PaymentId, RefundReason)>,
}

impl Ending {
    /// As the system ends an order whose time has come.
    #[must_use]
    pub fn by_system(event: Event, keep_quota: bool) -> Self {
        Self { event, at: Moment::default(), is_due: true, keep_quota, by_operator: false, refund: None }
    }
}

/// An expired order that a late payment brings back.
#[derive(Clone, Debug)]
pub struct Revival<'a> {
    /// As it was read.
    pub closed: &'a Order,
    pub payment: PaymentId,
    /// Where its units come from this time.
    pub parts: &'a [Part],
    /// Whether its quota was given back.
    pub charge: bool,
    pub at: Moment,
}

/// Whether a dead order's quota stays used.
#[must_use]
pub fn keeps_quota(policy: QuotaPolicy, status: Status) -> bool {
    policy == QuotaPolicy::Keep && !matches!(status, Status::Refunded | Status::Aborted)
}

/// Whether the event moves an order from there with this effect on its stock.
fn moves(from: Status, event: Event, effect: StockEffect) -> bool {
    matches!(next(Some(from), event), Transition::To(_, does) if does == effect)
}

impl Database {
    /// Cancel, expiry or refund of an order that was read: transition, units back, quota back unless it is
    /// kept, the refund recorded.
    pub fn end(&mut self, seen: &Order, ending: &Ending) -> Changed {
        let Transition::To(status, StockEffect::GiveBack) = next(Some(seen.status), ending.event) else {
            return Changed::Otherwise;
        };
        let number = seen.placement.order;
        let refunded = ending.refund.is_some_and(|(payment, _)| self.refunds.get((number, payment)).is_some());
        let Some(Stored::Order(found)) = self.orders.get_mut(number) else { return Changed::Otherwise };
        let early = ending.event == Event::Expire && !ending.is_due;
        if refunded || early || !moves(found.status, ending.event, StockEffect::GiveBack) || found.take != seen.take {
            return Changed::Otherwise;
        }
        (found.status, found.updated) = (status, ending.at);
        if ending.by_operator {
            found.quota_kept = Some(ending.keep_quota);
        }
        for part in merged(&seen.parts) {
            if let Some(item) = self.stock.get_mut((part.sku, part.bucket)) {
                item.available += part.units;
                item.version += 1;
            }
        }
        if !ending.keep_quota {
            for (scope, units) in &seen.placement.charges {
                if let Some(guard) = self.guards.get_mut((seen.placement.buyer, *scope)) {
                    guard.units -= units;
                }
            }
        }
        if let Some((payment, reason)) = ending.refund {
            self.refunds.insert((number, payment), Refund { reason, at: ending.at });
        }
        Changed::Done
    }

    /// The payment of an order that holds its stock.
    pub fn pay(&mut self, order: OrderId, payment: PaymentId, at: Moment) -> Changed {
        match self.orders.get_mut(order) {
            Some(Stored::Order(found))
                if moves(found.status, Event::Pay, StockEffect::None) && !found.payments.contains(&payment) =>
            {
                (found.status, found.updated) = (Status::Paid, at);
                found.payments.push(payment);
                Changed::Done
            }
            _ => Changed::Otherwise,
        }
    }

    /// The order as it is, if this payment can bring it back, or can be judged to come too late for it.
    fn payable_late(&mut self, closed: &Order, payment: PaymentId) -> Option<&mut Order> {
        let Some(Stored::Order(found)) = self.orders.get_mut(closed.placement.order) else { return None };
        let as_read = moves(found.status, Event::Pay, StockEffect::Take) && found.take == closed.take;
        (as_read && !found.payments.contains(&payment)).then_some(found)
    }

    /// The payment of an expired order: stock and quota again, in these parts, as the next take. It is no
    /// further placement.
    pub fn pay_late(&mut self, revival: &Revival<'_>, limit: Limit) -> Commit {
        let &Revival { closed, payment, charge, at, .. } = revival;
        // There is no third take: an order that was paid is never closed again.
        let Some(take) = Take::from_u8(closed.take.get() + 1) else { return Commit::Exists };
        if self.payable_late(closed, payment).is_none() {
            return Commit::Exists;
        }
        let placement = &closed.placement;
        let charges: &[_] = if charge { &placement.charges } else { &[] };
        let over = |units: Units, scope| {
            self.guards.get((placement.buyer, scope)).is_none_or(|guard| guard.units + units > limit.units)
        };
        if charges.iter().any(|(scope, units)| over(*units, *scope)) {
            return Commit::LimitReached;
        }
        let parts = merged(revival.parts);
        let item = |part: &Part| self.stock.get((part.sku, part.bucket));
        if parts.iter().any(|part| item(part).is_some_and(|item| !item.on_sale)) {
            return Commit::Frozen;
        }
        let has_too_little = |part: &&Part| item(part).is_none_or(|item| item.available < part.units);
        let short: Vec<_> = parts.iter().filter(has_too_little).map(|part| (part.sku, part.bucket)).collect();
        if !short.is_empty() {
            return Commit::Short(short);
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
        if let Some(alive) = self.payable_late(closed, payment) {
            (alive.status, alive.take, alive.updated) = (Status::Paid, take, at);
            alive.parts = revival.parts.to_vec();
            alive.payments.push(payment);
        }
        Commit::Committed
    }

    /// Money that goes back, recorded once; of an expired order, which it might still have paid, together with
    /// the order's own note of it.
    pub fn record_refund(
        &mut self,
        order: OrderId,
        payment: PaymentId,
        refund: Refund,
        expired: Option<&Order>,
    ) -> Changed {
        if self.refunds.get((order, payment)).is_some() {
            return Changed::Otherwise;
        }
        if let Some(expired) = expired {
            let Some(judged) = self.payable_late(expired, payment) else { return Changed::Otherwise };
            judged.payments.push(payment);
        }
        self.refunds.insert((order, payment), refund);
        Changed::Done
    }

    /// What the system does about an event of an order: reads it, and ends it by the policy.
    pub fn finish(&mut self, order: OrderId, event: Event, policy: QuotaPolicy) -> Changed {
        let Some(Stored::Order(seen)) = self.orders.get(order).cloned() else { return Changed::Otherwise };
        let Transition::To(status, _) = next(Some(seen.status), event) else { return Changed::Otherwise };
        self.end(&seen, &Ending::by_system(event, keeps_quota(policy, status)))
    }

    /// What the system does about a payment: reads the order, and pays it in time or late, in these parts.
    /// `Exists` where it is neither.
    pub fn settle(&mut self, order: OrderId, parts: &[Part], policy: QuotaPolicy, limit: Limit) -> Commit {
        let (payment, at) = (PaymentId::Provider(0), Moment::default());
        let Some(Stored::Order(seen)) = self.orders.get(order).cloned() else { return Commit::Exists };
        match next(Some(seen.status), Event::Pay) {
            Transition::To(_, StockEffect::Take) => {
                let charge = !keeps_quota(policy, seen.status);
                self.pay_late(&Revival { closed: &seen, payment, parts, charge, at }, limit)
            }
            Transition::To(..) if self.pay(order, payment, at) == Changed::Done => Commit::Committed,
            _ => Commit::Exists,
        }
    }

    /// Goods leave the house.
    pub fn ship(&mut self, order: OrderId) -> Changed {
        match self.orders.get_mut(order) {
            Some(Stored::Order(found)) if moves(found.status, Event::Ship, StockEffect::None) => {
                found.status = Status::Shipped;
                Changed::Done
            }
            _ => Changed::Otherwise,
        }
    }

    /// Units of a buyer in one scope, of live orders and of dead ones whose quota stays used.
    #[must_use]
    pub fn charged(&self, buyer: Buyer, scope: Scope, policy: QuotaPolicy) -> Units {
        let counts = |stored: &Stored| match stored {
            Stored::Order(order) if order.placement.buyer == buyer => {
                let holds = order.status.is_live() || order.keeps_quota(policy);
                if holds { charge(&order.placement, scope) } else { 0 }
            }
            _ => 0,
        };
        self.orders.iter().map(|(_, stored)| counts(stored)).sum()
    }
}

fn charge(placement: &Placement, scope: Scope) -> Units {
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
