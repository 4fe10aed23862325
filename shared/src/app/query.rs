//! What buyers and the public may see.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use serde::Serialize;
use tokio::time::Instant;

use crate::{
    app::activity_cache::{ActivityCache, CAPACITY},
    domain::{
        activity::{Activity, Offer},
        ids::{ActivityId, BuyerId, Sku},
        order::{Order, Stored, Tombstone},
        order_no::OrderNo,
        record::Side,
        time::UnixMillis,
    },
    ports::{ActivityStore, Clock, Fault, OrderStore, StockGate, StockStore},
};

/// How old the public numbers may be.
pub const STOCK_LIFETIME: Duration = Duration::from_secs(1);
/// Most orders listed for one buyer and activity.
pub const ORDERS_MAX: usize = 100;

/// Where an activity stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not preheated yet, or before the window.
    NotStarted,
    Running,
    Ended,
}

/// An activity as the public sees it.
#[derive(Clone, Debug)]
pub struct ActivityView {
    pub activity: Arc<Activity>,
    pub phase: Phase,
    /// Per SKU, in the activity's order; `None` when it cannot be told right now.
    pub available: Option<Vec<Available>>,
}

/// One order as its buyer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderView {
    Order(Box<Order>),
    /// Given up before it became an order.
    Aborted(Box<Tombstone>),
    /// Admitted; the transaction's outcome is not stored yet.
    Confirming(OrderNo),
}

/// How much is left of a SKU, as the public may know: enough to see whether trying is worth it, too
/// little to follow the shop's sales.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Available {
    /// Nothing is left, or nothing is on sale.
    None,
    /// At most a tenth of what was put on sale, or under the safety stock.
    Few,
    Many,
}

/// What was read per SKU. `None`: it could not be.
type Numbers = Option<Vec<Available>>;
type Slot = Arc<tokio::sync::Mutex<Option<(Instant, Numbers)>>>;

pub struct Query<D, G, C> {
    pub cache: ActivityCache<D>,
    pub store: D,
    pub gate: G,
    pub clock: C,
    pub numbers: Mutex<HashMap<ActivityId, Slot>>,
}

impl<D, G, C> Query<D, G, C>
where
    D: ActivityStore + OrderStore + StockStore,
    G: StockGate,
    C: Clock,
{
    pub fn new(cache: ActivityCache<D>, store: D, gate: G, clock: C) -> Self {
        Self { cache, store, gate, clock, numbers: Mutex::default() }
    }

    /// `None` when there is no such activity.
    pub async fn activity(&self, id: &ActivityId) -> Result<Option<ActivityView>, Fault> {
        let Some(activity) = self.cache.get(id).await? else { return Ok(None) };
        let phase = phase(&activity, self.clock.now());
        let available = self.available(&activity).await;
        Ok(Some(ActivityView { activity, phase, available }))
    }

    /// The buyer's own order, also while only Redis knows it; `None` when there is none or it is
    /// another buyer's.
    pub async fn order(
        &self,
        activity: &ActivityId,
        buyer: &BuyerId,
        order_no: &OrderNo,
    ) -> Result<Option<OrderView>, Fault> {
        if let Some(stored) = self.store.order(order_no).await? {
            let own = stored.activity() == activity && stored.buyer() == Some(buyer);
            return Ok(own.then(|| match stored {
                Stored::Order(order) => OrderView::Order(Box::new(order)),
                Stored::Aborted(tombstone) => OrderView::Aborted(Box::new(tombstone)),
            }));
        }
        let Some(activity) = self.cache.get(activity).await? else { return Ok(None) };
        if !activity.strategy.uses_gate() {
            return Ok(None);
        }
        let record = self.gate.record(&activity.id, buyer.home(activity.buckets), order_no).await?;
        let own = record.and_then(Result::ok).is_some_and(|record| {
            record.side == Side::Deducted && record.placement.is_some_and(|placement| placement.buyer == *buyer)
        });
        Ok(own.then(|| OrderView::Confirming(order_no.clone())))
    }

    /// The buyer's orders in an activity, newest first; `None` when there is no such activity.
    pub async fn orders(&self, activity: &ActivityId, buyer: &BuyerId) -> Result<Option<Vec<Order>>, Fault> {
        if self.cache.get(activity).await?.is_none() {
            return Ok(None);
        }
        let mut numbers = self.store.buyer_orders(activity, buyer).await?;
        numbers.truncate(ORDERS_MAX);
        let stored = self.store.orders(&numbers).await?;
        let own = |stored| match stored {
            Stored::Order(order) if order.placement.buyer == *buyer => Some(order),
            _ => None,
        };
        let mut orders: Vec<Order> = stored.into_iter().filter_map(own).collect();
        orders.sort_by_key(|order| std::cmp::Reverse(order.placement.created_at));
        Ok(Some(orders))
    }

    async fn available(&self, activity: &Activity) -> Numbers {
        let slot = self.slot(&activity.id);
        let mut entry = slot.lock().await;
        if let Some((read_at, numbers)) = entry.as_ref()
            && read_at.elapsed() < STOCK_LIFETIME
        {
            return numbers.clone();
        }
        let numbers = match self.count(activity).await {
            Ok(numbers) => Some(numbers),
            Err(fault) => {
                tracing::warn!(activity = %activity.id, fault = fault.chain(), "stock_not_read");
                None
            }
        };
        *entry = Some((Instant::now(), numbers.clone()));
        numbers
    }

    async fn count(&self, activity: &Activity) -> Result<Vec<Available>, Fault> {
        let mut totals: HashMap<Sku, u64> = HashMap::new();
        if !activity.ready {
            totals.extend(activity.skus.iter().map(|offer| (offer.sku.clone(), offer.stock)));
        } else if activity.strategy.uses_gate() {
            let reads = activity.buckets.all().map(|bucket| self.gate.read_bucket(activity, bucket));
            for state in futures_util::future::try_join_all(reads).await? {
                for sku in state.skus.into_iter().filter(|sku| sku.on_sale) {
                    let free = u64::try_from(sku.stock).unwrap_or(0);
                    // What Redis may admit above the stock is not there to be bought.
                    let surplus = activity.admission_ratio.surplus(sku.allotted);
                    *totals.entry(sku.sku).or_default() += free.saturating_sub(surplus);
                }
            }
        } else {
            let skus: Vec<Sku> = activity.skus.iter().map(|offer| offer.sku.clone()).collect();
            for item in self.store.stock(activity, &skus).await?.into_iter().filter(|item| item.on_sale) {
                *totals.entry(item.sku).or_default() += item.available;
            }
        }
        let left = |offer: &Offer| totals.get(&offer.sku).copied().unwrap_or(0);
        Ok(activity.skus.iter().map(|offer| coarse(offer, left(offer))).collect())
    }

    fn slot(&self, id: &ActivityId) -> Slot {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if numbers.len() >= CAPACITY && !numbers.contains_key(id) {
            numbers.clear();
        }
        Arc::clone(numbers.entry(id.clone()).or_default())
    }
}

/// Where the activity stands at `now`.
#[must_use]
pub fn phase(activity: &Activity, now: UnixMillis) -> Phase {
    if now >= activity.window.ends_at {
        Phase::Ended
    } else if activity.ready && now >= activity.window.starts_at {
        Phase::Running
    } else {
        Phase::NotStarted
    }
}

/// What the public sees when so many units of an offer are left.
#[must_use]
pub const fn coarse(offer: &Offer, left: u64) -> Available {
    match left {
        0 => Available::None,
        _ if left <= offer.stock / 10 || left < offer.safety_stock => Available::Few,
        _ => Available::Many,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::money::Money;

    #[test]
    fn the_public_learns_none_few_or_many() {
        let offer = |stock, safety_stock| Offer {
            sku: Sku::parse("a").unwrap(),
            stock,
            price: Money::from_minor(1),
            safety_stock,
        };
        for (offer, left, shown) in [
            (offer(100, 0), 0, Available::None),
            (offer(100, 0), 1, Available::Few),
            (offer(100, 0), 10, Available::Few),
            (offer(100, 0), 11, Available::Many),
            (offer(100, 20), 19, Available::Few),
            (offer(100, 20), 20, Available::Many),
            (offer(1, 0), 1, Available::Many),
        ] {
            assert_eq!(coarse(&offer, left), shown, "{left} of {}", offer.stock);
        }
    }
}
