//! Placing an order: token, home script, other buckets where needed, one database transaction; claim
//! before a refusal is told. See docs/protocol.md, "Place".

use std::sync::Arc;

pub use super::submission::{Placed, Refusal, Submission};
use super::{
    activity_cache::ActivityCache,
    fill_order::{Filled, Filling},
    submission::{home_parts, place, refused, tell, with_home},
};
use crate::{
    domain::{
        FORMAT,
        activity::{Activity, Strategy},
        ids::{Bucket, Sku},
        order::{Order, Part, Placement, Stored, Take},
        record::{Record, Side},
        time::UnixMillis,
        token::{Token, TokenKeys},
    },
    ports::{
        ActivityStore, Claim, Clock, Commit, Effect, Fault, GateRefusal, Messages, OrderStore, PlaceAnswer, PlaceCall,
        RollBack, RollBackReason, StockGate, StockStore,
    },
};

/// How long before the start a function refuses without asking Redis. Closer to it, Redis's clock
/// decides, so that a function whose clock is a little late does not refuse the first burst.
const START_MARGIN_MS: i64 = 1_000;
/// Delay of the message that settles an unknown outcome, in seconds: longer than any transaction that
/// is still on its way.
pub const UNKNOWN_DELAY_S: u16 = 10;
/// How often the transaction is tried when a stock item is short: once, then with other buckets.
const COMMITS_MAX: usize = 2;

pub struct PlaceOrder<D, G, M, C> {
    pub cache: ActivityCache<D>,
    pub store: D,
    pub gate: G,
    pub messages: M,
    pub clock: C,
    pub keys: Arc<TokenKeys>,
}

impl<D, G, M, C> PlaceOrder<D, G, M, C>
where
    D: ActivityStore + OrderStore + StockStore,
    G: StockGate,
    M: Messages,
    C: Clock,
{
    /// # Errors
    /// Broken infrastructure. Whatever was deducted stays recorded: a retry with the same token goes
    /// on from there, and reconciliation settles it otherwise.
    pub async fn run(&self, submission: Submission) -> Result<Placed, Fault> {
        let Some(activity) = self.cache.get(&submission.activity).await? else {
            return Ok(refused(Refusal::UnknownActivity));
        };
        let Ok(token) = self.keys.verify(&submission.token) else {
            return Ok(refused(Refusal::TokenInvalid));
        };
        if token.activity != submission.activity || token.buyer != submission.buyer {
            return Ok(refused(Refusal::TokenInvalid));
        }
        let now = self.clock.now();
        let placement = match place(&activity, &submission, &token, now) {
            Ok(placement) => placement,
            Err(refusal) => return Ok(refused(refusal)),
        };
        if token.expires_at <= now {
            return self.place_expired(&activity, &placement).await;
        }
        let too_early = now.plus_ms(START_MARGIN_MS) < activity.window.starts_at;
        if too_early || !activity.ready {
            let over = now >= activity.window.ends_at;
            return Ok(refused(if over { Refusal::Ended } else { Refusal::NotStarted }));
        }
        match activity.strategy {
            Strategy::Prededuct => self.place_through_gate(activity, placement, &submission, &token).await,
            Strategy::Cas => self.place_without_gate(&activity, placement, now).await,
            // Refused when the activity is saved; an activity of a newer version may name them.
            Strategy::Lock | Strategy::Queued => Ok(refused(Refusal::Unavailable)),
        }
    }

    /// A token past its life admits nothing new, but still names its order.
    async fn place_expired(&self, activity: &Activity, placement: &Placement) -> Result<Placed, Fault> {
        if let Some(stored) = self.store.order(&placement.order_no).await? {
            return Ok(tell(placement, stored));
        }
        if !activity.strategy.uses_gate() {
            return Ok(refused(Refusal::TokenInvalid));
        }
        match self.gate.record(&activity.id, placement.home, &placement.order_no).await? {
            Some(Ok(record)) if record.side == Side::Deducted => {
                if record.lines_hash.as_ref() != Some(&placement.lines_hash) {
                    return Ok(refused(Refusal::TokenMismatch));
                }
                self.resume(activity, placement, record).await
            }
            Some(Ok(_)) => Ok(refused(Refusal::OrderAborted)),
            Some(Err(_)) => Ok(refused(Refusal::Unavailable)),
            None => Ok(refused(Refusal::TokenInvalid)),
        }
    }

    async fn place_through_gate(
        &self,
        mut activity: Arc<Activity>,
        mut placement: Placement,
        submission: &Submission,
        token: &Token,
    ) -> Result<Placed, Fault> {
        let mut answer = self.ask_gate(&activity, &placement, false).await?;
        if answer == PlaceAnswer::ConfigurationChanged {
            let Some(reloaded) = self.cache.reload(&submission.activity).await? else {
                return Ok(refused(Refusal::UnknownActivity));
            };
            activity = reloaded;
            placement = match place(&activity, submission, token, placement.created_at) {
                Ok(placement) => placement,
                Err(refusal) => return Ok(refused(refusal)),
            };
            answer = self.ask_gate(&activity, &placement, false).await?;
        }
        match answer {
            PlaceAnswer::Admitted(_) => {
                let parts = home_parts(&placement);
                self.commit(&activity, &placement, parts).await
            }
            PlaceAnswer::Short(free) => {
                match Filling::new(&self.gate, &activity, &placement).after_short(&free).await? {
                    Ok(filled) => self.go_on(&activity, &placement, filled).await,
                    Err(other) => self.answer(&activity, &placement, other).await,
                }
            }
            other => self.answer(&activity, &placement, other).await,
        }
    }

    async fn ask_gate(&self, activity: &Activity, placement: &Placement, look: bool) -> Result<PlaceAnswer, Fault> {
        self.gate.place(PlaceCall { activity, placement, look }).await
    }

    /// What the home script said that ends the matter, or hands it to an earlier call's record.
    async fn answer(&self, activity: &Activity, placement: &Placement, answer: PlaceAnswer) -> Result<Placed, Fault> {
        Ok(refused(match answer {
            PlaceAnswer::Replayed(record) => return self.resume(activity, placement, *record).await,
            PlaceAnswer::GivenBack => return self.tell_stored(placement, Refusal::OrderAborted).await,
            PlaceAnswer::MemoryLost => {
                let over = self.clock.now() >= activity.window.ends_at;
                let otherwise = if over { Refusal::Ended } else { Refusal::Unavailable };
                return self.tell_stored(placement, otherwise).await;
            }
            PlaceAnswer::Mismatch => Refusal::TokenMismatch,
            PlaceAnswer::Refused(GateRefusal::LimitReached(orders)) => {
                // The mark counts this very submission: its record was lost, its order may be there.
                if orders.contains(&placement.order_no) {
                    return self.tell_stored(placement, Refusal::LimitReached(orders)).await;
                }
                Refusal::LimitReached(orders)
            }
            PlaceAnswer::Refused(GateRefusal::NotStarted) => Refusal::NotStarted,
            PlaceAnswer::Refused(GateRefusal::Ended) => Refusal::Ended,
            PlaceAnswer::Refused(GateRefusal::Frozen) => Refusal::Frozen,
            PlaceAnswer::Refused(GateRefusal::Limited) => Refusal::Limited,
            PlaceAnswer::BadData => {
                tracing::error!(order_no = %placement.order_no, bucket = %placement.home, "bad_data");
                Refusal::Unavailable
            }
            // Redis holds another version than the database: reconciliation or the operator's call
            // brings it over. Admitted and Short are handled by the caller.
            PlaceAnswer::ConfigurationChanged | PlaceAnswer::Short(_) | PlaceAnswer::Admitted(_) => {
                Refusal::Unavailable
            }
        }))
    }

    /// Goes on where an earlier call of the submission stopped, with that call's lines, prices and day.
    async fn resume(&self, activity: &Activity, asked: &Placement, record: Record) -> Result<Placed, Fault> {
        if let Some(stored) = self.store.order(&asked.order_no).await? {
            return Ok(tell(asked, stored));
        }
        let Some(placement) = record.placement else {
            tracing::error!(order_no = %asked.order_no, bucket = %asked.home, "bad_data");
            return Ok(refused(Refusal::Unavailable));
        };
        let held: Vec<u32> = placement
            .lines
            .iter()
            .map(|line| record.held.iter().find(|(sku, _)| *sku == line.sku).map_or(0, |(_, units)| *units))
            .collect();
        let filled = Filling::new(&self.gate, activity, &placement).with_home(&held).await?;
        self.go_on(activity, &placement, filled).await
    }

    async fn go_on(&self, activity: &Activity, placement: &Placement, filled: Filled) -> Result<Placed, Fault> {
        match filled {
            Filled::Parts(parts) => self.commit(activity, placement, parts).await,
            Filled::GivenBack => self.tell_stored(placement, Refusal::OrderAborted).await,
            Filled::NothingWritten(refusal) => Ok(refused(refusal)),
            Filled::StillHeld { refusal, buckets } => self.give_up(activity, placement, &buckets, refusal).await,
        }
    }

    async fn place_without_gate(
        &self,
        activity: &Activity,
        placement: Placement,
        now: UnixMillis,
    ) -> Result<Placed, Fault> {
        if now >= activity.window.ends_at {
            return self.tell_stored(&placement, Refusal::Ended).await;
        }
        if now < activity.window.starts_at {
            return Ok(refused(Refusal::NotStarted));
        }
        let parts = home_parts(&placement);
        self.commit(activity, &placement, parts).await
    }

    /// The transaction, and once more with other buckets when a stock item is short.
    async fn commit(&self, activity: &Activity, placement: &Placement, parts: Vec<Part>) -> Result<Placed, Fault> {
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
                    let orders = self.store.buyer_orders(&placement.activity, &placement.buyer).await;
                    Refusal::LimitReached(orders.unwrap_or_default())
                }
                Commit::Frozen => Refusal::Frozen,
                Commit::Short(short) if attempt < COMMITS_MAX => {
                    match self.other_parts(activity, &order, &short).await? {
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

    /// Other buckets for an order whose stock items were short.
    async fn other_parts(&self, activity: &Activity, order: &Order, short: &[(Sku, Bucket)]) -> Result<Filled, Fault> {
        let filling = Filling::new(&self.gate, activity, &order.placement);
        if activity.strategy.uses_gate() {
            return filling.after_database_short(&order.parts, short).await;
        }
        let skus: Vec<Sku> = order.placement.lines.iter().map(|line| line.sku.clone()).collect();
        let stock = self.store.stock(activity, &skus).await?;
        Ok(filling.from_database(&stock))
    }

    /// Gives a submission up: the claim first, and only when it is stored is the refusal told.
    async fn give_up(
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
        if activity.strategy.uses_gate() {
            let mut failed = false;
            for bucket in with_home(placement.home, buckets) {
                let restocked = self.gate.restock(activity, &placement.order_no, bucket, Take::FIRST, false).await;
                if let Err(fault) = restocked {
                    tracing::warn!(order_no = %placement.order_no, %bucket, fault = fault.chain(), "restock_failed");
                    failed = true;
                }
            }
            if failed {
                // The refusal is final all the same: the tombstone is stored.
                let _ = self.settle_later(placement, buckets, RollBackReason::RestockFailed).await;
            }
        }
        Ok(refused(refusal))
    }

    /// Asks for the submission to be settled after a while. When even that cannot be sent,
    /// reconciliation finds the record.
    async fn settle_later(&self, placement: &Placement, buckets: &[Bucket], reason: RollBackReason) -> Placed {
        let message = RollBack {
            format: FORMAT,
            activity: placement.activity.clone(),
            order_no: placement.order_no.clone(),
            buyer: placement.buyer.clone(),
            home: placement.home,
            buckets: with_home(placement.home, buckets),
            reason,
        };
        if let Err(fault) = self.messages.send_roll_back(&message, UNKNOWN_DELAY_S).await {
            tracing::error!(order_no = %placement.order_no, fault = fault.chain(), "roll_back_not_sent");
        }
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
        Ok(tell(placement, stored))
    }

    /// The state of the submission's order, or this refusal when none is stored.
    async fn tell_stored(&self, placement: &Placement, otherwise: Refusal) -> Result<Placed, Fault> {
        let stored = self.store.order(&placement.order_no).await?;
        Ok(stored.map_or(refused(otherwise), |stored| tell(placement, stored)))
    }
}
