//! Filling an order from several buckets, one step at a time: what `app::fill_order` does.

use std::sync::Arc;

use holdfast::domain::buckets::ACTIONS_MAX;

use crate::{
    place::{distinct, home_parts, missing, units_in, with_home},
    product::{Offer, plan},
    protocol::{How, Protocol},
    reference::{
        Bucket, Part, Placement, Sku, Units,
        scripts::{Deducted, Undone},
    },
    scenario::Reached,
    state::{At, Filling, Late, Seen, State},
    stores::{CONTROL, deduct},
};

/// `app::fill_order`'s.
const ROUNDS_MAX: u8 = 2;

/// Most parts that one transaction takes.
pub fn parts_max(placement: &Placement) -> usize {
    ACTIONS_MAX.saturating_sub(1 + placement.charges.len())
}

impl Protocol {
    /// What the other buckets show. Read at one instant: it is a hint, and every part is taken for itself.
    pub(crate) fn looks(&self, state: &State, placement: &Placement, except: &[Bucket]) -> Vec<Seen> {
        let others = (0..self.scenario.buckets()).map(Bucket);
        others
            .filter(|bucket| *bucket != placement.home && !except.contains(bucket))
            .map(|bucket| {
                let look = state.gate(bucket).look(CONTROL.version, placement);
                let returned = look.record.as_ref().is_some_and(|record| !record.deducted());
                Seen { bucket, free: look.free, held: look.record.map(|record| record.held), returned }
            })
            .collect()
    }

    /// Nothing is written yet: where all together have too little, nothing will be.
    pub(crate) fn look_after_short(&self, state: &State, placement: &Placement, free: &[Units]) -> Option<At> {
        let seen = self.looks(state, placement, &[]);
        let held: Vec<Units> = placement.lines.iter().zip(free).map(|((_, units), free)| (*units).min(*free)).collect();
        let parts = home_parts(placement, &held);
        if plan_parts(placement, &missing(placement, &parts), &seen).is_none() {
            return is_blind(&seen).then_some(At::Past);
        }
        Some(At::HomeAgain { seen })
    }

    pub(crate) fn take_missing(&self, placement: &Placement, held: &[Units], seen: Vec<Seen>) -> At {
        let kept = home_parts(placement, held);
        let missing = missing(placement, &kept);
        self.fill(placement, kept, missing, seen, None)
    }

    pub(crate) fn fill(
        &self,
        placement: &Placement,
        kept: Vec<Part>,
        missing: Vec<(Sku, Units)>,
        seen: Vec<Seen>,
        refused: Option<Vec<Bucket>>,
    ) -> At {
        if seen.iter().any(|seen| seen.returned) {
            return At::Tell { given_up: true };
        }
        let tried = distinct(kept.iter().map(|part| part.bucket));
        let (blind, plan, todo) = (is_blind(&seen), Vec::new(), Vec::new());
        let filling = Filling { kept, missing, seen, tried, rounds: 0, plan, todo, blind, refused };
        self.next_round(placement, filling)
    }

    fn next_round(&self, placement: &Placement, mut filling: Filling) -> At {
        let planned = plan_parts(placement, &filling.missing, &filling.seen);
        if let Some(parts) = planned.filter(|_| filling.rounds < ROUNDS_MAX) {
            filling.todo = distinct(parts.iter().map(|part| part.bucket));
            filling.tried.extend(&filling.todo);
            filling.tried = distinct(filling.tried);
            filling.plan = parts;
            filling.rounds += 1;
            return self.after_part(placement, filling);
        }
        let recorded = filling.seen.iter().filter(|seen| seen.held.is_some()).map(|seen| seen.bucket);
        let buckets = with_home(placement.home, filling.tried.into_iter().chain(recorded));
        let todo = buckets.iter().rev().copied().collect();
        At::Undo { todo, buckets, blind: filling.blind, refused: filling.refused }
    }

    fn after_part(&self, placement: &Placement, filling: Filling) -> At {
        if !filling.todo.is_empty() {
            return At::Take(filling);
        }
        let parts = [filling.kept, filling.plan].concat();
        let unused = |bucket: &Bucket| *bucket != placement.home && !parts.iter().any(|part| part.bucket == *bucket);
        let todo: Vec<Bucket> = filling.tried.into_iter().filter(unused).collect();
        if todo.is_empty() {
            return self.filled(placement, parts, filling.refused);
        }
        At::Drop { todo, parts, refused: filling.refused }
    }

    pub(crate) fn take_part(
        &self,
        state: &mut State,
        placement: &Arc<Placement>,
        mut filling: Filling,
        how: How,
    ) -> At {
        let bucket = filling.todo.remove(0);
        let units = units_in(placement, &[filling.kept.clone(), filling.plan.clone()].concat(), bucket);
        if how == How::Late {
            let (placement, units) = (placement.clone(), units.clone());
            state.late.push(Late::Deduct { placement, bucket, units });
        }
        let deducted = if how.applied() { Some(deduct(state, placement, bucket, &units)) } else { None };
        match deducted.filter(|_| how == How::Answered) {
            Some(Deducted::Done) => return self.after_part(placement, filling),
            Some(Deducted::GivenBack) => return At::Tell { given_up: true },
            Some(Deducted::Short(may_hold)) => {
                for seen in filling.seen.iter_mut().filter(|seen| seen.bucket == bucket) {
                    for ((sku, _), free) in placement.lines.iter().zip(&mut seen.free) {
                        if let Some(at) = units.iter().position(|(asked, _)| asked == sku) {
                            *free = may_hold[at];
                        }
                    }
                    // What it may hold includes what it held.
                    seen.held = None;
                }
            }
            // No answer, or none that helps: the order does without this bucket.
            _ => {
                filling.seen.retain(|seen| seen.bucket != bucket);
                filling.blind = true;
            }
        }
        self.next_round(placement, filling)
    }

    pub(crate) fn drop_part(
        &self,
        state: &mut State,
        placement: &Arc<Placement>,
        mut todo: Vec<Bucket>,
        parts: Vec<Part>,
        refused: Option<Vec<Bucket>>,
        how: How,
    ) -> At {
        self.undo_or_not(state, placement, todo.remove(0), how);
        if todo.is_empty() {
            return self.filled(placement, parts, refused);
        }
        At::Drop { todo, parts, refused }
    }

    pub(crate) fn undo_or_not(
        &self,
        state: &mut State,
        placement: &Arc<Placement>,
        bucket: Bucket,
        how: How,
    ) -> Option<Undone> {
        if how == How::Late {
            state.late.push(Late::Undo { placement: placement.clone(), bucket });
        }
        let undone = if how.applied() { Some(self.undo(state, placement, bucket)) } else { None };
        undone.filter(|_| how == How::Answered)
    }

    /// What the database shows as available, on sale.
    pub(crate) fn offers_of_database(&self, state: &State) -> Vec<Offer> {
        let buckets = (0..self.scenario.buckets()).map(Bucket);
        buckets
            .map(|bucket| {
                let here = state.database.stock.iter().filter(|((_, of), item)| *of == bucket && item.on_sale);
                let available = here.map(|((sku, _), item)| (sku, item.available)).collect();
                Offer { bucket, available, has_record: false }
            })
            .collect()
    }

    /// Marks what was seen of this step, for the models' own check that they reach what they are about.
    pub(crate) fn reach(&self, what: Reached) {
        let bit = 1 << (what as u32);
        if self.reached.load(std::sync::atomic::Ordering::Relaxed) & bit == 0 {
            self.reached.fetch_or(bit, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

/// A bucket that is frozen or lost its keys may have stock all the same.
fn is_blind(seen: &[Seen]) -> bool {
    seen.iter().any(|seen| seen.free.is_empty())
}

/// Where the missing units come from, by what was seen.
fn plan_parts(placement: &Placement, missing: &[(Sku, Units)], seen: &[Seen]) -> Option<Vec<Part>> {
    let offers: Vec<Offer> = seen
        .iter()
        .map(|seen| {
            let held = |sku| {
                let held = seen.held.as_ref().filter(|_| !seen.returned).and_then(|held| held.get(sku));
                held.copied().unwrap_or(0)
            };
            let available = placement.lines.iter().zip(&seen.free).map(|((sku, _), free)| (*sku, free + held(*sku)));
            Offer { bucket: seen.bucket, available: available.collect(), has_record: seen.held.is_some() }
        })
        .collect();
    plan(missing, &offers, parts_max(placement).saturating_sub(placement.lines.len()))
}
