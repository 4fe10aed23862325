//! What a payment comes to. Money is never refused: it pays an order, or it is recorded as due back.

use super::{
    activity_cache::ActivityCache,
    end_order::{Ender, ROUNDS_MAX, changes_too_often},
    fill_order::fill_from_database,
};
use crate::{
    domain::{
        activity::Activity,
        ids::{Bucket, Sku},
        order::{Event, Order, Part, Stored, Take, Tombstone},
        payment::{Payment, RefundDue, RefundReason, Settlement, settle},
        stock::Operation,
    },
    ports::{
        ActivityStore, Changed, Clock, Commit, Fault, Messages, OrderLife, OrderStore, Revival, StockGate, StockStore,
    },
};

/// How often a late payment looks for stock: once, and again when it is taken under its hands.
const LOOKS_MAX: usize = 3;
/// Who marks the stock that comes back.
const ACTOR: &str = "payment";

/// What a payment came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Told before, or without consequence.
    Nothing,
    Paid,
    /// The expired order took stock and quota again.
    PaidLate,
    RefundDue(RefundReason),
    /// The order ended, because its money went back.
    Refunded,
    /// A refund overtook its payment: tell it again.
    NotPaidYet,
    /// Orders are refunded as a whole.
    PartialRefund,
}

pub struct SettlePayment<D, G, M, C> {
    pub cache: ActivityCache<D>,
    pub store: D,
    pub gate: G,
    pub messages: M,
    pub clock: C,
}

impl<D, G, M, C> SettlePayment<D, G, M, C>
where
    D: ActivityStore + OrderStore + OrderLife + StockStore,
    G: StockGate,
    M: Messages,
    C: Clock,
{
    /// # Errors
    /// When the database does not answer or is too busy: the provider tells it again.
    pub async fn run(&self, payment: &Payment) -> Result<Outcome, Fault> {
        for _ in 0..ROUNDS_MAX {
            let stored = self.store.order(&payment.order_no).await?;
            let settlement = settle(stored.as_ref(), payment);
            let outcome = match (settlement, stored) {
                (Settlement::Nothing, _) => Some(Outcome::Nothing),
                (Settlement::NotPaidYet, _) => Some(Outcome::NotPaidYet),
                (Settlement::PartialRefund, _) => Some(Outcome::PartialRefund),
                (Settlement::RefundDue(reason), _) => Some(self.pay_back(payment, reason).await?),
                (Settlement::Pay, Some(Stored::Order(order))) => self.pay(&order, payment).await?,
                (Settlement::PayLate, Some(Stored::Order(order))) => self.pay_late(&order, payment).await?,
                (Settlement::Refund, Some(Stored::Order(order))) => self.refund(&order).await?,
                _ => self.give_up(payment).await?,
            };
            if let Some(outcome) = outcome {
                return Ok(outcome);
            }
        }
        Err(changes_too_often())
    }

    async fn pay(&self, order: &Order, payment: &Payment) -> Result<Option<Outcome>, Fault> {
        Ok((self.store.pay(order, payment, self.clock.now()).await? == Changed::Done).then_some(Outcome::Paid))
    }

    /// The same money again is recorded already: the same answer.
    async fn pay_back(&self, payment: &Payment, reason: RefundReason) -> Result<Outcome, Fault> {
        let _ = self.store.record_refund(&self.due(payment, reason), None).await?;
        Ok(Outcome::RefundDue(reason))
    }

    fn due(&self, payment: &Payment, reason: RefundReason) -> RefundDue {
        RefundDue {
            order_no: payment.order_no.clone(),
            activity: payment.activity.clone(),
            event_id: payment.event_id.clone(),
            amount: payment.amount,
            currency: payment.currency.clone(),
            reason,
            at: self.clock.now(),
        }
    }

    /// Nothing is stored under the number. It is given up, so that no order comes after its money went back.
    async fn give_up(&self, payment: &Payment) -> Result<Option<Outcome>, Fault> {
        let tombstone = Tombstone {
            order_no: payment.order_no.clone(),
            activity: payment.activity.clone(),
            buyer: None,
            at: self.clock.now(),
            placement: None,
        };
        let _ = self.store.claim(&tombstone).await?;
        Ok(None)
    }

    async fn pay_late(&self, closed: &Order, payment: &Payment) -> Result<Option<Outcome>, Fault> {
        let activity = self.cache.get(&closed.placement.activity).await?;
        if let Some(activity) = activity.as_deref() {
            for _ in 0..LOOKS_MAX {
                let Some(parts) = self.find_parts(activity, closed).await? else { break };
                let revival = Revival {
                    closed,
                    payment,
                    charge: !closed.keeps_quota(activity.on_cancel),
                    limit_max: activity.limit.max,
                    parts,
                    at: self.clock.now(),
                };
                match self.store.pay_late(&revival).await? {
                    Commit::Committed => {
                        self.restore(activity, closed, &revival.parts).await;
                        return Ok(Some(Outcome::PaidLate));
                    }
                    Commit::Exists => return Ok(None),
                    Commit::Busy => {
                        return Err(Fault::not_applied("pay an expired order", "conflicts outlasted the retries"));
                    }
                    Commit::Short(_) => {}
                    Commit::LimitReached | Commit::CouponUsed | Commit::Frozen => break,
                }
            }
        }
        let due = self.due(payment, RefundReason::PaidTooLate);
        match self.store.record_refund(&due, Some(closed)).await? {
            Changed::Done => Ok(Some(Outcome::RefundDue(due.reason))),
            // Recorded already, when it came with other words: or the order changed, and is read again.
            Changed::Otherwise => {
                let recorded = self.store.refunds(&due.order_no).await?;
                let same = recorded.iter().find(|recorded| recorded.event_id == due.event_id);
                Ok(same.map(|recorded| Outcome::RefundDue(recorded.reason)))
            }
            Changed::Busy => Err(Fault::not_applied("record a refund", "conflicts outlasted the retries")),
        }
    }

    /// The order's units, wherever the database has them now.
    async fn find_parts(&self, activity: &Activity, closed: &Order) -> Result<Option<Vec<Part>>, Fault> {
        let skus: Vec<Sku> = closed.placement.lines.iter().map(|line| line.sku.clone()).collect();
        let stock = self.store.stock(activity, &skus).await?;
        Ok(fill_from_database(activity, &closed.placement, &stock))
    }

    /// The second take in Redis, in every bucket of either take. What fails, reconciliation restores.
    async fn restore(&self, activity: &Activity, closed: &Order, parts: &[Part]) {
        if !activity.strategy.uses_gate() {
            return;
        }
        let placement = &closed.placement;
        let revived = Order { parts: parts.to_vec(), ..closed.clone() };
        let mut buckets: Vec<Bucket> = [revived.buckets(), closed.buckets()].concat();
        buckets.sort_unstable();
        buckets.dedup();
        for bucket in buckets {
            if let Err(fault) = self.gate.restore(activity, placement, bucket, Take::SECOND, parts).await {
                tracing::warn!(order_no = %placement.order_no, %bucket, fault = fault.chain(), "restore_failed");
            }
        }
    }

    async fn refund(&self, order: &Order) -> Result<Option<Outcome>, Fault> {
        let activity = self.cache.get(&order.placement.activity).await?;
        let activity = activity.ok_or_else(|| Fault::not_applied("refund an order", "its activity is gone"))?;
        let ender = Ender { store: &self.store, gate: &self.gate, messages: &self.messages };
        let how = (Event::Refund, Operation::Refund, ACTOR);
        Ok(ender.end_by_policy(&activity, order, how, self.clock.now()).await?.map(|_| Outcome::Refunded))
    }
}
