//! A buyer gives an order up before it is paid, or a submission before it is known to be an order.

use std::sync::Arc;

use super::{
    end_order::{Ender, ROUNDS_MAX, changes_too_often},
    roll_back::{RollBackOrder, Settled},
};
use crate::{
    domain::{
        FORMAT,
        activity::Activity,
        ids::{ActivityId, BuyerId},
        order::{Event, Order, Status, Stored, Transition, next},
        order_no::OrderNo,
        stock::Operation,
        token::TokenKeys,
    },
    ports::{ActivityStore, Clock, Fault, Messages, OrderLife, OrderStore, RollBack, RollBackReason, StockGate},
};

/// Who marks the stock that comes back.
const ACTOR: &str = "cancel-order";

/// A parsed cancellation.
#[derive(Clone, Debug)]
pub struct Cancellation {
    pub activity: ActivityId,
    pub buyer: BuyerId,
    pub order_no: OrderNo,
    /// The submission's token: needed only where no order is stored yet.
    pub token: Option<String>,
}

/// What a cancellation comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Cancelled {
    /// By this call or an earlier one.
    Order(Box<Order>),
    /// The submission was given up and never becomes an order.
    Aborted(OrderNo),
    UnknownActivity,
    /// The buyer has no such order, and the token does not prove such a submission.
    UnknownOrder,
    /// It is to be refunded instead.
    AlreadyPaid,
    /// It expired or was refunded.
    Ended(Status),
}

pub struct CancelOrder<D, G, M, C> {
    pub roll_back: RollBackOrder<D, G, C>,
    pub messages: M,
    pub keys: Arc<TokenKeys>,
}

impl<D, G, M, C> CancelOrder<D, G, M, C>
where
    D: ActivityStore + OrderStore + OrderLife,
    G: StockGate,
    M: Messages,
    C: Clock,
{
    /// # Errors
    /// When the database does not answer: the same call may be sent again.
    pub async fn run(&self, asked: &Cancellation) -> Result<Cancelled, Fault> {
        let RollBackOrder { cache, store, .. } = &self.roll_back;
        let Some(activity) = cache.get(&asked.activity).await? else { return Ok(Cancelled::UnknownActivity) };
        for _ in 0..ROUNDS_MAX {
            let cancelled = match store.order(&asked.order_no).await? {
                Some(Stored::Order(order)) if owns(asked, &order) => self.end(&activity, order).await?,
                Some(Stored::Aborted(tombstone))
                    if tombstone.buyer.as_ref() == Some(&asked.buyer) || self.proves(asked) =>
                {
                    Some(Cancelled::Aborted(asked.order_no.clone()))
                }
                None if self.proves(asked) => self.give_up(&activity, asked).await?,
                _ => Some(Cancelled::UnknownOrder),
            };
            if let Some(cancelled) = cancelled {
                return Ok(cancelled);
            }
        }
        Err(changes_too_often())
    }

    /// Whether the number is that of the token's submission, and the token this buyer's. It may have expired:
    /// what it began may still be on its way.
    fn proves(&self, asked: &Cancellation) -> bool {
        let token = asked.token.as_ref().and_then(|token| self.keys.verify(token).ok());
        token.is_some_and(|token| {
            token.activity == asked.activity
                && token.buyer == asked.buyer
                && OrderNo::derive(&token.activity, &token.buyer, &token.id) == asked.order_no
        })
    }

    /// `None`: the order changed meanwhile.
    async fn end(&self, activity: &Activity, order: Order) -> Result<Option<Cancelled>, Fault> {
        let RollBackOrder { store, gate, clock, .. } = &self.roll_back;
        let ender = Ender { store, gate, messages: &self.messages };
        match next(Some(order.status), Event::Cancel) {
            Transition::To(..) => {
                let how = (Event::Cancel, Operation::Cancel, ACTOR);
                let dead = ender.end_by_policy(activity, &order, how, clock.now()).await?;
                Ok(dead.map(|order| Cancelled::Order(Box::new(order))))
            }
            Transition::Already => {
                ender.give_back(activity, &order).await;
                Ok(Some(Cancelled::Order(Box::new(order))))
            }
            Transition::Refused if order.status.is_live() => Ok(Some(Cancelled::AlreadyPaid)),
            Transition::Refused => Ok(Some(Cancelled::Ended(order.status))),
        }
    }

    /// The cancellation overtakes its order: the claim decides. `None`: the order came first.
    async fn give_up(&self, activity: &Activity, asked: &Cancellation) -> Result<Option<Cancelled>, Fault> {
        let message = RollBack {
            format: FORMAT,
            activity: asked.activity.clone(),
            order_no: asked.order_no.clone(),
            buyer: asked.buyer.clone(),
            home: asked.buyer.home(activity.buckets),
            buckets: Vec::new(),
            reason: RollBackReason::Cancelled,
        };
        match self.roll_back.run(&message).await? {
            Settled::Live => Ok(None),
            // The claim stored the tombstone, or found an order that came and died meanwhile: that one is
            // answered by how it ended, which may be this buyer's own cancellation.
            Settled::Restocked | Settled::LeftToReconciliation => {
                Ok(match self.roll_back.store.order(&asked.order_no).await? {
                    Some(Stored::Order(_)) => None,
                    _ => Some(Cancelled::Aborted(asked.order_no.clone())),
                })
            }
        }
    }
}

fn owns(asked: &Cancellation, order: &Order) -> bool {
    order.placement.buyer == asked.buyer && order.placement.activity == asked.activity
}
