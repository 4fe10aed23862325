//! Settling a submission whose outcome is unknown: the claim decides, then every bucket that may hold a
//! part is restocked. See docs/protocol.md, "Roll back".

use crate::{
    app::{activity_cache::ActivityCache, submission::with_home},
    domain::{
        activity::{Activity, QuotaPolicy},
        ids::Bucket,
        order::{Order, Placement, Status, Take, Tombstone},
    },
    ports::{ActivityStore, Claim, Clock, Fault, OrderStore, Restocked, RollBack, StockGate},
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
                let (keep_mark, named) = (keeps_mark(activity.as_deref(), &order), order.buckets());
                (order.take, keep_mark, Some(order.placement), named)
            }
            Claim::Aborted => (Take::FIRST, false, None, Vec::new()),
        };
        let Some(activity) = gated else { return Ok(Settled::Restocked) };
        let buckets = with_home(message.home, &[named, message.buckets.clone()].concat());
        Ok(self.restock(activity, message, &buckets, take, (keep_mark, placement.as_ref())).await)
    }

    async fn restock(
        &self,
        activity: &Activity,
        message: &RollBack,
        buckets: &[Bucket],
        take: Take,
        (keep_mark, placement): (bool, Option<&Placement>),
    ) -> Settled {
        let mut settled = Settled::Restocked;
        for bucket in buckets.iter().filter(|bucket| bucket.get() < activity.buckets.get()) {
            match self.gate.restock(activity, &message.order_no, *bucket, take, keep_mark, placement).await {
                Ok(Restocked::BadData) => {
                    tracing::error!(order_no = %message.order_no, %bucket, "bad_data");
                    settled = Settled::LeftToReconciliation;
                }
                Ok(_) => {}
                Err(fault) => {
                    tracing::warn!(order_no = %message.order_no, %bucket, fault = fault.chain(), "restock_failed");
                    settled = Settled::LeftToReconciliation;
                }
            }
        }
        settled
    }
}

/// Whether a dead order's quota stays used: by the activity's policy, except after a refund.
fn keeps_mark(activity: Option<&Activity>, order: &Order) -> bool {
    activity.is_some_and(|activity| activity.on_cancel == QuotaPolicy::Keep) && order.status != Status::Refunded
}
