//! Invariant 6: what clients were told stands.

use std::collections::BTreeMap;

use super::Check;
use crate::stores::snapshot::{Snapshot, StoredOrder};

/// The last thing that a client was told of a submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 201, or 200 for a replay.
    Accepted,
    /// 202: to be settled.
    Confirming,
    /// A refusal that ends the submission, by its code.
    Refused(String),
    /// Nothing that decides: every reply was lost, or it was only asked to come back.
    Open,
}

/// One token, and what its client was told.
#[derive(Clone, Debug)]
pub struct Submission {
    pub order_no: String,
    pub buyer: String,
    pub lines: BTreeMap<String, u32>,
    /// Whether any reply said that it was accepted.
    pub accepted: bool,
    /// Whether the order ended since: cancelled, expired or refunded.
    pub ended: bool,
    pub last: Answer,
    /// Calls without a reply: such a call may still land after a later one was refused without a
    /// trace, so that refusal names no order.
    pub unanswered: u32,
}

fn exists_as_told(order: Option<&StoredOrder>, told: &Submission) -> bool {
    order.is_some_and(|order| {
        order.is_live() != told.ended
            && order.lines == told.lines
            && order.buyer.as_deref() == Some(told.buyer.as_str())
    })
}

/// Orders that a client was told of and that are not there.
pub(super) fn lost(snapshot: &Snapshot, submissions: &[Submission]) -> u64 {
    let gone = submissions.iter().filter(|told| told.accepted && !snapshot.orders.contains_key(&told.order_no));
    u64::try_from(gone.count()).unwrap_or(u64::MAX)
}

pub(super) fn check(snapshot: &Snapshot, submissions: &[Submission]) -> Check {
    let mut violations = Vec::new();
    let (mut accepted, mut refused, mut silent, mut settled) = (0, 0, 0, 0);
    for told in submissions {
        let order = snapshot.orders.get(&told.order_no);
        let live = order.is_some_and(StoredOrder::is_live);
        if told.accepted {
            accepted += 1;
            if !exists_as_told(order, told) {
                violations
                    .push(format!("{} was told to {} as accepted and is not stored so", told.order_no, told.buyer));
            }
            continue;
        }
        match &told.last {
            Answer::Refused(code) => {
                refused += 1;
                // Given up for good, whatever else was on its way: the claim excludes the order.
                let certain = code == "order_aborted" || told.unanswered == 0;
                if live && certain {
                    violations.push(format!("{} was refused to {} as {code} and lives", told.order_no, told.buyer));
                }
            }
            Answer::Confirming => settled += 1,
            Answer::Open | Answer::Accepted => silent += 1,
        }
    }
    // The other way round: every order belongs to somebody's submission.
    let known: std::collections::BTreeSet<&String> = submissions.iter().map(|told| &told.order_no).collect();
    for (order_no, order) in snapshot.orders.iter().filter(|(order_no, _)| !known.contains(order_no)) {
        violations.push(format!("{order_no} ({}) was never submitted", order.status.as_str()));
    }
    let numbers = format!(
        "{accepted} orders told and there, {refused} refusals told and kept; {settled} last told to be settled, {silent} told nothing final"
    );
    Check::new("6", "what clients were told stands", numbers, violations)
}
