//! What runs beside the placing calls, one step at a time: the consumer, cancellation and payment,
//! reconciliation, the operator, the batch.

use std::sync::Arc;

use crate::{
    place::with_home,
    product::{Repair, Sight, decide},
    protocol::{How, Protocol},
    reference::{
        Bucket, Event, OrderId, Part, Placement, Sku, Status, Take,
        changes::Changed,
        database::{Claim, Commit, Draft, Order, Stored},
        gate::Record,
        stock::Moved,
    },
    scenario::{Bug, Move, Reached},
    state::{Broken, Job, Late, Listed, Message, State, Then},
    stores::deduct,
};

impl Protocol {
    /// Makes the next step of a job, which is taken out of the state and put back if it goes on.
    pub(crate) fn step_job(&self, state: &mut State, index: usize, how: How) {
        let next = match state.jobs.remove(index) {
            Job::Restock { order, take, keep_mark, todo, then } => {
                self.restock_job(state, order, (take, keep_mark), todo, then, how)
            }
            Job::Restore { order, mut todo } => {
                let bucket = todo.remove(0);
                if how == How::Late {
                    state.late.push(Late::Restore { order: order.clone(), bucket });
                }
                if how.applied() {
                    self.restore(state, &order, bucket);
                }
                (!todo.is_empty()).then_some(Job::Restore { order, todo })
            }
            Job::Confirm { order, bucket, record, home, marked, listed } => match (home, marked, listed) {
                (_, _, Listed::Unread(stored)) => Some(confirm(state, order, bucket, Listed::Kept(stored))),
                (Some(home), None, listed) => {
                    let marked = Some(state.gate(bucket).marked(&home));
                    Some(Job::Confirm { order, bucket, record, home: Some(home), marked, listed })
                }
                (home, marked, listed) => {
                    let sight = (record.as_ref(), home.is_some(), marked.unwrap_or(false));
                    self.decide_repair(state, order, bucket, sight, listed)
                }
            },
            Job::RepairRestore { order, bucket } => {
                self.restore(state, &order, bucket);
                None
            }
            Job::RepairClaim { order, placement, bucket } => self.repair_claim(state, order, placement, bucket),
            Job::Sync { bucket, allotments } => {
                self.sync(state, bucket, &allotments);
                None
            }
            Job::Difference { bucket, more } => {
                if let Some(counters) = state.gate_mut(bucket).skus.get_mut(Sku(0)) {
                    counters.free += more;
                    counters.allotted = counters.allotted.saturating_add_signed(i16::try_from(more).unwrap_or(0));
                }
                None
            }
            Job::Sum { sku, bucket, version, available, allotted } => {
                let target = allotted.saturating_sub(state.database.live_units(sku, bucket));
                (target != available).then_some(Job::CorrectSum { sku, bucket, version, available: target })
            }
            Job::CorrectSum { sku, bucket, version, available } => {
                let current = state.database.stock.get((sku, bucket)).map_or(version, |item| item.version);
                let version = if self.scenario.has(Bug::SumWithoutVersion) { current } else { version };
                state.database_mut().correct_available(sku, bucket, version, available);
                None
            }
            Job::Batch { drafts } => self.batch(state, drafts),
            Job::BatchClaim { draft } => self.batch_claim(state, &draft),
        };
        state.jobs.extend(next);
    }

    fn restock_job(
        &self,
        state: &mut State,
        order: OrderId,
        (take, keep_mark): (Take, bool),
        mut todo: Vec<Bucket>,
        then: Then,
        how: How,
    ) -> Option<Job> {
        let bucket = todo.remove(0);
        if how == How::Late {
            state.late.push(Late::Restock { order, bucket, take, keep_mark });
        }
        if how.applied() {
            self.restock(state, order, bucket, take, keep_mark);
        }
        if !todo.is_empty() {
            return Some(Job::Restock { order, take, keep_mark, todo, then });
        }
        match then {
            Then::Nothing => {}
            Then::Claim => drop(self.claim(state, order, None)),
            Then::Finish(event) => drop(self.finish(state, order, event)),
        }
        None
    }

    /// The consumer takes a rollback message: the claim, then the restocks.
    pub(crate) fn deliver(&self, state: &mut State, message: &Message) {
        let Message { placement, buckets } = message;
        let (order, home) = (placement.order, placement.home);
        let (take, keep_mark) = (Take::FIRST, false);
        let todo = with_home(home, buckets.iter().copied());
        if self.scenario.has(Bug::RestockBeforeClaim) {
            state.jobs.push(Job::Restock { order, take, keep_mark, todo, then: Then::Claim });
            return;
        }
        let known = state.gate(home).records.get(order).and_then(|record| record.placement.clone());
        let then = Then::Nothing;
        match self.claim(state, order, known) {
            Claim::Order(found) if found.status.is_live() => {}
            Claim::Order(found) => {
                let (take, keep_mark) = (found.take, self.keeps_mark(&found));
                let todo = with_home(home, found.buckets().into_iter().chain(todo));
                state.jobs.push(Job::Restock { order, take, keep_mark, todo, then });
            }
            Claim::Aborted => state.jobs.push(Job::Restock { order, take, keep_mark, todo, then }),
        }
    }

    /// Cancel, expiry, refund: the database, then the restocks.
    pub(crate) fn end(&self, state: &mut State, order: OrderId, event: Event) {
        let Some(Stored::Order(found)) = state.database.order(order).cloned() else { return };
        let todo = found.buckets();
        let take = found.take;
        if self.scenario.has(Bug::RestockBeforeCancel) {
            state.jobs.push(Job::Restock { order, take, keep_mark: false, todo, then: Then::Finish(event) });
        } else if self.finish(state, order, event) == Changed::Done
            && let Some(Stored::Order(ended)) = state.database.order(order)
        {
            let keep_mark = self.keeps_mark(ended);
            state.jobs.push(Job::Restock { order, take, keep_mark, todo, then: Then::Nothing });
        }
    }

    /// A cancellation that overtakes its order: with the token the number is known, and it is given up.
    pub(crate) fn cancel_unseen(&self, state: &mut State, order: OrderId) {
        let placement = self.placement(order, 0);
        if self.claim(state, order, None) == Claim::Aborted {
            state.ghost_mut(order).told_refused = true;
            let todo = vec![placement.home];
            state.jobs.push(Job::Restock { order, take: Take::FIRST, keep_mark: false, todo, then: Then::Nothing });
        }
    }

    /// A payment; one that comes late takes all its stock from one bucket.
    pub(crate) fn pay_order(&self, state: &mut State, order: OrderId, bucket: Bucket) {
        let Some(Stored::Order(before)) = state.database.order(order).cloned() else { return };
        let lines = &before.placement.lines;
        let parts: Vec<Part> = lines.iter().map(|(sku, units)| Part { sku: *sku, bucket, units: *units }).collect();
        let paid = self.pay(state, order, &parts);
        if paid == Commit::Committed
            && before.status == Status::Closed
            && let Some(Stored::Order(paid)) = state.database.order(order).cloned()
        {
            let todo = with_home(paid.placement.home, paid.buckets().into_iter().chain(before.buckets()));
            state.jobs.push(Job::Restore { order: paid, todo });
        }
    }

    pub(crate) fn try_move(&self, state: &mut State, index: usize) {
        if self.make_move(state, index) != Moved::Done || !self.scenario.has(Bug::SyncByDifference) {
            return;
        }
        let differences = match self.scenario.moves[index] {
            Move::Units { from, to, units } => vec![(from, -i32::from(units)), (to, i32::from(units))],
            Move::Adjust { bucket, more } => vec![(bucket, i32::from(more))],
        };
        state.jobs.extend(differences.into_iter().map(|(bucket, more)| Job::Difference { bucket, more }));
    }

    pub(crate) fn start_confirm(&self, state: &State, order: OrderId, bucket: Bucket) -> Job {
        let stored = || state.database.order(order).cloned().map(Box::new);
        if self.scenario.has(Bug::OrderReadBeforeRecord) {
            let listed = Listed::Unread(stored());
            return Job::Confirm { order, bucket, record: None, home: None, marked: None, listed };
        }
        let kept = self.scenario.has(Bug::AbsenceFromListing);
        confirm(state, order, bucket, if kept { Listed::Kept(stored()) } else { Listed::Forgotten })
    }

    fn decide_repair(
        &self,
        state: &mut State,
        order: OrderId,
        bucket: Bucket,
        (record, at_home, marked): (Option<&Record>, bool, bool),
        listed: Listed,
    ) -> Option<Job> {
        let stored = match listed {
            Listed::Kept(None) if self.scenario.has(Bug::AbsenceFromListing) => None,
            Listed::Kept(stored) if self.scenario.has(Bug::OrderReadBeforeRecord) => stored.map(|stored| *stored),
            _ => state.database.order(order).cloned(),
        };
        let policy = self.scenario.policy;
        let any_day = self.scenario.has(Bug::MarkOfAnyDay);
        let repair = decide(Sight { bucket, at_home, record, marked, order: stored.as_ref(), policy, any_day })?;
        let then = Then::Nothing;
        match (repair, stored) {
            (Repair::Restore(_), Some(Stored::Order(order))) => Some(Job::RepairRestore { order, bucket }),
            (Repair::Claim, _) => {
                let placement = record.and_then(|record| record.placement.clone());
                if self.scenario.has(Bug::AbsenceFromListing) {
                    let todo = with_home(placement.map_or(bucket, |placement| placement.home), [bucket]);
                    return Some(Job::Restock { order, take: Take::FIRST, keep_mark: false, todo, then });
                }
                Some(Job::RepairClaim { order, placement, bucket })
            }
            (Repair::Restock { take, keep_mark }, _) => {
                self.reach(Reached::RepairedByRestock);
                Some(Job::Restock { order, take, keep_mark, todo: vec![bucket], then })
            }
            (Repair::Freeze | Repair::Restore(_), _) => {
                state.breaks(Broken::ReturnedWhileLive);
                None
            }
        }
    }

    fn repair_claim(
        &self,
        state: &mut State,
        order: OrderId,
        placement: Option<Arc<Placement>>,
        bucket: Bucket,
    ) -> Option<Job> {
        let home = placement.as_ref().map_or(bucket, |placement| placement.home);
        match self.claim(state, order, placement) {
            Claim::Order(_) => None,
            Claim::Aborted => {
                self.reach(Reached::RepairedByClaim);
                let todo = with_home(home, [bucket]);
                Some(Job::Restock { order, take: Take::FIRST, keep_mark: false, todo, then: Then::Nothing })
            }
        }
    }

    /// One transaction of several orders; of the refused ones the last is taken out, and the others are
    /// tried again.
    fn batch(&self, state: &mut State, mut drafts: Vec<Draft>) -> Option<Job> {
        let commits = self.commit_batch(state, &drafts);
        let out = commits
            .iter()
            .position(|commit| *commit == Commit::Exists)
            .or_else(|| commits.iter().rposition(|commit| *commit != Commit::Committed))?;
        let draft = drafts.remove(out);
        let buckets = with_home(draft.placement.home, draft.parts.iter().map(|part| part.bucket));
        if self.scenario.has(Bug::BatchDropsLoser) {
            let (order, take, then) = (draft.placement.order, Take::FIRST, Then::Nothing);
            if commits[out] != Commit::Exists {
                state.jobs.push(Job::Restock { order, take, keep_mark: false, todo: buckets, then });
            }
        } else {
            state.jobs.push(Job::BatchClaim { draft });
        }
        (!drafts.is_empty()).then_some(Job::Batch { drafts })
    }

    /// The refused order is given up, unless it is there already: then parts that it does not name go
    /// back, and a dead one's parts all.
    fn batch_claim(&self, state: &mut State, draft: &Draft) -> Option<Job> {
        let (order, home) = (draft.placement.order, draft.placement.home);
        let buckets = with_home(home, draft.parts.iter().map(|part| part.bucket));
        let then = Then::Nothing;
        match self.claim(state, order, Some(draft.placement.clone())) {
            Claim::Aborted => {
                state.ghost_mut(order).told_refused = true;
                Some(Job::Restock { order, take: Take::FIRST, keep_mark: false, todo: buckets, then })
            }
            Claim::Order(found) if found.status.is_live() => {
                let named = found.buckets();
                let todo: Vec<Bucket> = buckets.into_iter().filter(|bucket| !named.contains(bucket)).collect();
                (!todo.is_empty()).then_some(Job::Restore { order: found, todo })
            }
            Claim::Order(found) => {
                let (take, keep_mark) = (found.take, self.keeps_mark(&found));
                Some(Job::Restock { order, take, keep_mark, todo: buckets, then })
            }
        }
    }

    /// A request arrives whose sender gave it up.
    pub(crate) fn land(&self, state: &mut State, late: Late) {
        self.reach(Reached::LandedLate);
        match late {
            Late::Place { placement, look } => drop(self.place(state, &placement, look)),
            Late::Commit(draft, degraded) => drop(self.commit(state, &draft, degraded)),
            Late::Claim(placement) => drop(self.claim(state, placement.order, Some(placement))),
            Late::Deduct { placement, bucket, units } => drop(deduct(state, &placement, bucket, &units)),
            Late::Undo { placement, bucket } => {
                self.undo(state, &placement, bucket);
            }
            Late::Restock { order, bucket, take, keep_mark } => self.restock(state, order, bucket, take, keep_mark),
            Late::Restore { order, bucket } => self.restore(state, &order, bucket),
        }
    }
}

/// Reconciliation turns to one order in one bucket: the record is read, then the order for what it
/// says of the buyer.
fn confirm(state: &State, order: OrderId, bucket: Bucket, listed: Listed) -> Job {
    let record = state.gate(bucket).records.get(order).cloned();
    let placement = placement_of(state.database.order(order), record.as_ref());
    let home = placement.filter(|placement| placement.home == bucket);
    Job::Confirm { order, bucket, record, home, marked: None, listed }
}

/// The submission as the order or else the record tells it.
pub fn placement_of(stored: Option<&Stored>, record: Option<&Record>) -> Option<Arc<Placement>> {
    match stored {
        Some(Stored::Order(Order { placement, .. })) => Some(placement.clone()),
        Some(Stored::Aborted(placement)) => placement.clone(),
        None => None,
    }
    .or_else(|| record.and_then(|record| record.placement.clone()))
}
