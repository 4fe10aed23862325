//! Placing an order: token, home script, other buckets where needed, one database transaction; claim
//! before a refusal is told. See docs/protocol.md, "Place".

use std::sync::Arc;

use tokio::time::Instant;

pub use super::submission::{Placed, Refusal, Submission};
use super::{
    activity_cache::ActivityCache,
    admission::AdmissionControl,
    commit_order::Via,
    fill_order::{Filled, Filling},
    stock_memory::StockMemory,
    submission::{home_parts, place, refused, tell},
};
use crate::{
    domain::{
        activity::{Activity, Strategy},
        order::Placement,
        record::{Record, Side},
        time::UnixMillis,
        token::{Token, TokenKeys},
    },
    ports::{
        ActivityStore, AdmissionStore, Clock, Fault, GateRefusal, Messages, OrderStore, PlaceAnswer, PlaceCall,
        StockGate, StockStore,
    },
    telemetry::{self, Metric},
};

/// How long before the start a function refuses without asking Redis. Closer to it, Redis's clock
/// decides, so that a function whose clock is a little late does not refuse the first burst.
const START_MARGIN_MS: i64 = 1_000;

pub struct PlaceOrder<D, G, M, C> {
    pub cache: ActivityCache<D>,
    pub admission: AdmissionControl<D>,
    pub store: D,
    pub gate: G,
    pub messages: M,
    pub clock: C,
    pub keys: Arc<TokenKeys>,
    pub memory: StockMemory,
}

/// One submission on its way.
#[derive(Clone, Copy)]
pub(super) struct Subject<'a> {
    pub activity: &'a Activity,
    pub placement: &'a Placement,
    pub token_expires_at: UnixMillis,
}

impl<D, G, M, C> PlaceOrder<D, G, M, C>
where
    D: ActivityStore + AdmissionStore + OrderStore + StockStore,
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
        let placement = match place(&activity, &submission, (&token, &self.keys), now) {
            Ok(placement) => placement,
            Err(refusal) => return Ok(refused(refusal)),
        };
        if token.expires_at <= now {
            return self.place_expired(&activity, &placement, token.expires_at).await;
        }
        let too_early = now.plus_ms(START_MARGIN_MS) < activity.window.starts_at;
        if too_early || !activity.ready {
            let over = now >= activity.window.ends_at;
            return Ok(refused(if over { Refusal::Ended } else { Refusal::NotStarted }));
        }
        if self.admission.state().await.is_limited(now)
            && !self.admission.may_submit(now)
            && !self.was_admitted(&activity, &placement).await
        {
            let subject = Subject { activity: &activity, placement: &placement, token_expires_at: token.expires_at };
            return self.refuse_new(subject).await;
        }
        match activity.strategy {
            Strategy::Prededuct => self.place_through_gate(activity, placement, &submission, &token).await,
            Strategy::Cas => self.place_without_gate(&activity, placement, now).await,
            // Refused when the activity is saved; an activity of a newer version may name them.
            Strategy::Lock | Strategy::Queued => Ok(refused(Refusal::Unavailable)),
        }
    }

    /// A token past its life admits nothing new, but still names its order.
    async fn place_expired(
        &self,
        activity: &Activity,
        placement: &Placement,
        token_expires_at: UnixMillis,
    ) -> Result<Placed, Fault> {
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
                self.resume(Subject { activity, placement, token_expires_at }, record).await
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
        let asked_at = Instant::now();
        let mut answer = match self.ask_gate(&activity, &placement).await {
            Ok(answer) => answer,
            Err(fault) => return self.place_past_gate(&activity, &placement, &fault).await,
        };
        if answer == PlaceAnswer::ConfigurationChanged {
            let Some(reloaded) = self.cache.reload(&submission.activity).await? else {
                return Ok(refused(Refusal::UnknownActivity));
            };
            activity = reloaded;
            placement = match place(&activity, submission, (token, &self.keys), placement.created_at) {
                Ok(placement) => placement,
                Err(refusal) => return Ok(refused(refusal)),
            };
            answer = match self.ask_gate(&activity, &placement).await {
                Ok(answer) => answer,
                Err(fault) => return self.place_past_gate(&activity, &placement, &fault).await,
            };
        }
        let subject = Subject { activity: &activity, placement: &placement, token_expires_at: token.expires_at };
        match answer {
            // The database has none: what Redis admits nonetheless goes back at once, without asking the database.
            PlaceAnswer::Admitted(_) if self.memory.is_exhausted(&placement) => {
                let filling = Filling::new(&self.gate, &activity, &placement, &self.memory);
                self.go_on(subject, filling.let_go(Refusal::SoldOut).await).await
            }
            PlaceAnswer::Short(_) if self.memory.is_exhausted(&placement) => {
                self.refuse(subject, Refusal::SoldOut).await
            }
            PlaceAnswer::Admitted(held) => {
                match Filling::new(&self.gate, &activity, &placement, &self.memory).with_home(&held).await {
                    Ok(filled) => self.go_on(subject, filled).await,
                    Err(fault) => self.go_past_gate(&activity, &placement, &fault).await,
                }
            }
            PlaceAnswer::Short(free) => {
                let filling = Filling::new(&self.gate, &activity, &placement, &self.memory);
                match filling.after_short(&free, asked_at).await {
                    Ok(Ok(filled)) => self.go_on(subject, filled).await,
                    Ok(Err(other)) => self.answer(subject, other).await,
                    Err(fault) => self.go_past_gate(&activity, &placement, &fault).await,
                }
            }
            other => self.answer(subject, other).await,
        }
    }

    async fn ask_gate(&self, activity: &Activity, placement: &Placement) -> Result<PlaceAnswer, Fault> {
        // Where home is known to be short and another bucket to have it, home takes what it has at once.
        let look = self.memory.is_elsewhere(activity, placement);
        self.gate.place(PlaceCall { activity, placement, look }).await
    }

    /// What the home script said that ends the matter, or hands it to an earlier call's record.
    async fn answer(&self, subject: Subject<'_>, answer: PlaceAnswer) -> Result<Placed, Fault> {
        let Subject { activity, placement, .. } = subject;
        let refusal = match answer {
            PlaceAnswer::Replayed(record) => return self.resume(subject, *record).await,
            PlaceAnswer::GivenBack => return self.tell_stored(placement, Refusal::OrderAborted).await,
            PlaceAnswer::MemoryLost if self.clock.now() >= activity.window.ends_at => {
                return self.tell_stored(placement, Refusal::Ended).await;
            }
            PlaceAnswer::MemoryLost => {
                let fault = Fault::not_applied("place_order", "the bucket's memory is lost");
                return self.place_past_gate(activity, placement, &fault).await;
            }
            PlaceAnswer::Mismatch => return Ok(refused(Refusal::TokenMismatch)),
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
                telemetry::count(Metric::BadData, 1);
                tracing::error!(order_no = %placement.order_no, bucket = %placement.home, "bad_data");
                Refusal::Unavailable
            }
            // Redis holds another version than the database: reconciliation or the operator's call
            // brings it over. Admitted and Short are handled by the caller.
            PlaceAnswer::ConfigurationChanged | PlaceAnswer::Short(_) | PlaceAnswer::Admitted(_) => {
                Refusal::Unavailable
            }
        };
        self.refuse(subject, refusal).await
    }

    /// Goes on where an earlier call of the submission stopped, with that call's lines, prices and day.
    async fn resume(&self, subject: Subject<'_>, record: Record) -> Result<Placed, Fault> {
        let Subject { activity, placement: asked, .. } = subject;
        if let Some(stored) = self.store.order(&asked.order_no).await? {
            return Ok(tell(asked, stored));
        }
        let Some(placement) = record.placement else {
            telemetry::count(Metric::BadData, 1);
            tracing::error!(order_no = %asked.order_no, bucket = %asked.home, "bad_data");
            return Ok(refused(Refusal::Unavailable));
        };
        let held: Vec<u32> = placement
            .lines
            .iter()
            .map(|line| record.held.iter().find(|(sku, _)| *sku == line.sku).map_or(0, |(_, units)| *units))
            .collect();
        match Filling::new(&self.gate, activity, &placement, &self.memory).with_home(&held).await {
            Ok(filled) => self.go_on(Subject { placement: &placement, ..subject }, filled).await,
            Err(fault) => self.go_past_gate(activity, &placement, &fault).await,
        }
    }

    async fn go_on(&self, subject: Subject<'_>, filled: Filled) -> Result<Placed, Fault> {
        let Subject { activity, placement, .. } = subject;
        match filled {
            Filled::Parts(parts) => self.commit(activity, placement, parts, Via::Gate).await,
            Filled::GivenBack => self.tell_stored(placement, Refusal::OrderAborted).await,
            // Buckets that could not be looked into may have stock: the database knows.
            Filled::NothingWritten(Refusal::Unavailable) | Filled::StillHeld { refusal: Refusal::Unavailable, .. } => {
                let fault = Fault::not_applied("fill order", "not every bucket could be looked into");
                self.go_past_gate(activity, placement, &fault).await
            }
            Filled::NothingWritten(refusal) => self.refuse(subject, refusal).await,
            Filled::StillHeld { refusal, buckets } => self.give_up(activity, placement, &buckets, refusal).await,
        }
    }

    async fn place_without_gate(
        &self,
        activity: &Activity,
        placement: Placement,
        now: UnixMillis,
    ) -> Result<Placed, Fault> {
        if let Some(refusal) = outside_window(activity, now) {
            return self.tell_stored(&placement, refusal).await;
        }
        if self.memory.is_exhausted(&placement) {
            return self.tell_stored(&placement, Refusal::SoldOut).await;
        }
        let parts = home_parts(&placement);
        self.commit(activity, &placement, parts, Via::Database).await
    }
}

/// What the window says by this process's clock, where Redis's is not asked.
pub(super) fn outside_window(activity: &Activity, now: UnixMillis) -> Option<Refusal> {
    if now >= activity.window.ends_at {
        Some(Refusal::Ended)
    } else {
        (now < activity.window.starts_at).then_some(Refusal::NotStarted)
    }
}
