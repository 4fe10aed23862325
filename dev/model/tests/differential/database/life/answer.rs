//! What these operations answer: by the reference, and by the real database.

use holdfast::{
    adapters::dynamodb::Database as RealDatabase,
    domain::{
        activity::QuotaPolicy,
        order::{EndedBy, Transition, next},
        payment::RefundReason,
        stock::{ChangeMark, Operation as Change},
    },
    ports::{
        Changed as RealChanged, Ending as RealEnding, Fault, MoveStore as _, Moved as RealMoved, OrderLife as _,
        Revival as RealRevival,
    },
};
use model::reference::{
    Bucket, Event, OrderId, PLACEMENTS_MAX, Sku,
    changes::{Changed, Ending, PaymentId, Refund, Revival},
    database::{Commit, Database, Limit, MoveId, Order, Stored},
    stock::{Move, Moved},
};

use super::{
    How, Life, REASONS, payment,
    told::{ended_by, move_id, real_move, real_order, real_payment, refund, refund_due, stock_move},
};
use crate::{
    cast::{Cast, due, real_bucket, real_parts},
    database::answer::{Answer, Call, OPERATOR, commit},
};

/// Who ends orders where no operator does.
const SYSTEM: &str = "a function";

/// What the caller says, by the order that it read.
fn ending(seen: &Order, how: How, call: &Call) -> Ending {
    let event = how.event();
    let by_policy = match next(Some(seen.status), event) {
        Transition::To(status, _) => Order { status, ..seen.clone() }.keeps_quota(call.policy),
        _ => call.policy == QuotaPolicy::Keep,
    };
    let refund = (PaymentId::Operator(seen.take), RefundReason::Operator);
    Ending {
        event,
        at: call.at,
        is_due: call.at > due(seen.placement.order),
        keep_quota: how.release().map_or(by_policy, |release| !release),
        by_operator: how.release().is_some(),
        refund: matches!(how, How::OperatorRefunds { .. }).then_some(refund),
    }
}

fn change(sku: u8, parts: &[(u8, i16)], call: &Call) -> Move {
    let parts = parts.iter().map(|(bucket, more)| (Bucket(*bucket), *more)).collect();
    Move { sku: Sku(sku), parts, at: call.at }
}

fn ended(event: Event, changed: Changed) -> Answer {
    match event {
        Event::Expire => Answer::Expired(changed),
        Event::Refund => Answer::Refunded(changed),
        _ => Answer::Cancelled(changed),
    }
}

/// The reference's answer.
pub fn expect(database: &mut Database, life: &Life, call: &Call) -> Answer {
    match (life, &call.seen) {
        (Life::End { how, .. }, Some(seen)) => ended(how.event(), database.end(seen, &ending(seen, *how, call))),
        (Life::PayLate { payment: index, parts, limit, .. }, Some(closed)) => {
            let parts = parts.as_ref().unwrap_or(&closed.parts);
            let charge = !closed.keeps_quota(call.policy);
            let revival = Revival { closed, payment: payment(*index), parts, charge, at: call.at };
            let limit = Limit { units: *limit, placements: PLACEMENTS_MAX };
            Answer::PaidLate(database.pay_late(&revival, limit))
        }
        (Life::Pay { order, payment: index }, _) => {
            Answer::Paid(database.pay(OrderId(*order), payment(*index), call.at))
        }
        (Life::RecordRefund { order, payment: index, reason, .. }, expired) => {
            let refund = Refund { reason: REASONS[usize::from(*reason)], at: call.at };
            let changed = database.record_refund(OrderId(*order), payment(*index), refund, expired.as_ref());
            Answer::RefundRecorded(changed)
        }
        (Life::Refunds { order }, _) => {
            let of_order = database.refunds.iter().filter(|((of, _), _)| of.0 == *order);
            Answer::Refunds(of_order.map(|((_, id), refund)| (id, *refund)).collect())
        }
        (Life::Due { bucket, first, last }, _) => {
            let due = |stored: &Stored| {
                matches!(stored, Stored::Order(it)
                    if it.placement.home.0 == *bucket && (*first..*last).contains(&it.placement.order.0))
            };
            let orders = database.orders.iter().filter(|(_, stored)| due(stored));
            Answer::Due(orders.map(|(order, _)| order).collect())
        }
        (Life::Move { id, sku, parts }, _) => Answer::Moved(database.make_move(MoveId(*id), change(*sku, parts, call))),
        (Life::StockMove { id }, _) => Answer::Move(database.moves.get(MoveId(*id)).cloned()),
        (Life::End { .. } | Life::PayLate { .. }, None) => Answer::Other("nobody read the order".to_owned()),
    }
}

/// The operation, the actor and the reference that these leave on stock which they change.
pub fn mark(cast: &Cast, life: &Life, reference: &str) -> (Change, String, String) {
    let number = |order: u8| cast.number(OrderId(order)).to_string();
    match life {
        Life::End { order, how, .. } => {
            let actor = if how.release().is_some() { OPERATOR } else { SYSTEM };
            (operation(*how), actor.to_owned(), number(*order))
        }
        Life::PayLate { order, .. } => (Change::Order, "payment".to_owned(), number(*order)),
        _ => (Change::Manual, OPERATOR.to_owned(), reference.to_owned()),
    }
}

const fn operation(how: How) -> Change {
    match how.event() {
        Event::Expire => Change::Expiry,
        Event::Refund => Change::Refund,
        _ => Change::Cancel,
    }
}

/// Asks the real database.
pub async fn ask(cast: &Cast, database: &RealDatabase, life: &Life, call: &Call) -> Result<Answer, Fault> {
    let at = cast.at(call.at);
    let seen = call.seen.as_ref().map(|seen| (seen, real_order(cast, seen)));
    Ok(match (life, seen) {
        (Life::End { how, .. }, Some((seen, order))) => {
            let ending = real_ending(cast, &ending(seen, *how, call), seen, *how);
            told(database.end(&order, &ending).await?, |changed| ended(how.event(), changed))
        }
        (Life::PayLate { order, payment: index, parts, limit, .. }, Some((seen, closed))) => {
            let revival = RealRevival {
                closed: &closed,
                payment: &real_payment(cast, OrderId(*order), payment(*index)),
                parts: real_parts(parts.as_ref().unwrap_or(&seen.parts)),
                charge: !closed.keeps_quota(call.policy),
                limit_max: (*limit).into(),
                at,
            };
            commit(database.pay_late(&revival).await?, Answer::PaidLate)
        }
        (Life::Pay { order, payment: index }, _) => {
            let payment = real_payment(cast, OrderId(*order), payment(*index));
            // The order as it was placed, whatever became of it: the write decides.
            let placed = cast.both(crate::cast::Submission::new(*order, 0)).real.clone().into_order(Vec::new());
            told(database.pay(&placed, &payment, at).await?, Answer::Paid)
        }
        (Life::RecordRefund { order, payment: index, reason, .. }, seen) => {
            let why = (REASONS[usize::from(*reason)], call.at);
            let refund = refund_due(cast, OrderId(*order), payment(*index), why);
            let expired = seen.as_ref().map(|(_, order)| order);
            told(database.record_refund(&refund, expired).await?, Answer::RefundRecorded)
        }
        (Life::Move { id, sku, parts }, _) => {
            let id = MoveId(*id);
            let change = real_move(cast, id, &change(*sku, parts, call));
            let (operation, operator, reference) = mark(cast, life, &call.reference);
            match database.make_move(&change, &ChangeMark { operation, operator, reference }).await? {
                RealMoved::Done => Answer::Moved(Moved::Done),
                RealMoved::Already(made) => {
                    stock_move(cast, id, &made).map_or_else(Answer::Other, |made| Answer::Moved(Moved::Already(made)))
                }
                RealMoved::Short => Answer::Moved(Moved::Short),
                RealMoved::Busy => Answer::Busy,
            }
        }
        _ => return read(cast, database, life).await,
    })
}

async fn read(cast: &Cast, database: &RealDatabase, life: &Life) -> Result<Answer, Fault> {
    Ok(match life {
        Life::Refunds { order } => {
            let found = database.refunds(&cast.number(OrderId(*order))).await?;
            let found: Result<Vec<_>, _> = found.iter().map(|real| refund(cast, real)).collect();
            found.map_or_else(Answer::Other, |mut found| {
                found.sort_unstable_by_key(|(key, _)| *key);
                Answer::Refunds(found.into_iter().map(|((_, id), refund)| (id, refund)).collect())
            })
        }
        Life::Due { bucket, first, last } => {
            let between = (cast.at(due(OrderId(*first))), cast.at(due(OrderId(*last))));
            let bucket = real_bucket(Bucket(*bucket));
            let (numbers, next) = database.due_orders(cast.activity(1), bucket, between, None).await?;
            let orders: Option<Vec<_>> = numbers.iter().map(|number| cast.order(number.as_str())).collect();
            match orders {
                Some(orders) if next.is_none() => Answer::Due(orders),
                _ => Answer::Other(format!("{numbers:?}, then {next:?}")),
            }
        }
        Life::StockMove { id } => {
            let found = database.stock_move(cast.id(), &move_id(MoveId(*id))).await?;
            let found = found.map(|made| stock_move(cast, MoveId(*id), &made)).transpose();
            found.map_or_else(Answer::Other, Answer::Move)
        }
        _ => Answer::Other("nobody read the order".to_owned()),
    })
}

fn real_ending(cast: &Cast, ending: &Ending, seen: &Order, how: How) -> RealEnding {
    let ended_by: Option<EndedBy> = ending.by_operator.then(|| ended_by(ending.keep_quota));
    let order = seen.placement.order;
    let (operation, actor, _) = mark(cast, &Life::End { order: order.0, ago: 0, how }, "");
    RealEnding {
        event: ending.event,
        at: cast.at(ending.at),
        keep_quota: ending.keep_quota,
        operation,
        actor,
        ended_by,
        refund: ending.refund.map(|(id, reason)| refund_due(cast, order, id, (reason, ending.at))),
    }
}

fn told(changed: RealChanged, answer: impl FnOnce(Changed) -> Answer) -> Answer {
    match changed {
        RealChanged::Done => answer(Changed::Done),
        RealChanged::Otherwise => answer(Changed::Otherwise),
        RealChanged::Busy => Answer::Busy,
    }
}

/// Every circumstance that [`circumstances`] tells.
pub const CIRCUMSTANCES: [&str; 8] = [
    "quota kept by policy",
    "quota kept against the policy",
    "quota given back",
    "quota given back against the policy",
    "money goes back with the order",
    "paid late and charged",
    "paid late with its quota kept",
    "judged too late",
];

/// What an answer alone does not tell.
pub fn circumstances(life: &Life, call: &Call, answer: &Answer) -> Vec<&'static str> {
    let Some(seen) = &call.seen else { return Vec::new() };
    match (life, answer) {
        (
            Life::End { how, .. },
            Answer::Cancelled(Changed::Done) | Answer::Expired(Changed::Done) | Answer::Refunded(Changed::Done),
        ) => {
            let ending = ending(seen, *how, call);
            let by_policy = ending.event != Event::Refund && call.policy == QuotaPolicy::Keep;
            let quota = match (ending.keep_quota, by_policy) {
                (true, true) => "quota kept by policy",
                (true, false) => "quota kept against the policy",
                (false, false) => "quota given back",
                (false, true) => "quota given back against the policy",
            };
            let money = ending.refund.is_some().then_some("money goes back with the order");
            [Some(quota), money].into_iter().flatten().collect()
        }
        (Life::PayLate { .. }, Answer::PaidLate(Commit::Committed)) => {
            let kept = seen.keeps_quota(call.policy);
            vec![if kept { "paid late with its quota kept" } else { "paid late and charged" }]
        }
        (Life::RecordRefund { .. }, Answer::RefundRecorded(Changed::Done)) => vec!["judged too late"],
        _ => Vec::new(),
    }
}
