//! The state machine: what can happen next in a state, and what it does.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use holdfast::domain::order::{Transition, next};
use stateright::{Model, Property};

use crate::{
    invariants,
    reference::{
        Bucket, Day, Event, LinesId, OrderId, Placement, Sku, Status, Take,
        database::{Database, Stored},
        gate::Gate,
    },
    scenario::{Bounds, Bug, ORDERS_MAX, Reached, Scenario},
    settle::Memo,
    state::{At, Broken, Call, Ghost, Job, Late, Node, State},
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
    /// The same while Redis does not answer.
    CallDegraded(OrderId),
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

    fn orders(&self) -> impl Iterator<Item = OrderId> + use<> {
        (0..u8::try_from(self.scenario.submissions.len().min(ORDERS_MAX)).unwrap_or(0)).map(OrderId)
    }

    fn buckets(&self) -> impl Iterator<Item = Bucket> + use<> {
        (0..self.scenario.buckets()).map(Bucket)
    }

    fn hows(state: &State, faulty: bool, actions: &mut Vec<Action>, action: impl Fn(How) -> Action) {
        actions.push(action(How::Answered));
        if faulty && state.left.faults > 0 {
            actions.extend([action(How::Lost), action(How::Failed)]);
        }
        if faulty && state.left.late > 0 {
            actions.push(action(How::Late));
        }
    }

    fn running(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, call) in state.calls.iter().enumerate() {
            // Where the call only ends when it is not answered, it might as well never go on.
            let faulty = !matches!(
                call.at,
                At::Home
                    | At::Look { .. }
                    | At::HomeAgain { .. }
                    | At::Resume { .. }
                    | At::ResumeLook { .. }
                    | At::Existing { .. }
                    | At::Reduce { .. }
                    | At::ReduceLook { .. }
                    | At::OtherStock { .. }
                    | At::Tell { .. }
            );
            Self::hows(state, faulty, actions, |how| Action::Step(index, how));
        }
        for (index, job) in state.jobs.iter().enumerate() {
            let faulty = matches!(job, Job::Restock { .. } | Job::Restore { .. });
            Self::hows(state, faulty, actions, |how| Action::Job(index, how));
        }
        actions.extend((0..state.late.len()).map(Action::Land));
        for message in 0..state.messages.len() {
            actions.push(Action::Deliver { message, again: false });
            if state.left.redelivered > 0 {
                actions.push(Action::Deliver { message, again: true });
            }
        }
        for first in 0..state.persists.len() {
            let others = (0..state.persists.len()).filter(|second| *second != first && self.scenario.bounds.batch > 1);
            for second in std::iter::once(None).chain(others.map(Some)) {
                actions.push(Action::Batch { first, second, again: false });
                if state.left.redelivered > 0 {
                    actions.push(Action::Batch { first, second, again: true });
                }
            }
        }
    }

    fn buyers(&self, state: &State, actions: &mut Vec<Action>) {
        for order in self.orders() {
            if state.left.calls[usize::from(order.0)] > 0 {
                actions.push(Action::Call(order));
                if state.left.degraded > 0 {
                    actions.push(Action::CallDegraded(order));
                }
            }
            let status = state.database.order(order).map(Stored::status);
            let can = |event| matches!(next(status, event), Transition::To(..));
            let ends = [
                (Event::Cancel, state.left.cancels),
                (Event::Expire, state.left.expiries),
                (Event::Refund, state.left.refunds),
            ];
            for (event, _) in ends.into_iter().filter(|(event, left)| *left > 0 && can(*event)) {
                actions.push(Action::End(order, event));
            }
            let sent = state.left.calls[usize::from(order.0)] < self.scenario.bounds.calls[usize::from(order.0)];
            if self.scenario.queued() && status.is_none() && sent && state.left.cancels > 0 {
                actions.push(Action::CancelUnseen(order));
            }
            if state.left.payments > 0 && can(Event::Pay) {
                match status {
                    Some(Status::Closed) => actions.extend(self.buckets().map(|bucket| Action::Pay(order, bucket))),
                    _ => actions.push(Action::Pay(order, Bucket(0))),
                }
            }
            self.reconcilers(state, order, status, actions);
        }
    }

    fn reconcilers(&self, state: &State, order: OrderId, status: Option<Status>, actions: &mut Vec<Action>) {
        let running = state
            .jobs
            .iter()
            .filter(|job| matches!(job, Job::Confirm { .. } | Job::RepairRestore { .. } | Job::RepairClaim { .. }));
        if state.left.confirms == 0 || running.count() >= usize::from(self.scenario.bounds.reconcilers.max(1)) {
            return;
        }
        for bucket in self.buckets() {
            let gate = state.gate(bucket);
            let listed = status.is_some_and(|status| status != Status::Aborted)
                || gate.records.get(order).is_some()
                || gate.marked_orders().contains(&order);
            if listed {
                actions.push(Action::Confirm(order, bucket));
            }
        }
    }

    fn surroundings(&self, state: &State, actions: &mut Vec<Action>) {
        let left = &state.left;
        let waiting = state.replicas.iter().flatten().count();
        for bucket in self.buckets() {
            let (node, replica) = (&state.nodes[usize::from(bucket.0)], &state.replicas[usize::from(bucket.0)]);
            if left.syncs > 0 {
                actions.push(Action::ReadStock(bucket));
            }
            if node.gate.usable() {
                if left.flushes > 0 {
                    actions.push(Action::Flush(bucket));
                }
                if left.expiries_of_keys > 0 {
                    actions.extend([Action::LoseStock(bucket), Action::LoseOrders(bucket)]);
                }
            }
            match replica {
                Some(replica) if replica != node => actions.push(Action::FailOver(bucket)),
                None if waiting < usize::from(left.failovers) => actions.push(Action::Snapshot(bucket)),
                _ => {}
            }
            if left.sums > 0 {
                actions.push(Action::ReadItem(Sku(0), bucket));
            }
        }
        if left.moves > 0 {
            actions.extend((0..self.scenario.moves.len()).map(Action::TryMove));
        }
        if left.switches > 0 {
            let on = state.database.stock.get((Sku(0), Bucket(0))).is_some_and(|item| item.on_sale);
            actions.push(Action::Switch(!on));
        }
        if left.midnights > 0 {
            actions.push(Action::Midnight);
        }
        if self.scenario.has(Bug::TombstoneForgotten) && state.late.iter().any(|late| matches!(late, Late::Commit(..)))
        {
            let dead = state.database.orders.iter().filter(|(_, stored)| stored.status() == Status::Aborted);
            actions.extend(dead.map(|(order, _)| Action::Forget(order)));
        }
    }

    fn call(&self, state: &mut State, order: OrderId, degraded: bool) {
        let left = &mut state.left;
        left.calls[usize::from(order.0)] -= 1;
        left.degraded -= u8::from(degraded);
        let placement = self.placement(order, state.day);
        let at = if degraded {
            At::Commit { parts: placement.home_parts(), touched: vec![placement.home], again: false }
        } else {
            At::Home
        };
        state.calls.push(Call { placement, degraded, at });
    }

    fn happen(&self, state: &mut State, action: Action) {
        match action {
            Action::Call(order) => self.call(state, order, false),
            Action::CallDegraded(order) => self.call(state, order, true),
            Action::Step(index, how) => {
                spend(&mut state.left, how);
                self.step_call(state, index, how);
            }
            Action::Job(index, how) => {
                spend(&mut state.left, how);
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

fn spend(left: &mut Bounds, how: How) {
    match how {
        How::Answered => {}
        How::Lost | How::Failed => left.faults -= 1,
        How::Late => left.late -= 1,
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
