//! What callers may have read of each order, now or earlier.

use std::collections::BTreeMap;

use holdfast::domain::activity::QuotaPolicy;
use model::reference::{
    Moment, OrderId, Status, Take,
    database::{Database, Order, Stored},
};

use crate::cast::{Cast, ORDERS, Submission};

pub struct Past {
    pub policy: QuotaPolicy,
    /// Every state that each order was in, the last one being its own.
    orders: BTreeMap<OrderId, Vec<Order>>,
    /// As each would have been placed: what is read of an order that is not stored.
    drafts: Vec<Order>,
}

impl Past {
    pub fn new(cast: &Cast, policy: QuotaPolicy) -> Self {
        let draft = |order| {
            let placement = cast.both(Submission::new(order, 0)).reference.clone();
            Order {
                parts: placement.home_parts(),
                placement,
                status: Status::PendingPayment,
                take: Take::FIRST,
                updated: Moment::default(),
                payments: Vec::new(),
                quota_kept: None,
            }
        };
        Self { policy, orders: BTreeMap::new(), drafts: (0..ORDERS).map(draft).collect() }
    }

    /// Remembers the orders as they are now.
    pub fn note(&mut self, database: &Database) {
        for (order, stored) in database.orders.iter() {
            let Stored::Order(found) = stored else { continue };
            let states = self.orders.entry(order).or_default();
            if states.last() != Some(found) {
                states.push(found.clone());
            }
        }
    }

    /// The order as it was so many changes ago, or at first.
    pub fn seen(&self, order: OrderId, ago: u8) -> Order {
        let states = self.orders.get(&order).map_or(&[][..], Vec::as_slice);
        let at = states.len().saturating_sub(1 + usize::from(ago));
        states.get(at).unwrap_or(&self.drafts[usize::from(order.0)]).clone()
    }
}
