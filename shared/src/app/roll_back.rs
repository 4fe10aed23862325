//! Settling a submission whose outcome is unknown: the claim decides, then every bucket that may hold a
//! part is restocked. See docs/protocol.md, "Roll back".

use crate::{
    app::{activity_cache::ActivityCache, give_back::GiveBack, submission::with_home},
    domain::order::{Take, Tombstone},
    ports::{ActivityStore, Claim, Clock, Fault, OrderStore, RollBack, StockGate},
};

/// What settling a submission comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Settled {
    /// The order lives: nothing to give back.
    Live,
    /// The order or its tombstone is dead, and its units are back.
    Restocked,
    /// Dead; Redis did not answer, so reconciliation gives the units back.
    LeftToReconciliation,
}

pub struct RollBackOrder<D, G, C> {
    pub cache: ActivityCache<D>,
    pub store: D,
    pub gate: G,
    pub clock: C,
}

impl<D, G, C> RollBackOrder<D, G, C>
where
    D: ActivityStore + OrderStore,
    G: StockGate,
    C: Clock,
{
    /// # Errors
    /// When the database did not answer: the message has to come again.
    pub async fn run(&self, message: &RollBack) -> Result<Settled, Fault> {
        let activity = self.cache.get(&message.activity).await?;
        let gated = activity.as_deref().filter(|activity| activity.strategy.uses_gate());
        // For the tombstone only: what the submission asked for. The claim does not wait for Redis.
        let record = match gated {
            None => None,
            Some(_) => self.gate.record(&message.activity, message.home, &message.order_no).await.ok().flatten(),
        };
        let tombstone = Tombstone {
            order_no: message.order_no.clone(),
            activity: message.activity.clone(),
            buyer: Some(message.buyer.clone()),
            at: self.clock.now(),
            placement: record.and_then(Result::ok).and_then(|record| record.placement),
        };
        let (take, keep_mark, placement, named) = match self.store.claim(&tombstone).await? {
            Claim::Order(order) if order.status.is_live() => return Ok(Settled::Live),
            Claim::Order(order) => {
                let keep_mark = activity.as_deref().is_some_and(|activity| order.keeps_quota(activity.on_cancel));
                let named = order.buckets();
                (order.take, keep_mark, Some(order.placement), named)
            }
            Claim::Aborted => (Take::FIRST, false, None, Vec::new()),
        };
        let Some(activity) = gated else { return Ok(Settled::Restocked) };
        let buckets = with_home(message.home, &[named, message.buckets.clone()].concat());
        let order_no = &message.order_no;
        let back = GiveBack { order_no, buckets: &buckets, take, keep_mark, submission: placement.as_ref() };
        Ok(if back.run(&self.gate, activity).await { Settled::Restocked } else { Settled::LeftToReconciliation })
    }
}
