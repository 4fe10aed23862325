//! Orders while Redis is gone, or only part of it, or admission is limited. See docs/protocol.md, "Redis
//! gone".

use super::{
    commit_order::Via,
    place_order::{PlaceOrder, Placed, Refusal, Subject, outside_window},
    submission::{home_parts, refused},
};
use crate::{
    domain::{activity::Activity, order::Placement},
    ports::{ActivityStore, AdmissionStore, Clock, Fault, Messages, OrderStore, StockGate, StockStore},
    telemetry::{self, Metric},
};

impl<D, G, M, C> PlaceOrder<D, G, M, C>
where
    D: ActivityStore + AdmissionStore + OrderStore + StockStore,
    G: StockGate,
    M: Messages,
    C: Clock,
{
    /// A submission whose home bucket does not answer, or has lost its memory.
    pub(super) async fn place_past_gate(
        &self,
        activity: &Activity,
        placement: &Placement,
        cause: &Fault,
    ) -> Result<Placed, Fault> {
        let now = self.clock.now();
        match outside_window(activity, now) {
            None => self.go_past_gate(activity, placement, cause).await,
            Some(Refusal::Ended) if self.admission.may_pass(now) => {
                // Redis may hold an earlier call of it, which a later one would go on with: claim first.
                self.give_up(activity, placement, &[], Refusal::Ended).await
            }
            Some(Refusal::Ended) => Ok(refused(Refusal::Limited)),
            Some(refusal) => self.tell_stored(placement, refusal).await,
        }
    }

    /// The same transaction without Redis, at the bounded rate. The order number keeps it single: what an
    /// earlier call stored is told, and whatever Redis may hold of it is settled by name afterwards. The
    /// window is not looked at: it was, or the submission was admitted in time.
    pub(super) async fn go_past_gate(
        &self,
        activity: &Activity,
        placement: &Placement,
        cause: &Fault,
    ) -> Result<Placed, Fault> {
        let now = self.clock.now();
        if !self.admission.may_pass(now) {
            return Ok(refused(Refusal::Limited));
        }
        self.admission.note_bypass(now).await;
        telemetry::count(Metric::PastRedis, 1);
        tracing::info!(order_no = %placement.order_no, cause = cause.chain(), "past_redis");
        self.commit(activity, placement, home_parts(placement), Via::Database).await
    }

    /// A refusal by Redis alone. It wrote nothing and needs no claim, but Redis may not know of the order
    /// that an earlier call of this submission placed past it: the database does.
    pub(super) async fn refuse(&self, subject: Subject<'_>, refusal: Refusal) -> Result<Placed, Fault> {
        if self.admission.state().await.may_have_passed(subject.token_expires_at) {
            return self.tell_stored(subject.placement, refusal).await;
        }
        Ok(refused(refusal))
    }

    /// Whether Redis holds a record of the submission: then it is a repeat, and takes no place of others.
    pub(super) async fn was_admitted(&self, activity: &Activity, placement: &Placement) -> bool {
        let recorded = async || self.gate.record(&activity.id, placement.home, &placement.order_no).await;
        activity.strategy.uses_gate() && matches!(recorded().await, Ok(Some(_)))
    }

    /// Admission is limited, and this submission is new as far as Redis knows.
    pub(super) async fn refuse_new(&self, subject: Subject<'_>) -> Result<Placed, Fault> {
        if subject.activity.strategy.uses_gate() {
            return self.refuse(subject, Refusal::Limited).await;
        }
        self.tell_stored(subject.placement, Refusal::Limited).await
    }
}
