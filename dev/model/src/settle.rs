//! From any state: the faults stop, what runs dies, two reconciliations follow. Then both stores must
//! say the same.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    jobs::placement_of,
    product::{Sight, decide},
    protocol::{How, Protocol},
    reference::{
        Bucket, Map, OrderId, Sku, Units,
        changes::keeps_quota,
        database::{Database, Order, Stored},
        gate::{Gate, Record},
        held_in,
    },
    scenario::Bug,
    state::{Job, State},
};

const SHARDS: usize = 64;

/// Which pairs of stores settle. Many states differ in what runs only.
#[derive(Debug)]
pub struct Settled(Vec<Mutex<HashMap<u64, bool>>>);

impl Default for Settled {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Mutex::default()).collect())
    }
}

impl Settled {
    fn shard(&self, key: u64) -> &Mutex<HashMap<u64, bool>> {
        &self.0[usize::try_from(key % 64).unwrap_or(0)]
    }

    fn known(&self, key: u64) -> Option<bool> {
        self.shard(key).lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }

    fn note(&self, key: u64, settles: bool) {
        self.shard(key).lock().unwrap_or_else(PoisonError::into_inner).insert(key, settles);
    }

    /// How many pairs of stores were settled.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner).len()).sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Protocol {
    /// Invariant 5, from this state.
    #[must_use]
    pub fn settles(&self, state: &State) -> bool {
        let mut hasher = DefaultHasher::new();
        (&state.nodes, &state.database).hash(&mut hasher);
        let key = hasher.finish();
        if let Some(known) = self.settled.known(key) {
            return known;
        }
        let settles = self.why_unsettled(state).is_none();
        self.settled.note(key, settles);
        settles
    }

    /// What is still off after two reconciliations.
    #[must_use]
    pub fn why_unsettled(&self, state: &State) -> Option<String> {
        let mut state = State {
            calls: Vec::new(),
            jobs: Vec::new(),
            late: Vec::new(),
            messages: Vec::new(),
            persists: Vec::new(),
            broken: None,
            ..state.clone()
        };
        for _ in 0..2 {
            for bucket in (0..self.scenario.buckets()).map(Bucket) {
                self.reconcile(&mut state, bucket);
            }
        }
        if let Some(broken) = state.broken {
            return Some(format!("{broken:?} while reconciling"));
        }
        (0..self.scenario.buckets()).map(Bucket).find_map(|bucket| self.disagreement(&state, bucket))
    }

    /// One pass over one bucket, as `app::reconcile_bucket` makes it, with nobody in its way.
    fn reconcile(&self, state: &mut State, bucket: Bucket) {
        let allotments = state.database.allotments(bucket);
        self.sync(state, bucket, &allotments);
        let listing: Gate = state.gate(bucket).clone();
        let home_orders = state.database.orders.iter().filter(|(_, stored)| match stored {
            Stored::Order(order) => order.placement.home == bucket,
            Stored::Aborted(_) => false,
        });
        let mut candidates: Vec<OrderId> = home_orders.map(|(order, _)| order).collect();
        candidates.extend(listing.records.keys().chain(listing.marked_orders()));
        candidates.sort_unstable();
        candidates.dedup();
        for order in candidates {
            let stored = state.database.order(order).cloned();
            let is_home = stored.is_some() && self.placement(order, 0).home == bucket;
            let record = listing.records.get(order);
            let home = placement_of(stored.as_ref(), record).filter(|placement| placement.home == bucket);
            let marked = if self.scenario.has(Bug::MarkOfAnyDay) {
                listing.marked_orders().contains(&order)
            } else {
                home.is_some_and(|placement| listing.marked(&placement))
            };
            if self.differs(bucket, is_home, record, marked, stored.as_ref()) {
                self.confirm_now(state, order, bucket);
            }
            let Some(live) = stored.as_ref().and_then(Stored::live) else { continue };
            if live.placement.home != bucket {
                continue;
            }
            for other in live.buckets().into_iter().filter(|other| *other != bucket) {
                let record = state.gate(other).records.get(order).cloned();
                if self.differs(other, false, record.as_ref(), false, stored.as_ref()) {
                    self.confirm_now(state, order, other);
                }
            }
        }
    }

    fn differs(
        &self,
        bucket: Bucket,
        at_home: bool,
        record: Option<&Record>,
        marked: bool,
        order: Option<&Stored>,
    ) -> bool {
        let (policy, any_day) = (self.scenario.policy, self.scenario.has(Bug::MarkOfAnyDay));
        decide(Sight { bucket, at_home, record, marked, order, policy, any_day }).is_some()
    }

    /// Looks again and repairs, all its steps in a row.
    fn confirm_now(&self, state: &mut State, order: OrderId, bucket: Bucket) {
        let job: Job = self.start_confirm(state, order, bucket);
        state.jobs.push(job);
        while !state.jobs.is_empty() {
            self.step_job(state, 0, How::Answered);
        }
    }

    /// The first thing that the two stores say differently of this bucket.
    fn disagreement(&self, state: &State, bucket: Bucket) -> Option<String> {
        let (gate, database) = (state.gate(bucket), &state.database);
        if !gate.usable() {
            return Some(format!("{bucket:?} is not loaded"));
        }
        for (order, record) in gate.records.iter() {
            if record.deducted() && !agrees(record, database.order(order), bucket) {
                return Some(format!("{bucket:?} holds units of {order:?} that it should not"));
            }
        }
        for order in database.live() {
            let named = order.placement.home == bucket || order.parts.iter().any(|part| part.bucket == bucket);
            let record = gate.records.get(order.placement.order).filter(|record| record.deducted());
            if named && record.is_none() {
                return Some(format!("{bucket:?} does not know {:?}", order.placement.order));
            }
            if order.placement.home == bucket && !is_marked(gate, order) {
                return Some(format!("the mark of {:?} is lost", order.placement.order));
            }
        }
        self.stray_mark(gate, database).or_else(|| stock_disagreement(gate, database, bucket))
    }

    /// A mark without an order that lives or keeps its quota.
    fn stray_mark(&self, gate: &Gate, database: &Database) -> Option<String> {
        for ((scope, buyer), mark) in gate.marks.iter() {
            for order in mark.keys() {
                let known = match database.order(order) {
                    Some(Stored::Order(stored)) => {
                        let charged = stored.placement.charges.iter().any(|(charged, _)| *charged == scope);
                        let keeps = stored.status.is_live() || keeps_quota(self.scenario.policy, stored.status);
                        charged && keeps && stored.placement.buyer == buyer
                    }
                    _ => false,
                };
                if !known {
                    return Some(format!("a mark counts {order:?}, which it should not"));
                }
            }
        }
        None
    }
}

/// Whether a record D is that of a live order, with this bucket's part.
fn agrees(record: &Record, stored: Option<&Stored>, bucket: Bucket) -> bool {
    stored.and_then(Stored::live).is_some_and(|order| {
        let held: Map<Sku, Units> =
            record.held.iter().filter(|(_, units)| **units > 0).map(|(sku, units)| (sku, *units)).collect();
        record.take == order.take && held == held_in(&order.parts, bucket)
    })
}

fn is_marked(gate: &Gate, order: &Order) -> bool {
    let placement = &order.placement;
    placement.charges.iter().all(|(scope, units)| {
        gate.marks.get((*scope, placement.buyer)).is_some_and(|mark| mark.get(placement.order) == Some(units))
    })
}

fn stock_disagreement(gate: &Gate, database: &Database, bucket: Bucket) -> Option<String> {
    for ((sku, _), item) in database.stock.iter().filter(|((_, of), _)| *of == bucket) {
        let Some(counters) = gate.skus.get(sku) else { return Some(format!("{bucket:?} lacks {sku:?}")) };
        if counters.allotted != item.allotted || counters.on_sale != item.on_sale {
            return Some(format!("{sku:?} in {bucket:?} has another allotment or sale switch"));
        }
        if counters.free != i32::from(item.available) {
            return Some(format!("{sku:?} in {bucket:?}: {} free, {} available", counters.free, item.available));
        }
    }
    None
}

/// A memo that several threads share.
pub type Memo = Arc<Settled>;
