//! The state machine: what happens, and what it does. What can happen next is in `actions.rs`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use stateright::{Model, Property};

use crate::{
    actions::Fault,
    invariants,
    reference::{
        Bucket, Day, Event, LinesId, OrderId, Placement, Sku, Take,
        database::{Database, Stored},
        gate::Gate,
    },
    scenario::{ORDERS_MAX, Reached, Scenario},
    settle::Memo,
    state::{At, Broken, Call, Ghost, Job, Node, State},
    stores::CONTROL,
};

/// What becomes of one request to a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum How {
    /// Applied and answered.
    Answered,
    /// Applied; the answer is lost.
    Lost,
    /// Not applied; the caller does not know.
    Failed,
    /// Not applied yet; the caller has given it up.
    Late,
}

impl How {
    #[must_use]
    pub const fn applied(self) -> bool {
        matches!(self, Self::Answered | Self::Lost)
    }
}

/// One thing that happens. Numbers are places in the state's lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A buyer sends a submission, for the first time or again.
    Call(OrderId),
    Step(usize, How),
    Job(usize, How),
    Land(usize),
    Deliver {
        message: usize,
        again: bool,
    },
    Batch {
        first: usize,
        second: Option<usize>,
        again: bool,
    },
    End(OrderId, Event),
    CancelUnseen(OrderId),
    Pay(OrderId, Bucket),
    Confirm(OrderId, Bucket),
    ReadStock(Bucket),
    ReadItem(Sku, Bucket),
    TryMove(usize),
    Switch(bool),
    Midnight,
    Flush(Bucket),
    LoseStock(Bucket),
    LoseOrders(Bucket),
    Snapshot(Bucket),
    FailOver(Bucket),
    /// A planted mistake.
    Forget(OrderId),
}

#[derive(Debug)]
pub struct Protocol {
    pub scenario: Scenario,
    /// Per submission and day.
    pub(crate) placements: Vec<Vec<Arc<Placement>>>,
    pub settled: Memo,
    pub(crate) reached: Arc<AtomicU64>,
}

impl Protocol {
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        let days = 0..=scenario.bounds.midnights;
        let placements = scenario.submissions.iter().zip(0..).map(|(submission, index)| {
            days.clone()
                .map(|day| {
                    let lines = (LinesId(0), submission.lines.clone());
                    Placement::new(OrderId(index), submission.buyer, submission.home, lines, scenario.scope, Day(day))
                })
                .collect()
        });
        let placements = placements.collect();
        Self { scenario, placements, settled: Memo::default(), reached: Arc::default() }
    }

    /// Which of the things that the scenario is about were never reached.
    #[must_use]
    pub fn missed(&self) -> Vec<Reached> {
        let reached = self.reached.load(Ordering::Relaxed);
        let missed = self.scenario.reaches.iter().filter(|what| reached & (1 << (**what as u32)) == 0);
        missed.copied().collect()
    }

    pub(crate) fn orders(&self) -> impl Iterator<Item = OrderId> + use<> {
        (0..u8::try_from(self.scenario.submissions.len().min(ORDERS_MAX)).unwrap_or(0)).map(OrderId)
    }

    pub(crate) fn buckets(&self) -> impl Iterator<Item = Bucket> + use<> {
        (0..self.scenario.buckets()).map(Bucket)
    }

    fn happen(&self, state: &mut State, action: Action) {
        match action {
            Action::Call(order) => {
                state.left.calls[usize::from(order.0)] -= 1;
                let placement = self.placement(order, state.day);
                state.calls.push(Call { placement, degraded: false, at: At::Home });
            }
            Action::Step(index, how) => {
                Fault::of(&state.calls[index].at).spend(&mut state.left, how);
                self.step_call(state, index, how);
            }
            Action::Job(index, how) => {
                Fault::Counted.spend(&mut state.left, how);
                self.step_job(state, index, how);
            }
            Action::Land(index) => {
                let late = state.late.remove(index);
                self.land(state, late);
            }
            Action::Deliver { message, again } => {
                let taken = state.messages[message].clone();
                if again {
                    state.left.redelivered -= 1;
                } else {
                    state.messages.remove(message);
                }
                self.deliver(state, &taken);
            }
            Action::Batch { first, second, again } => {
                let mut drafts = vec![state.persists[first].clone()];
                let other = second.map(|at| state.persists[at].clone());
                // One transaction names an order once: of two messages of one order, one is enough.
                drafts.extend(other.filter(|other| other.placement.order != drafts[0].placement.order));
                if again {
                    state.left.redelivered -= 1;
                } else {
                    let mut at = 0;
                    state.persists.retain(|_| {
                        at += 1;
                        at - 1 != first && Some(at - 1) != second
                    });
                }
                state.jobs.push(Job::Batch { drafts });
            }
            Action::End(order, event) => {
                let left = match event {
                    Event::Cancel => &mut state.left.cancels,
                    Event::Expire => &mut state.left.expiries,
                    _ => &mut state.left.refunds,
                };
                *left -= 1;
                self.end(state, order, event);
            }
            Action::CancelUnseen(order) => {
                state.left.cancels -= 1;
                self.cancel_unseen(state, order);
            }
            Action::Pay(order, bucket) => {
                state.left.payments -= 1;
                self.pay_order(state, order, bucket);
            }
            Action::Confirm(order, bucket) => {
                state.left.confirms -= 1;
                let job = self.start_confirm(state, order, bucket);
                state.jobs.push(job);
            }
            other => self.surround(state, other),
        }
    }

    fn surround(&self, state: &mut State, action: Action) {
        match action {
            Action::ReadStock(bucket) => {
                state.left.syncs -= 1;
                let allotments = state.database.allotments(bucket);
                state.jobs.push(Job::Sync { bucket, allotments });
            }
            Action::ReadItem(sku, bucket) => {
                state.left.sums -= 1;
                if let Some(item) = state.database.stock.get((sku, bucket)).copied() {
                    let (version, available, allotted) = (item.version, item.available, item.allotted);
                    state.jobs.push(Job::Sum { sku, bucket, version, available, allotted });
                }
            }
            Action::TryMove(index) => {
                state.left.moves -= 1;
                self.try_move(state, index);
            }
            Action::Switch(on) => {
                state.left.switches -= 1;
                state.database_mut().set_on_sale(Sku(0), Bucket(0), on);
            }
            Action::Midnight => {
                state.left.midnights -= 1;
                state.day += 1;
                self.reach(Reached::NextDay);
            }
            Action::Flush(bucket) => {
                state.left.flushes -= 1;
                let node = state.node_mut(bucket);
                node.gate.flush();
                node.restocked.clear();
            }
            Action::LoseStock(bucket) => {
                state.left.expiries_of_keys -= 1;
                state.gate_mut(bucket).lose_stock();
            }
            Action::LoseOrders(bucket) => {
                state.left.expiries_of_keys -= 1;
                let node = state.node_mut(bucket);
                node.gate.lose_orders();
                node.restocked.clear();
            }
            Action::Snapshot(bucket) => {
                let node = state.nodes[usize::from(bucket.0)].clone();
                state.replicas[usize::from(bucket.0)] = Some(node);
            }
            Action::FailOver(bucket) => {
                state.left.failovers -= 1;
                if let Some(node) = state.replicas[usize::from(bucket.0)].take() {
                    state.nodes[usize::from(bucket.0)] = node;
                }
                self.reach(Reached::FailedOver);
            }
            Action::Forget(order) => drop(state.database_mut().orders.remove(order)),
            _ => {}
        }
    }
}

/// What a step must not do to the database, whatever it was.
fn broken_step(before: &Database, after: &Database) -> Option<Broken> {
    for (key, item) in after.stock.iter() {
        let Some(old) = before.stock.get(key) else { continue };
        if item != old && item.version != old.version + 1 {
            return Some(Broken::Version);
        }
    }
    for (order, stored) in before.orders.iter() {
        let same = match (stored, after.orders.get(order)) {
            (Stored::Order(old), Some(Stored::Order(new))) => new.take >= old.take && new.placement == old.placement,
            (Stored::Aborted(_), Some(Stored::Aborted(_))) => true,
            _ => false,
        };
        if !same {
            return Some(Broken::Forgotten);
        }
    }
    None
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let mut database = Database::default();
        for (sku, row) in (0..).map(Sku).zip(&self.scenario.stock) {
            for (bucket, units) in (0..).map(Bucket).zip(row) {
                database.open_stock(sku, bucket, *units);
            }
        }
        let nodes = self.buckets().map(|bucket| {
            let mut gate = Gate::empty(bucket);
            if self.scenario.loaded {
                gate.preheat(CONTROL, &database.allotments(bucket));
            }
            Arc::new(Node { gate, restocked: Vec::<(OrderId, Take)>::new() })
        });
        let nodes: Vec<Arc<Node>> = nodes.collect();
        vec![State {
            replicas: vec![None; nodes.len()],
            nodes,
            database: Arc::new(database),
            calls: Vec::new(),
            jobs: Vec::new(),
            late: Vec::new(),
            messages: Vec::new(),
            persists: Vec::new(),
            ghosts: vec![Ghost::default(); self.scenario.submissions.len()],
            left: self.scenario.bounds,
            day: 0,
            broken: None,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // What follows a broken promise tells nothing.
        if state.broken.is_some() {
            return;
        }
        self.running(state, actions);
        self.buyers(state, actions);
        self.surroundings(state, actions);
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut after = state.clone();
        self.happen(&mut after, action);
        after.settle_order();
        if !Arc::ptr_eq(&state.database, &after.database)
            && !matches!(action, Action::Forget(_))
            && let Some(broken) = broken_step(&state.database, &after.database)
        {
            after.breaks(broken);
        }
        Some(after)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("1 nothing is oversold", invariants::nothing_is_oversold),
            Property::always("2 nobody is over the limit", invariants::nobody_is_over_the_limit),
            Property::always("3 both sums hold", invariants::sums_hold),
            Property::always("4 each take counts once", invariants::each_take_counts_once),
            Property::always("5 two reconciliations settle", invariants::two_reconciliations_settle),
            Property::always("6 what was told stays", invariants::what_was_told_stays),
            Property::always("7 every change has its version", invariants::every_change_has_its_version),
            Property::always("8 nothing impossible was seen", invariants::nothing_impossible_was_seen),
        ]
    }
}
