//! The placing function, one step at a time: what `app::place_order` does between two calls of a store.

use std::sync::Arc;

use crate::{
    fill::parts_max,
    protocol::{How, Protocol},
    reference::{
        Bucket, OrderId, Part, Placement, Sku, Take, Units,
        database::{Claim, Commit, Draft, Stored},
        gate::Record,
        scripts::{Deducted, Placed, Undone},
    },
    scenario::{Bug, Reached},
    state::{At, Call, Late, Message, State},
    stores::deduct,
};

impl Protocol {
    /// Makes the next step of a call, which is taken out of the state and put back if it goes on.
    pub(crate) fn step_call(&self, state: &mut State, index: usize, how: How) {
        let mut call = state.calls.remove(index);
        let at = std::mem::replace(&mut call.at, At::Home);
        let next = match at {
            At::Home => match self.place_or_not(state, &call.placement, false, how) {
                Some(placed) => self.placed(&mut call, placed),
                None => Some(At::Past),
            },
            At::Look { free } => self.look_after_short(state, &call.placement, &free),
            At::HomeAgain { seen } => match self.place_or_not(state, &call.placement, true, how) {
                Some(Placed::Admitted(held)) => {
                    self.reach(Reached::OtherBucketAfterShort);
                    Some(self.take_missing(&call.placement, &held, seen))
                }
                Some(other) => self.placed(&mut call, other),
                None => Some(At::Past),
            },
            At::Past => None,
            At::Resume { held } => self.resume(state, &call, held),
            At::ResumeLook { held } => {
                let seen = self.looks(state, &call.placement, &[]);
                Some(self.take_missing(&call.placement, &held, seen))
            }
            At::Take(filling) => Some(self.take_part(state, &call.placement, filling, how)),
            At::Drop { todo, parts, refused } => {
                Some(self.drop_part(state, &call.placement, todo, parts, refused, how))
            }
            At::Undo { todo, buckets, blind, refused } => {
                let undone = self.undo_or_not(state, &call.placement, todo[0], how);
                after_undo(undone, todo[1..].to_vec(), buckets, blind, refused)
            }
            At::Commit { parts, touched, again } => self.commit_call(state, &call, parts, touched, again, how),
            At::Persist { parts } => persist(state, &call, parts, how),
            At::Existing { touched } => existing(state, &call, &touched),
            At::Leftover { order, todo } => self.leftover(state, order, todo, how),
            At::Reduce { kept, short, todo, touched } => {
                Some(self.reduce(state, &call, (kept, short), todo, touched, how))
            }
            At::ReduceLook { kept, short, touched } => {
                let seen = self.looks(state, &call.placement, &short);
                let missing = missing(&call.placement, &kept);
                Some(self.fill(&call.placement, kept, missing, seen, Some(touched)))
            }
            At::OtherStock { touched } => Some(self.other_stock(state, &call, touched)),
            At::Claim { buckets } => self.claim_call(state, &call, buckets, how),
            At::Restock { todo, buckets, failed } => self.restock_call(state, &call, todo, buckets, failed, how),
            At::Tell { given_up } => {
                match state.database.order(call.placement.order).cloned() {
                    Some(stored) => tell(state, call.placement.order, &stored),
                    None => state.ghost_mut(call.placement.order).told_refused |= given_up,
                }
                None
            }
        };
        match next {
            None => {}
            Some(At::Past) => state.calls.push(past_gate(call)),
            Some(at) => state.calls.push(Call { at, ..call }),
        }
    }

    fn place_or_not(&self, state: &mut State, placement: &Arc<Placement>, look: bool, how: How) -> Option<Placed> {
        if how == How::Late {
            state.late.push(Late::Place { placement: placement.clone(), look });
        }
        let placed = if how.applied() { Some(self.place(state, placement, look)) } else { None };
        placed.filter(|_| how == How::Answered)
    }

    /// What the home script answers; a replay goes on with what the record holds.
    fn placed(&self, call: &mut Call, placed: Placed) -> Option<At> {
        match placed {
            Placed::Admitted(_) => Some(self.filled(&call.placement, call.placement.home_parts(), None)),
            Placed::Short(free) => Some(At::Look { free }),
            Placed::Replayed(record) => Some(self.replayed(call, &record)),
            Placed::GivenBack => Some(At::Tell { given_up: true }),
            Placed::MemoryLost => Some(At::Past),
            _ => None,
        }
    }

    fn replayed(&self, call: &mut Call, record: &Record) -> At {
        if let Some(placement) = record.placement.clone().filter(|_| !self.scenario.has(Bug::ReplayOfToday)) {
            call.placement = placement;
        }
        let held = |(sku, _): &(Sku, Units)| record.held.get(*sku).copied().unwrap_or(0);
        At::Resume { held: call.placement.lines.iter().map(held).collect() }
    }

    fn resume(&self, state: &mut State, call: &Call, held: Vec<Units>) -> Option<At> {
        if let Some(stored) = state.database.order(call.placement.order).cloned() {
            tell(state, call.placement.order, &stored);
            return None;
        }
        let parts = home_parts(&call.placement, &held);
        if missing(&call.placement, &parts).is_empty() {
            return Some(self.filled(&call.placement, parts, None));
        }
        Some(At::ResumeLook { held })
    }

    /// Every line is held: on to the transaction, the first or the second.
    pub(crate) fn filled(&self, placement: &Placement, parts: Vec<Part>, refused: Option<Vec<Bucket>>) -> At {
        if self.scenario.queued() && refused.is_none() {
            return At::Persist { parts };
        }
        let again = refused.is_some();
        let touched = with_home(placement.home, refused.into_iter().flatten().chain(parts.iter().map(|it| it.bucket)));
        At::Commit { parts, touched, again }
    }

    fn commit_call(
        &self,
        state: &mut State,
        call: &Call,
        parts: Vec<Part>,
        touched: Vec<Bucket>,
        again: bool,
        how: How,
    ) -> Option<At> {
        let draft = Draft { placement: call.placement.clone(), parts };
        if how == How::Late {
            state.late.push(Late::Commit(draft.clone(), call.degraded));
        }
        let commit = if how.applied() { Some(self.commit(state, &draft, call.degraded)) } else { None };
        let order = call.placement.order;
        match commit.filter(|_| how == How::Answered) {
            None => {
                self.reach(Reached::Unknown);
                if self.scenario.has(Bug::UnknownIsRefused) {
                    state.ghost_mut(order).told_refused = true;
                    return Some(At::Restock { todo: touched.clone(), buckets: touched, failed: false });
                }
                settle_later(state, &call.placement, touched);
                None
            }
            Some(Commit::Committed) => {
                state.ghost_mut(order).told_committed = true;
                None
            }
            Some(Commit::Exists) => Some(At::Existing { touched }),
            Some(Commit::Short(short)) if !again => Some(other_parts(call, &draft.parts, &short, touched)),
            Some(_) => Some(self.give_up(state, order, touched)),
        }
    }

    fn give_up(&self, state: &mut State, order: OrderId, buckets: Vec<Bucket>) -> At {
        if self.scenario.has(Bug::RefusalWithoutClaim) {
            state.ghost_mut(order).told_refused = true;
            return At::Restock { todo: buckets.clone(), buckets, failed: false };
        }
        At::Claim { buckets }
    }

    fn leftover(
        &self,
        state: &mut State,
        order: crate::reference::database::Order,
        mut todo: Vec<Bucket>,
        how: How,
    ) -> Option<At> {
        let bucket = todo.remove(0);
        if how == How::Late {
            state.late.push(Late::Restore { order: order.clone(), bucket });
        }
        if how.applied() {
            self.restore(state, &order, bucket);
        }
        (!todo.is_empty()).then_some(At::Leftover { order, todo })
    }

    /// Redis gives up the parts that the database does not have; one that does not answer is passed by.
    fn reduce(
        &self,
        state: &mut State,
        call: &Call,
        (kept, short): (Vec<Part>, Vec<Bucket>),
        mut todo: Vec<Bucket>,
        touched: Vec<Bucket>,
        how: How,
    ) -> At {
        let bucket = todo.remove(0);
        let units = units_in(&call.placement, &kept, bucket);
        if how == How::Late {
            let (placement, units) = (call.placement.clone(), units.clone());
            state.late.push(Late::Deduct { placement, bucket, units });
        }
        let deducted = if how.applied() { Some(deduct(state, &call.placement, bucket, &units)) } else { None };
        match deducted.filter(|_| how == How::Answered) {
            None => At::OtherStock { touched },
            Some(Deducted::Done) if todo.is_empty() => At::ReduceLook { kept, short, touched },
            Some(Deducted::Done) => At::Reduce { kept, short, todo, touched },
            Some(Deducted::GivenBack) => At::Tell { given_up: true },
            Some(_) => self.give_up(state, call.placement.order, touched),
        }
    }

    fn other_stock(&self, state: &mut State, call: &Call, touched: Vec<Bucket>) -> At {
        let offers: Vec<_> = self.offers_of_database(state);
        match crate::product::plan(&call.placement.lines, &offers, parts_max(&call.placement)) {
            Some(parts) => self.filled(&call.placement, parts, Some(touched)),
            None => self.give_up(state, call.placement.order, touched),
        }
    }

    fn claim_call(&self, state: &mut State, call: &Call, buckets: Vec<Bucket>, how: How) -> Option<At> {
        let order = call.placement.order;
        if how == How::Late {
            state.late.push(Late::Claim(call.placement.clone()));
        }
        let claim = if how.applied() { Some(self.claim(state, order, Some(call.placement.clone()))) } else { None };
        match claim.filter(|_| how == How::Answered) {
            None => {
                settle_later(state, &call.placement, buckets);
                None
            }
            Some(Claim::Order(_)) => {
                state.ghost_mut(order).told_committed = true;
                None
            }
            Some(Claim::Aborted) => Some(At::Restock { todo: buckets.clone(), buckets, failed: false }),
        }
    }

    /// After the claim. The refusal is told at the end, whatever became of the restocks.
    fn restock_call(
        &self,
        state: &mut State,
        call: &Call,
        mut todo: Vec<Bucket>,
        buckets: Vec<Bucket>,
        mut failed: bool,
        how: How,
    ) -> Option<At> {
        let (order, bucket) = (call.placement.order, todo.remove(0));
        if how == How::Late {
            state.late.push(Late::Restock { order, bucket, take: Take::FIRST, keep_mark: false });
        }
        if how.applied() {
            self.restock(state, order, bucket, Take::FIRST, false);
        }
        failed |= how != How::Answered;
        if !todo.is_empty() {
            return Some(At::Restock { todo, buckets, failed });
        }
        state.ghost_mut(order).told_refused = true;
        if failed {
            settle_later(state, &call.placement, buckets);
        }
        None
    }
}

/// `queued`: a message instead of the transaction; the transaction at once when none can be sent.
fn persist(state: &mut State, call: &Call, parts: Vec<Part>, how: How) -> Option<At> {
    if how.applied() {
        state.persists.push(Draft { placement: call.placement.clone(), parts: parts.clone() });
    }
    if how == How::Answered {
        return None;
    }
    let touched = with_home(call.placement.home, parts.iter().map(|part| part.bucket));
    Some(At::Commit { parts, touched, again: false })
}

/// Another call of the submission was quicker. Parts that its order does not name go back.
fn existing(state: &mut State, call: &Call, touched: &[Bucket]) -> Option<At> {
    let stored = state.database.order(call.placement.order).cloned()?;
    tell(state, call.placement.order, &stored);
    let order = stored.live()?;
    let named = order.buckets();
    let todo: Vec<Bucket> = touched.iter().copied().filter(|bucket| !named.contains(bucket)).collect();
    (!todo.is_empty()).then(|| At::Leftover { order: order.clone(), todo })
}

/// The transaction without Redis, home first.
fn past_gate(call: Call) -> Call {
    let Call { placement, .. } = call;
    let (parts, touched) = (placement.home_parts(), vec![placement.home]);
    Call { placement, degraded: true, at: At::Commit { parts, touched, again: false } }
}

/// Nothing is held any more, or not everything could be undone. Where the database refused before, the
/// claim follows; where not every bucket could be looked into, the database is asked.
fn after_undo(
    undone: Option<Undone>,
    todo: Vec<Bucket>,
    buckets: Vec<Bucket>,
    blind: bool,
    refused: Option<Vec<Bucket>>,
) -> Option<At> {
    match (undone, refused) {
        (Some(Undone::Done | Undone::Absent), refused) if !todo.is_empty() => {
            Some(At::Undo { todo, buckets, blind, refused })
        }
        (Some(Undone::GivenBack), _) => Some(At::Tell { given_up: true }),
        (_, Some(touched)) if blind => Some(At::OtherStock { touched }),
        (_, Some(buckets)) => Some(At::Claim { buckets }),
        (_, None) if blind => Some(At::Past),
        (Some(Undone::Done | Undone::Absent), None) => None,
        (Some(Undone::BadData) | None, None) => Some(At::Claim { buckets }),
    }
}

/// What is stored is told to whoever asks.
fn tell(state: &mut State, order: OrderId, stored: &Stored) {
    let ghost = state.ghost_mut(order);
    match stored {
        Stored::Order(_) => ghost.told_committed = true,
        Stored::Aborted(_) => ghost.told_refused = true,
    }
}

/// A rollback message. Where none can be sent it is as if it were never delivered.
fn settle_later(state: &mut State, placement: &Arc<Placement>, buckets: Vec<Bucket>) {
    let message = Message { placement: placement.clone(), buckets };
    // A second message of the same words adds nothing that redelivery does not.
    if !state.messages.contains(&message) {
        state.messages.push(message);
    }
}

fn other_parts(call: &Call, parts: &[Part], short: &[(Sku, Bucket)], touched: Vec<Bucket>) -> At {
    if call.degraded {
        return At::OtherStock { touched };
    }
    let is_short = |part: &&Part| short.contains(&(part.sku, part.bucket));
    let kept: Vec<Part> = parts.iter().filter(|part| !is_short(part)).copied().collect();
    let short: Vec<Bucket> = distinct(parts.iter().filter(is_short).map(|part| part.bucket));
    At::Reduce { kept, todo: short.clone(), short, touched }
}

/// The home bucket and these, each once.
pub fn with_home(home: Bucket, buckets: impl IntoIterator<Item = Bucket>) -> Vec<Bucket> {
    let mut all = vec![home];
    for bucket in buckets {
        if !all.contains(&bucket) {
            all.push(bucket);
        }
    }
    all
}

pub fn distinct(buckets: impl IntoIterator<Item = Bucket>) -> Vec<Bucket> {
    let mut all: Vec<Bucket> = buckets.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Parts at home of so many units per line.
pub fn home_parts(placement: &Placement, held: &[Units]) -> Vec<Part> {
    let bucket = placement.home;
    let held = placement.lines.iter().zip(held).filter(|(_, units)| **units > 0);
    held.map(|((sku, _), units)| Part { sku: *sku, bucket, units: *units }).collect()
}

/// Units per line that these parts do not hold.
pub fn missing(placement: &Placement, parts: &[Part]) -> Vec<(Sku, Units)> {
    let held = |sku| parts.iter().filter(|part| part.sku == sku).map(|part| part.units).sum::<Units>();
    let missing = placement.lines.iter().map(|(sku, units)| (*sku, units.saturating_sub(held(*sku))));
    missing.filter(|(_, units)| *units > 0).collect()
}

/// Units per line that these parts put into one bucket, zeros left out.
pub fn units_in(placement: &Placement, parts: &[Part], bucket: Bucket) -> Vec<(Sku, Units)> {
    let held = |sku| {
        let here = parts.iter().filter(|part| part.bucket == bucket && part.sku == sku);
        here.map(|part| part.units).sum::<Units>()
    };
    placement.lines.iter().map(|(sku, _)| (*sku, held(*sku))).filter(|(_, units)| *units > 0).collect()
}
