//! Ending a committed order: the database first, Redis second. See docs/protocol.md, "Cancel, expire,
//! refund, pay late".

use super::give_back::{GiveBack, ask_to_settle};
use crate::{
    domain::{
        activity::Activity,
        ids::{ActivityId, BuyerId},
        money::Money,
        order::{EndedBy, Event, Order, Status, Stored, Transition, next},
        order_no::OrderNo,
        payment::{PaymentId, RefundDue, RefundReason},
        reason::Reason,
        stock::Operation,
        time::UnixMillis,
    },
    ports::{ActivityStore, Changed, Clock, Ending, Fault, Messages, OrderLife, OrderStore, RollBackReason, StockGate},
};

/// How often an order is read again when it changed while it was ended.
pub(super) const ROUNDS_MAX: usize = 5;

/// The clients that ending an order needs.
pub(super) struct Ender<'a, D, G, M> {
    pub store: &'a D,
    pub gate: &'a G,
    pub messages: &'a M,
}

impl<D: OrderLife, G: StockGate, M: Messages> Ender<'_, D, G, M> {
    /// The transition, then the units back. `None` when the order is another than it was read: read again.
    ///
    /// # Errors
    /// When the database did not answer, or is too busy: nothing is given back then.
    pub async fn end(&self, activity: &Activity, order: &Order, ending: &Ending) -> Result<Option<Order>, Fault> {
        match self.store.end(order, ending).await? {
            Changed::Done => {}
            Changed::Otherwise => return Ok(None),
            Changed::Busy => return Err(Fault::not_applied("end an order", "conflicts outlasted the retries")),
        }
        let Transition::To(status, _) = next(Some(order.status), ending.event) else { return Ok(None) };
        let (updated_at, ended_by) = (ending.at, ending.ended_by.clone());
        let dead = Order { status, updated_at, ended_by, ..order.clone() };
        self.give_back(activity, &dead).await;
        Ok(Some(dead))
    }

    /// The same as the system does it, with the quota as the activity's policy says.
    pub async fn end_by_policy(
        &self,
        activity: &Activity,
        order: &Order,
        (event, operation, actor): (Event, Operation, &str),
        at: UnixMillis,
    ) -> Result<Option<Order>, Fault> {
        let Transition::To(to, _) = next(Some(order.status), event) else { return Ok(None) };
        let keep_quota = keeps_by_policy(activity, order, to);
        let actor = actor.to_owned();
        let ending = Ending { event, at, keep_quota, operation, actor, ended_by: None, refund: None };
        self.end(activity, order, &ending).await
    }

    /// Units of an order that is dead, to wherever Redis holds some, and a message where that fails. Again, when
    /// an earlier call may have died before it: each take goes back once.
    pub async fn give_back(&self, activity: &Activity, dead: &Order) {
        let buckets = dead.buckets();
        let back = GiveBack {
            order_no: &dead.placement.order_no,
            buckets: &buckets,
            take: dead.take,
            keep_mark: dead.keeps_quota(activity.on_cancel),
            submission: Some(&dead.placement),
        };
        if activity.strategy.uses_gate() && !back.run(self.gate, activity).await {
            ask_to_settle(self.messages, &dead.placement, &buckets, RollBackReason::RestockFailed, 0).await;
        }
    }
}

/// Whether the quota of an order that ends so stays used, if nobody says otherwise.
fn keeps_by_policy(activity: &Activity, order: &Order, to: Status) -> bool {
    Order { status: to, ..order.clone() }.keeps_quota(activity.on_cancel)
}

/// What an operator asks for.
#[derive(Clone, Debug)]
pub struct OperatorRequest {
    pub activity: ActivityId,
    pub order_no: OrderNo,
    pub operator: BuyerId,
    pub reason: Reason,
    /// Whether the buyer may buy again; by the activity's policy when it is not said.
    pub release_quota: Option<bool>,
}

/// What an operator's cancel or refund comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum OperatorEnded {
    /// Ended so, by this call or before.
    Order(Box<Order>),
    UnknownActivity,
    UnknownOrder,
    /// Cancelling needs an order that is not paid.
    AlreadyPaid,
    /// Refunding needs one that is.
    NotPaid,
    /// It ended another way, or is on its way to the buyer.
    NotPossible(Status),
    /// Another amount than the order's: orders are refunded as a whole.
    PartialRefund,
}

/// An operator's cancel and refund.
pub struct OperateOrder<D, G, M, C> {
    pub store: D,
    pub gate: G,
    pub messages: M,
    pub clock: C,
}

impl<D, G, M, C> OperateOrder<D, G, M, C>
where
    D: ActivityStore + OrderStore + OrderLife,
    G: StockGate,
    M: Messages,
    C: Clock,
{
    /// Cancels an order that is not paid.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn cancel(&self, request: &OperatorRequest) -> Result<OperatorEnded, Fault> {
        self.end(request, Event::Cancel, None).await
    }

    /// Refunds a paid order as a whole: its units go back on sale, and its money to the buyer.
    ///
    /// # Errors
    /// When the database does not answer.
    pub async fn refund(&self, request: &OperatorRequest, amount: Option<Money>) -> Result<OperatorEnded, Fault> {
        self.end(request, Event::Refund, amount).await
    }

    async fn end(
        &self,
        request: &OperatorRequest,
        event: Event,
        amount: Option<Money>,
    ) -> Result<OperatorEnded, Fault> {
        let Some(activity) = self.store.activity(&request.activity).await? else {
            return Ok(OperatorEnded::UnknownActivity);
        };
        let ender = Ender { store: &self.store, gate: &self.gate, messages: &self.messages };
        for _ in 0..ROUNDS_MAX {
            let order = match self.store.order(&request.order_no).await? {
                Some(Stored::Order(order)) if order.placement.activity == activity.id => order,
                _ => return Ok(OperatorEnded::UnknownOrder),
            };
            if amount.is_some_and(|amount| amount != order.placement.total()) {
                return Ok(OperatorEnded::PartialRefund);
            }
            match next(Some(order.status), event) {
                Transition::To(to, _) => {
                    let ending = self.ending(request, &activity, &order, (event, to));
                    if let Some(dead) = ender.end(&activity, &order, &ending).await? {
                        return Ok(OperatorEnded::Order(Box::new(dead)));
                    }
                }
                Transition::Already => {
                    ender.give_back(&activity, &order).await;
                    return Ok(OperatorEnded::Order(Box::new(order)));
                }
                Transition::Refused => {
                    return Ok(match (event, order.status) {
                        (Event::Cancel, Status::Paid) => OperatorEnded::AlreadyPaid,
                        (Event::Refund, Status::PendingPayment) => OperatorEnded::NotPaid,
                        (_, status) => OperatorEnded::NotPossible(status),
                    });
                }
            }
        }
        Err(changes_too_often())
    }

    fn ending(
        &self,
        request: &OperatorRequest,
        activity: &Activity,
        order: &Order,
        (event, to): (Event, Status),
    ) -> Ending {
        let at = self.clock.now();
        let quota_kept = request.release_quota.map_or(keeps_by_policy(activity, order, to), |release| !release);
        let (operator, reason) = (request.operator.as_str().to_owned(), request.reason.as_str().to_owned());
        let (operation, refund) = match event {
            Event::Refund => (Operation::Refund, Some(operators_refund(order, at))),
            _ => (Operation::Cancel, None),
        };
        let ended_by = Some(EndedBy { operator: operator.clone(), reason, quota_kept });
        Ending { event, at, keep_quota: quota_kept, operation, actor: operator, ended_by, refund }
    }
}

/// The money of an order that an operator refunds: one of each take.
fn operators_refund(order: &Order, at: UnixMillis) -> RefundDue {
    let placement = &order.placement;
    RefundDue {
        order_no: placement.order_no.clone(),
        activity: placement.activity.clone(),
        event_id: PaymentId::of_operator(order.take),
        amount: placement.total(),
        currency: placement.currency.clone(),
        reason: RefundReason::Operator,
        at,
    }
}

pub(super) fn changes_too_often() -> Fault {
    Fault::not_applied("end an order", "the order changes too often")
}
