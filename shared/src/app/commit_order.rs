//! The order transaction and what follows from it: other buckets once, the claim before a refusal is
//! told, a message where the outcome is unknown. See docs/protocol.md, "Place", 4 and 5.

use tokio::time::Instant;

use super::{
    fill_order::{Filled, Filling, fill_from_database},
    give_back::{GiveBack, ask_to_settle},
    place_order::{PlaceOrder, Placed, Refusal},
    submission::{refused, tell, with_home},
};
use crate::{
    domain::{
        activity::Activity,
        ids::{Bucket, Sku},
        order::{Order, Part, Placement, Stored, Take},
    },
    ports::{
        ActivityStore, AdmissionStore, Claim, Clock, Commit, Effect, Fault, Messages, OrderStore, RollBackReason,
        StockGate, StockStore,
    },
    telemetry::{self, Metric},
};

/// Delay of the message that settles an unknown outcome, in seconds: longer than any transaction that
/// is still on its way.
pub const UNKNOWN_DELAY_S: u16 = 10;
/// How often the transaction is tried when a stock item is short: once, then with other buckets.
const COMMITS_MAX: usize = 2;

/// Where other buckets are looked for when the first are short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// In Redis, which then holds the parts too.
    Gate,
    /// In the database alone.
    Database,
}

impl<D, G, M, C> PlaceOrder<D, G, M, C>
where
    D: ActivityStore + AdmissionStore + OrderStore + StockStore,
    G: StockGate,
    M: Messages,
    C: Clock,
{
    /// The transaction, and once more with other buckets when a stock item is short.
    pub(super) async fn commit(
        &self,
        activity: &Activity,
        placement: &Placement,
        parts: Vec<Part>,
        via: Via,
    ) -> Result<Placed, Fault> {
        let mut order = placement.clone().into_order(parts);
        let mut touched = order.buckets();
        for attempt in 1..=COMMITS_MAX {
            if !order.is_filled() {
                return Err(Fault::not_applied("order transaction", "the parts do not add up to the lines"));
            }
            let answer = match self.store.commit(&order, activity.limit.max).await {
                Ok(answer) => answer,
                Err(fault) if fault.effect == Effect::Unknown => {
                    tracing::warn!(order_no = %placement.order_no, fault = fault.chain(), "commit_unknown");
                    return Ok(self.settle_later(placement, &touched, RollBackReason::CommitUnknown).await);
                }
                Err(fault) => return Err(fault),
            };
            let refusal = match answer {
                Commit::Committed => return Ok(Placed::Created(Box::new(order))),
                Commit::Exists => return self.tell_existing(activity, placement, &touched).await,
                // Not applied, and the record stays: the same token goes on later.
                Commit::Busy => return Ok(refused(Refusal::Unavailable)),
                Commit::LimitReached => {
                    if via == Via::Gate {
                        telemetry::count_in(&activity.id, Metric::GuardConflicts, 1);
                    }
                    let orders = self.store.limiting_orders(placement, activity.limit.max).await;
                    Refusal::LimitReached(orders.unwrap_or_default())
                }
                Commit::CouponUsed => Refusal::CouponUsed,
                Commit::Frozen => Refusal::Frozen,
                Commit::Short(short) if attempt < COMMITS_MAX => {
                    match self.other_parts(activity, &order, &short, via).await? {
                        Filled::Parts(parts) => {
                            order = placement.clone().into_order(parts);
                            touched.extend(order.buckets());
                            continue;
                        }
                        Filled::GivenBack => return self.tell_stored(placement, Refusal::OrderAborted).await,
                        _ => Refusal::SoldOut,
                    }
                }
                Commit::Short(_) => Refusal::SoldOut,
            };
            return self.give_up(activity, placement, &touched, refusal).await;
        }
        Ok(refused(Refusal::Unavailable))
    }

    /// Other buckets for an order whose stock items were short. What the database does not have at all is sold
    /// out, whatever Redis would admit. Redis is passed by when it does not answer or cannot see every bucket:
    /// that is no "sold out".
    async fn other_parts(
        &self,
        activity: &Activity,
        order: &Order,
        short: &[(Sku, Bucket)],
        via: Via,
    ) -> Result<Filled, Fault> {
        let asked_at = Instant::now();
        let skus: Vec<Sku> = order.placement.lines.iter().map(|line| line.sku.clone()).collect();
        let stock = self.store.stock(activity, &skus).await?;
        for sku in skus.iter().filter(|sku| stock.iter().all(|item| item.sku != **sku || item.available == 0)) {
            self.memory.note_exhausted(activity, sku, asked_at);
        }
        let Some(parts) = fill_from_database(activity, &order.placement, &stock) else {
            return Ok(Filled::NothingWritten(Refusal::SoldOut));
        };
        let filling = Filling::new(&self.gate, activity, &order.placement, &self.memory);
        if via == Via::Gate {
            match filling.after_database_short(&order.parts, short, &stock).await {
                Ok(Filled::NothingWritten(refusal) | Filled::StillHeld { refusal, .. })
                    if refusal != Refusal::SoldOut => {}
                Ok(filled) => return Ok(filled),
                Err(fault) => {
                    tracing::warn!(order_no = %order.placement.order_no, fault = fault.chain(), "past_redis");
                }
            }
            telemetry::count(Metric::PastRedis, 1);
            self.admission.note_bypass(self.clock.now()).await;
        }
        Ok(Filled::Parts(parts))
    }

    /// Gives a submission up: the claim first, and only when it is stored is the refusal told.
    pub(super) async fn give_up(
        &self,
        activity: &Activity,
        placement: &Placement,
        buckets: &[Bucket],
        refusal: Refusal,
    ) -> Result<Placed, Fault> {
        let tombstone = placement.clone().into_tombstone(self.clock.now());
        match self.store.claim(&tombstone).await {
            Ok(Claim::Order(order)) => return Ok(tell(placement, Stored::Order(*order))),
            Ok(Claim::Aborted) => {}
            Err(fault) => {
                tracing::warn!(order_no = %placement.order_no, fault = fault.chain(), "claim_unknown");
                return Ok(self.settle_later(placement, buckets, RollBackReason::ClaimUnknown).await);
            }
        }
        self.give_back_aborted(activity, placement, buckets).await;
        Ok(refused(refusal))
    }

    /// The units of a submission whose tombstone is stored. What is told is final, also where this fails.
    async fn give_back_aborted(&self, activity: &Activity, placement: &Placement, buckets: &[Bucket]) {
        let buckets = with_home(placement.home, buckets);
        let back = GiveBack {
            order_no: &placement.order_no,
            buckets: &buckets,
            take: Take::FIRST,
            keep_mark: false,
            submission: Some(placement),
        };
        if activity.strategy.uses_gate() && !back.run(&self.gate, activity).await {
            let _ = self.settle_later(placement, &buckets, RollBackReason::RestockFailed).await;
        }
    }

    async fn settle_later(&self, placement: &Placement, buckets: &[Bucket], reason: RollBackReason) -> Placed {
        ask_to_settle(&self.messages, placement, buckets, reason, UNKNOWN_DELAY_S).await;
        Placed::Confirming(placement.order_no.clone())
    }

    /// Another call of this submission committed, or gave it up. Parts that this call took and the
    /// order does not name go back.
    async fn tell_existing(
        &self,
        activity: &Activity,
        placement: &Placement,
        touched: &[Bucket],
    ) -> Result<Placed, Fault> {
        let Some(stored) = self.store.order(&placement.order_no).await? else {
            // Dead items are removed long after every token has expired.
            return Ok(refused(Refusal::OrderAborted));
        };
        if let Stored::Order(order) = &stored
            && order.status.is_live()
            && activity.strategy.uses_gate()
        {
            let named = order.buckets();
            for bucket in with_home(placement.home, touched).into_iter().filter(|bucket| !named.contains(bucket)) {
                let restored = self.gate.restore(activity, &order.placement, bucket, order.take, &order.parts).await;
                if let Err(fault) = restored {
                    tracing::warn!(order_no = %placement.order_no, %bucket, fault = fault.chain(), "part_left_behind");
                }
            }
        }
        if matches!(stored, Stored::Aborted(_)) {
            // A payment's claim leaves no mark in Redis: this very call may have deducted after it.
            self.give_back_aborted(activity, placement, touched).await;
        }
        Ok(tell(placement, stored))
    }

    /// The state of the submission's order, or this refusal when none is stored.
    pub(super) async fn tell_stored(&self, placement: &Placement, otherwise: Refusal) -> Result<Placed, Fault> {
        let stored = self.store.order(&placement.order_no).await?;
        Ok(stored.map_or(refused(otherwise), |stored| tell(placement, stored)))
    }
}
