//! The placing function, one step at a time: what `app::place_order` does between two calls of a store.

use std::sync::Arc;

use crate::{
    fill::parts_max,
    protocol::{How, Protocol},
    reference::{
        Bucket, OrderId, Part, Placement, Sku, Take, Units,
        database::{Claim, Commit, Draft, Stored},
        gate::Record,
        scripts::{Deducted, Placed},
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
            At::Home => {
                let placed = self.place(state, &call.placement, false);
                self.placed(&mut call, placed)
            }
            At::Look { free } => self.look_after_short(state, &call.placement, &free),
            At::HomeAgain { seen } => match self.place(state, &call.placement, true) {
                Placed::Admitted(held) => {
                    self.reach(Reached::OtherBucketAfterShort);
                    Some(self.take_missing(&call.placement, &held, seen))
                }
                other => self.placed(&mut call, other),
            },
            At::Resume { held } => self.resume(state, &call, held),
            At::ResumeLook { held } => {
                let seen = self.looks(state, &call.placement, &[]);
                Some(self.take_missing(&call.placement, &held, seen))
            }
            At::Take(filling) => Some(self.take_part(state, &call.placement, filling, how)),
            At::Drop { todo, parts, refused } => {
                Some(self.drop_part(state, &call.placement, todo, parts, refused, how))
            }
            At::Undo { todo, buckets, refused } => self.undo_part(state, &call.placement, todo, buckets, refused, how),
            At::Commit { parts, touched, again } => self.commit_call(state, &call, parts, touched, again, how),
            At::Persist { parts } => persist(state, &call, parts, how),
            At::Existing { touched } => existing(state, &call, &touched),
            At::Leftover { order, todo } => self.leftover(state, order, todo, how),
            At::Reduce { kept, short, todo, touched } => Some(self.reduce(state, &call, kept, short, todo, touched)),
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
        if let Some(at) = next {
            state.calls.push(Call { at, ..call });
        }
    }

    /// What the home script answers; a replay goes on with what the record holds.
    fn placed(&self, call: &mut Call, placed: Placed) -> Option<At> {
        match placed {
            Placed::Admitted(_) => Some(self.filled(&call.placement, call.placement.home_parts(), None)),
            Placed::Short(free) => Some(At::Look { free }),
            Placed::Replayed(record) => Some(self.replayed(call, &record)),
            Placed::GivenBack => Some(At::Tell { given_up: true }),
            Placed::MemoryLost => Some(At::Tell { given_up: false }),
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

    /// Redis gives up the parts that the database does not have.
    fn reduce(
        &self,
        state: &mut State,
        call: &Call,
        kept: Vec<Part>,
        short: Vec<Bucket>,
        mut todo: Vec<Bucket>,
        touched: Vec<Bucket>,
    ) -> At {
        let bucket = todo.remove(0);
        let units = units_in(&call.placement, &kept, bucket);
        match deduct(state, &call.placement, bucket, &units) {
            Deducted::Done if todo.is_empty() => At::ReduceLook { kept, short, touched },
            Deducted::Done => At::Reduce { kept, short, todo, touched },
            Deducted::GivenBack => At::Tell { given_up: true },
            _ => self.give_up(state, call.placement.order, touched),
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
            Some(Claim::Aborted) if call.degraded => {
                state.ghost_mut(order).told_refused = true;
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
    let order = stored.live().filter(|_| !call.degraded)?;
    let named = order.buckets();
    let todo: Vec<Bucket> = touched.iter().copied().filter(|bucket| !named.contains(bucket)).collect();
    (!todo.is_empty()).then(|| At::Leftover { order: order.clone(), todo })
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
