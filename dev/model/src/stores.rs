//! The stores' operations as the model calls them: the reference, what the invariants need to know of
//! it, and the mistakes that can be planted.

use std::sync::Arc;

use crate::{
    protocol::Protocol,
    reference::{
        Bucket, Buyer, Event, Map, Moment, OrderId, PLACEMENTS_MAX, Part, Placement, Scope, Side, Sku, Status, Take,
        Units,
        changes::{Changed, keeps_quota},
        database::{Claim, Commit, Draft, Limit, MoveId, Order, Stored},
        gate::{Allotment, Control, Gate, Mark, Phase, Preheated},
        scripts::{Deducted, Place, Placed, Restocked, Restored, Undone},
        stock::Moved,
    },
    scenario::{Bug, Move, Reached},
    state::{Broken, Node, State},
};

/// The one version of the configuration, and the one moment: the grace is always over.
pub const CONTROL: Control = Control { version: 1, phase: Phase::Open, rate: u16::MAX };

type Marks = Map<(Scope, Buyer), Mark>;

impl Protocol {
    pub(crate) const fn limit(&self) -> Limit {
        Limit { units: self.scenario.limit, placements: PLACEMENTS_MAX }
    }

    pub(crate) fn place(&self, state: &mut State, placement: &Arc<Placement>, look: bool) -> Placed {
        let gate = state.gate_mut(placement.home);
        if self.scenario.has(Bug::ReplayDeductsAgain)
            && gate.records.get(placement.order).is_some_and(|record| !record.deducted())
        {
            gate.records.remove(placement.order);
        }
        let placed = gate.place(Place {
            version: CONTROL.version,
            started: true,
            placement,
            look,
            limit_max: self.scenario.limit,
            placements_max: PLACEMENTS_MAX,
            now: Moment::default(),
        });
        match placed {
            Placed::BadData => state.breaks(Broken::BadData),
            Placed::LimitReached(_) => self.reach(Reached::LimitReached),
            Placed::Replayed(_) => self.reach(Reached::Replayed),
            Placed::Frozen => self.reach(Reached::Frozen),
            _ => {}
        }
        placed
    }

    pub(crate) fn undo(&self, state: &mut State, placement: &Placement, bucket: Bucket) -> Undone {
        let before = state.gate(bucket).clone();
        let undone = state.gate_mut(bucket).undo(placement);
        if self.scenario.has(Bug::UndoOfOwnDay) {
            leave_marks(state, placement, &before);
        }
        if undone == Undone::Done && bucket == placement.home {
            self.reach(Reached::UndoneAtHome);
        }
        undone
    }

    pub(crate) fn restock(&self, state: &mut State, order: OrderId, bucket: Bucket, take: Take, keep_mark: bool) {
        self.restock_wrongly(state, order, bucket, take);
        let before = state.gate(bucket).marks.clone();
        self.note_day(state, order, bucket);
        let submission = match state.database.order(order) {
            Some(Stored::Order(stored)) => Some(stored.placement.clone()),
            _ => None,
        };
        let marks = (keep_mark, submission.as_deref());
        let restocked = state.gate_mut(bucket).restock(order, take, marks, Moment::default());
        self.unmark_wrongly(state, order, bucket, &before);
        let node = state.node_mut(bucket);
        match restocked {
            Restocked::Already => {}
            Restocked::BadData => state.breaks(Broken::BadData),
            Restocked::RecordOnly | Restocked::Done(_) => {
                if restocked == Restocked::RecordOnly {
                    self.reach(Reached::RecordOnly);
                } else {
                    self.reach(Reached::Restocked);
                }
                if node.restocked.contains(&(order, take)) {
                    state.breaks(Broken::RestockedTwice);
                } else {
                    node.restocked.push((order, take));
                    node.restocked.sort_unstable();
                }
            }
        }
    }

    /// Whether a record counts against another day than its order is met.
    fn note_day(&self, state: &State, order: OrderId, bucket: Bucket) {
        let own = state.gate(bucket).records.get(order).and_then(|record| record.placement.as_ref());
        if let (Some(own), Some(Stored::Order(stored))) = (own, state.database.order(order))
            && own.day != stored.placement.day
        {
            self.reach(Reached::OtherDay);
        }
    }

    fn restock_wrongly(&self, state: &mut State, order: OrderId, bucket: Bucket, take: Take) {
        let gate = state.gate_mut(bucket);
        let usable = gate.usable();
        let record = gate.records.get(order);
        let given_twice = self.scenario.has(Bug::RestockIgnoresRank)
            && record.is_some_and(|record| record.side == Side::Returned && record.take == take);
        let from_message = self.scenario.has(Bug::UnitsFromMessage) && record.is_none();
        if usable && (given_twice || from_message) {
            let lines = &self.scenario.submissions[usize::from(order.0)].lines;
            for (sku, units) in lines {
                if let Some(counters) = gate.skus.get_mut(*sku) {
                    counters.free += i32::from(*units);
                }
            }
        }
    }

    /// Takes the oldest other entry out in place of the order's own.
    fn unmark_wrongly(&self, state: &mut State, order: OrderId, bucket: Bucket, before: &Marks) {
        let gate = state.gate_mut(bucket);
        for (key, mark) in before.iter().filter(|_| self.scenario.has(Bug::MarkRemovedByCount)) {
            let now = gate.marks.get(key).cloned().unwrap_or_default();
            let (Some(own), None) = (mark.get(order), now.get(order)) else { continue };
            let Some(oldest) = now.keys().find(|other| *other != order) else { continue };
            let mut wrong = now.clone();
            wrong.remove(oldest);
            wrong.insert(order, *own);
            gate.marks.insert(key, wrong);
        }
    }

    pub(crate) fn restore(&self, state: &mut State, order: &Order, bucket: Bucket) {
        let Order { placement, take, parts, .. } = order;
        self.note_day(state, placement.order, bucket);
        let before = state.gate(bucket).clone();
        let gate = state.gate_mut(bucket);
        if self.scenario.has(Bug::RestoreOverwritesHigher)
            && gate.usable()
            && gate.records.get(placement.order).is_some_and(|record| !record.deducted())
        {
            gate.records.remove(placement.order);
        }
        let restored = gate.restore(placement, *take, parts, Moment::default());
        if self.scenario.has(Bug::RestoreLeavesMarks) {
            leave_marks(state, placement, &before);
        }
        match restored {
            Restored::BadData => state.breaks(Broken::BadData),
            Restored::Done(_) if *take == Take::SECOND => self.reach(Reached::RestoredSecondTake),
            Restored::Done(_) => self.reach(Reached::Restored),
            Restored::Already | Restored::NoStock => {}
        }
    }

    /// Loads a lost bucket with these allotments, or brings it up to date with them.
    pub(crate) fn sync(&self, state: &mut State, bucket: Bucket, allotments: &[Allotment]) {
        let live: Vec<(Sku, Units)> =
            allotments.iter().map(|of| (of.sku, state.database.live_units(of.sku, bucket))).collect();
        let Node { gate, restocked } = state.node_mut(bucket);
        if gate.usable() {
            if gate.sync_allotment(allotments) > 0 {
                self.reach(Reached::Synced);
            }
            return;
        }
        if gate.preheat(CONTROL, allotments) == Preheated::Loaded {
            restocked.clear();
            self.reach(Reached::Reloaded);
            for (sku, units) in live.into_iter().filter(|_| self.scenario.has(Bug::PreheatSubtractsLive)) {
                if let Some(counters) = gate.skus.get_mut(sku) {
                    counters.free -= i32::from(units);
                }
            }
        }
    }

    /// The order transaction.
    pub(crate) fn commit(&self, state: &mut State, draft: &Draft, degraded: bool) -> Commit {
        let order = draft.placement.order;
        let replaced = if degraded && self.scenario.has(Bug::DegradedWithoutExists) {
            state.database_mut().orders.remove(order)
        } else {
            None
        };
        let limit = self.limit();
        let commit = state.database_mut().commit(draft, limit);
        match (&commit, replaced) {
            (Commit::Committed, _) => {
                state.ghost_mut(order).takes += 1;
                self.reach(if degraded { Reached::DegradedCommit } else { Reached::Committed });
                if draft.parts.iter().any(|part| part.bucket != draft.placement.home) {
                    self.reach(Reached::PartialFill);
                }
            }
            (_, Some(stored)) => state.database_mut().orders.insert(order, stored),
            (Commit::LimitReached, None) => self.reach(Reached::GuardRefused),
            _ => {}
        }
        commit
    }

    /// The transaction of a batch.
    pub(crate) fn commit_batch(&self, state: &mut State, drafts: &[Draft]) -> Vec<Commit> {
        let limit = self.limit();
        let before = state.database.clone();
        if self.scenario.has(Bug::BatchJudgesAlone)
            && drafts.iter().all(|draft| (*before).clone().commit(draft, limit) == Commit::Committed)
        {
            for draft in drafts {
                commit_without_asking(state, draft);
                state.ghost_mut(draft.placement.order).takes += 1;
            }
            return vec![Commit::Committed; drafts.len()];
        }
        let commits = state.database_mut().commit_batch(drafts, limit);
        if commits.iter().all(|commit| *commit == Commit::Committed) {
            for draft in drafts {
                state.ghost_mut(draft.placement.order).takes += 1;
            }
            self.reach(Reached::Committed);
            if drafts.len() > 1 {
                self.reach(Reached::BatchOfTwo);
            }
        } else {
            self.reach(Reached::BatchRefused);
        }
        commits
    }

    pub(crate) fn claim(&self, state: &mut State, order: OrderId, placement: Option<Arc<Placement>>) -> Claim {
        let claim = state.database_mut().claim(order, placement);
        self.reach(if claim == Claim::Aborted { Reached::ClaimWon } else { Reached::ClaimLost });
        claim
    }

    /// Cancel, expiry or refund, in the database.
    pub(crate) fn finish(&self, state: &mut State, order: OrderId, event: Event) -> Changed {
        let today = Scope::Day(crate::reference::Day(state.day));
        let changed = state.database_mut().finish(order, event, self.scenario.policy);
        if changed == Changed::Done && self.scenario.has(Bug::QuotaBackToday) {
            let placement = self.placement(order, 0);
            let database = state.database_mut();
            let Some(Stored::Order(stored)) = database.orders.get(order).cloned() else { return changed };
            for (scope, units) in &stored.placement.charges {
                if let Some(guard) = database.guards.get_mut((placement.buyer, *scope)) {
                    guard.units += units;
                }
                if let Some(guard) = database.guards.get_mut((placement.buyer, today)) {
                    guard.units = guard.units.saturating_sub(*units);
                }
            }
        }
        changed
    }

    /// A payment; a late one takes these parts.
    pub(crate) fn pay(&self, state: &mut State, order: OrderId, parts: &[Part]) -> Commit {
        let mut limit = self.limit();
        if self.scenario.has(Bug::LatePaymentIgnoresGuard) {
            limit.units = Units::MAX;
        }
        let before = state.database.order(order).map(Stored::status);
        let commit = state.database_mut().settle(order, parts, self.scenario.policy, limit);
        if before != Some(Status::Closed) {
            return commit;
        }
        if commit != Commit::Committed {
            self.reach(Reached::LatePaymentRefused);
            return commit;
        }
        self.reach(Reached::LatePaid);
        state.ghost_mut(order).takes += 1;
        if self.scenario.has(Bug::LatePaymentSameTake)
            && let Some(Stored::Order(paid)) = state.database_mut().orders.get_mut(order)
        {
            paid.take = Take::FIRST;
        }
        commit
    }

    pub(crate) fn make_move(&self, state: &mut State, index: usize) -> Moved {
        let id = MoveId(u8::try_from(index).unwrap_or(u8::MAX));
        let database = state.database_mut();
        if self.scenario.has(Bug::MoveWithoutId) {
            database.moves.remove(id);
        }
        let moved = match self.scenario.moves[index] {
            Move::Units { from, to, units } => database.move_units(id, Sku(0), from, to, units),
            Move::Adjust { bucket, more } => database.adjust(id, Sku(0), bucket, more),
        };
        if moved == Moved::Done {
            self.reach(Reached::Moved);
        }
        moved
    }

    pub(crate) fn keeps_mark(&self, order: &Order) -> bool {
        keeps_quota(self.scenario.policy, order.status)
    }

    /// The submission as a call of that day admits it.
    pub(crate) fn placement(&self, order: OrderId, day: u8) -> Arc<Placement> {
        self.placements[usize::from(order.0)][usize::from(day)].clone()
    }
}

pub fn deduct(state: &mut State, placement: &Arc<Placement>, bucket: Bucket, units: &[(Sku, Units)]) -> Deducted {
    let now = Moment::default();
    let deducted = state.gate_mut(bucket).deduct(CONTROL.version, placement, units, now);
    if deducted == Deducted::BadData {
        state.breaks(Broken::BadData);
    }
    deducted
}

/// The order's marks are as before where this placement does not count.
fn leave_marks(state: &mut State, placement: &Placement, before: &Gate) {
    let order = placement.order;
    for (key, mark) in before.marks.iter().filter(|((scope, _), _)| placement.charges.iter().all(|(of, _)| of != scope))
    {
        let Some(units) = mark.get(order) else { continue };
        let gate = state.gate_mut(before.bucket);
        let mut left = gate.marks.get(key).cloned().unwrap_or_default();
        left.insert(order, *units);
        gate.marks.insert(key, left);
    }
}

/// The transaction as if the guard had room and every item enough.
fn commit_without_asking(state: &mut State, draft: &Draft) {
    let limit = Limit { units: Units::MAX, placements: PLACEMENTS_MAX };
    let database = state.database_mut();
    for part in &draft.parts {
        if let Some(item) = database.stock.get_mut((part.sku, part.bucket)) {
            item.available = item.available.wrapping_add(part.units);
        }
    }
    let _ = database.commit(draft, limit);
    for part in &draft.parts {
        if let Some(item) = database.stock.get_mut((part.sku, part.bucket)) {
            item.available = item.available.wrapping_sub(part.units);
        }
    }
}
