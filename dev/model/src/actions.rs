//! What can happen next in a state, within the bounds of the model.

use holdfast::domain::order::{Transition, next};

use crate::{
    protocol::{Action, How, Protocol},
    reference::{Bucket, Event, OrderId, Sku, Status, database::Stored},
    scenario::{Bounds, Bug},
    state::{At, Job, Late, State},
};

/// Which budget a step spends that is not answered.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// A caller that is not answered only ends here: it might as well never go on.
    Ends,
    Counted,
    /// The call goes on without Redis.
    Degrades,
}

impl Fault {
    pub const fn of(at: &At) -> Self {
        match at {
            At::Home | At::HomeAgain { .. } | At::Reduce { .. } => Self::Degrades,
            At::Look { .. }
            | At::Resume { .. }
            | At::ResumeLook { .. }
            | At::Existing { .. }
            | At::ReduceLook { .. }
            | At::Past
            | At::OtherStock { .. }
            | At::Tell { .. } => Self::Ends,
            _ => Self::Counted,
        }
    }

    fn hows(self, state: &State, actions: &mut Vec<Action>, action: impl Fn(How) -> Action) {
        actions.push(action(How::Answered));
        let left = match self {
            Self::Ends => return,
            Self::Counted => state.left.faults,
            Self::Degrades => state.left.degraded,
        };
        if left > 0 {
            actions.extend([action(How::Lost), action(How::Failed)]);
        }
        if state.left.late > 0 && (self == Self::Counted || left > 0) {
            actions.push(action(How::Late));
        }
    }

    pub fn spend(self, left: &mut Bounds, how: How) {
        if how == How::Late {
            left.late -= 1;
        }
        match (self, how) {
            (Self::Degrades, How::Lost | How::Failed | How::Late) => left.degraded -= 1,
            (_, How::Lost | How::Failed) => left.faults -= 1,
            _ => {}
        }
    }
}

impl Protocol {
    pub(crate) fn running(&self, state: &State, actions: &mut Vec<Action>) {
        for (index, call) in state.calls.iter().enumerate() {
            Fault::of(&call.at).hows(state, actions, |how| Action::Step(index, how));
        }
        for (index, job) in state.jobs.iter().enumerate() {
            let counted = matches!(job, Job::Restock { .. } | Job::Restore { .. });
            let fault = if counted { Fault::Counted } else { Fault::Ends };
            fault.hows(state, actions, |how| Action::Job(index, how));
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

    pub(crate) fn buyers(&self, state: &State, actions: &mut Vec<Action>) {
        for order in self.orders() {
            if state.left.calls[usize::from(order.0)] > 0 {
                actions.push(Action::Call(order));
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

    pub(crate) fn surroundings(&self, state: &State, actions: &mut Vec<Action>) {
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
}
