//! What happens to committed orders, and to how much is on sale. Nothing ships an order yet.

pub mod answer;
pub mod told;

use std::fmt;

use holdfast::domain::payment::RefundReason;
use model::reference::{Event, Part, Take, Units, changes::PaymentId};
use proptest::{collection::vec, option, prelude::*, strategy::BoxedStrategy};

use super::operation::{limit, parts};
use crate::cast::{BUCKETS, ORDERS, SKU_NAMES, SKUS, part_list};

/// Payments of one order, by index: two of the provider's, one of an operator's for each take.
pub const PAYMENTS: u8 = 4;
pub const MOVES: u8 = 3;
/// Why money goes back that nobody ended an order for.
pub const REASONS: [RefundReason; 3] = [RefundReason::PaidTooLate, RefundReason::AlreadyPaid, RefundReason::OrderEnded];

pub const fn payment(index: u8) -> PaymentId {
    match index {
        2 => PaymentId::Operator(Take::FIRST),
        3 => PaymentId::Operator(Take::SECOND),
        index => PaymentId::Provider(index),
    }
}

/// How an order is ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Cancel,
    /// At so many milliseconds past its deadline.
    Expire(i32),
    /// The provider gave its money back.
    Refund,
    OperatorCancels {
        release: bool,
    },
    /// Its money goes back with it.
    OperatorRefunds {
        release: bool,
    },
}

impl How {
    pub const fn event(self) -> Event {
        match self {
            Self::Cancel | Self::OperatorCancels { .. } => Event::Cancel,
            Self::Expire(_) => Event::Expire,
            Self::Refund | Self::OperatorRefunds { .. } => Event::Refund,
        }
    }

    /// What an operator says of the buyer's quota.
    pub const fn release(self) -> Option<bool> {
        match self {
            Self::OperatorCancels { release } | Self::OperatorRefunds { release } => Some(release),
            _ => None,
        }
    }
}

/// Where `ago` is told, the caller read the order so many changes ago.
#[derive(Clone, PartialEq)]
pub enum Life {
    End {
        order: u8,
        ago: u8,
        how: How,
    },
    Pay {
        order: u8,
        payment: u8,
    },
    PayLate {
        order: u8,
        ago: u8,
        payment: u8,
        /// The same as before where none are told.
        parts: Option<Vec<Part>>,
        limit: Units,
    },
    RecordRefund {
        order: u8,
        payment: u8,
        reason: u8,
        /// With the expired order, and when that was read.
        expired: Option<u8>,
    },
    Refunds {
        order: u8,
    },
    /// From the deadline of the first order on to before that of the last.
    Due {
        bucket: u8,
        first: u8,
        last: u8,
    },
    Move {
        id: u8,
        sku: u8,
        parts: Vec<(u8, i16)>,
    },
    StockMove {
        id: u8,
    },
}

impl Life {
    /// The order whose earlier states its caller may have read, and which of them.
    pub const fn read(&self) -> Option<(u8, u8)> {
        match self {
            Self::End { order, ago, .. }
            | Self::PayLate { order, ago, .. }
            | Self::RecordRefund { order, expired: Some(ago), .. } => Some((*order, *ago)),
            _ => None,
        }
    }

    /// The order and the move that it is about; one that there is none of where it is about none.
    pub const fn subject(&self) -> (Option<u8>, Option<u8>) {
        match self {
            Self::End { order, .. }
            | Self::Pay { order, .. }
            | Self::PayLate { order, .. }
            | Self::RecordRefund { order, .. }
            | Self::Refunds { order } => (Some(*order), Some(MOVES)),
            Self::Move { id, .. } | Self::StockMove { id } => (Some(ORDERS), Some(*id)),
            Self::Due { .. } => (Some(ORDERS), Some(MOVES)),
        }
    }
}

fn ago() -> impl Strategy<Value = u8> {
    prop_oneof![5 => Just(0_u8), 1 => 1_u8..3]
}

fn how() -> impl Strategy<Value = How> {
    prop_oneof![
        3 => Just(How::Cancel),
        2 => (-1..=1).prop_map(How::Expire),
        3 => Just(How::Expire(60_000)),
        2 => Just(How::Refund),
        3 => any::<bool>().prop_map(|release| How::OperatorCancels { release }),
        3 => any::<bool>().prop_map(|release| How::OperatorRefunds { release }),
    ]
}

fn pay_late(order: BoxedStrategy<u8>) -> impl Strategy<Value = Life> {
    let parts = prop_oneof![3 => Just(None), 1 => parts().prop_map(Some)];
    (order, ago(), 0_u8..2, parts, limit()).prop_map(|(order, ago, payment, parts, limit)| Life::PayLate {
        order,
        ago,
        payment,
        parts,
        limit,
    })
}

fn stock_move() -> impl Strategy<Value = Life> {
    let units = || option::weighted(0.7, prop_oneof![-6_i16..0, 1_i16..7]);
    (0..MOVES, 0..SKUS, units(), units()).prop_map(|(id, sku, first, second)| {
        let parts: Vec<_> = (0..BUCKETS).zip([first, second]).filter_map(|(at, more)| Some((at, more?))).collect();
        Life::Move { id, sku, parts: if parts.is_empty() { vec![(0, 1)] } else { parts } }
    })
}

/// Changes of one of these orders.
fn of_one(order: BoxedStrategy<u8>) -> BoxedStrategy<Life> {
    let refund = (order.clone(), 0..PAYMENTS, 0..3_u8, option::of(ago()));
    prop_oneof![
        6 => (order.clone(), ago(), how()).prop_map(|(order, ago, how)| Life::End { order, ago, how }),
        3 => (order.clone(), 0_u8..2).prop_map(|(order, payment)| Life::Pay { order, payment }),
        4 => pay_late(order),
        2 => refund.prop_map(|(order, payment, reason, expired)| {
            Life::RecordRefund { order, payment, reason, expired }
        }),
    ]
    .boxed()
}

/// Writes that are about these orders, and moves.
pub fn writes(order: BoxedStrategy<u8>) -> BoxedStrategy<Life> {
    prop_oneof![12 => of_one(order), 3 => stock_move()].boxed()
}

pub fn reads() -> BoxedStrategy<Life> {
    prop_oneof![
        (0..ORDERS).prop_map(|order| Life::Refunds { order }),
        (0..BUCKETS, 0..ORDERS, 0..=ORDERS).prop_map(|(bucket, first, more)| Life::Due {
            bucket,
            first,
            last: ORDERS.min(first + more)
        }),
        (0..MOVES).prop_map(|id| Life::StockMove { id }),
    ]
    .boxed()
}

/// What happens to one order after it was placed, first and after something else: whatever comes; or its
/// expiry, and a payment that is late or the refund of one; or an operator's word.
pub fn of_order(order: u8) -> BoxedStrategy<(Vec<Life>, Vec<Life>)> {
    let one = Just(order).boxed();
    let end = move |how| Life::End { order, ago: 0, how };
    let too_late =
        (0_u8..2).prop_map(move |payment| Life::RecordRefund { order, payment, reason: 0, expired: Some(0) });
    let late = prop_oneof![3 => pay_late(one.clone()), 1 => too_late];
    let operator = (any::<bool>(), any::<bool>()).prop_map(move |(paid, release)| {
        if paid {
            vec![Life::Pay { order, payment: 0 }, end(How::OperatorRefunds { release })]
        } else {
            vec![end(How::OperatorCancels { release })]
        }
    });
    prop_oneof![
        4 => vec(of_one(one), 1..5).prop_map(move |lives| (lives, vec![Life::Refunds { order }])),
        4 => late.prop_map(move |late| (vec![end(How::Expire(60_000))], vec![late])),
        2 => operator.prop_map(move |lives| (lives, vec![Life::Refunds { order }])),
    ]
    .boxed()
}

/// A move, and what is known of it.
pub fn move_and_read() -> impl Strategy<Value = Vec<Life>> {
    stock_move().prop_map(|made| {
        let id = made.subject().1.unwrap_or(0);
        vec![made, Life::StockMove { id }]
    })
}

impl fmt::Debug for Life {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = match self.read() {
            None | Some((_, 0)) => String::new(),
            Some((_, ago)) => format!(" as it was {ago} changes ago"),
        };
        match self {
            Self::End { order, how, .. } => write!(f, "{how:?} #{order}{read}"),
            Self::Pay { order, payment: index } => write!(f, "pay #{order} by {:?}", payment(*index)),
            Self::PayLate { order, payment: index, parts, limit, .. } => {
                let parts = parts.as_ref().map_or("what it had".to_owned(), |parts| part_list(parts));
                write!(f, "pay #{order}{read} late by {:?}: {parts} within a limit of {limit}", payment(*index))
            }
            Self::RecordRefund { order, payment: index, reason, expired } => {
                let why = REASONS[usize::from(*reason)];
                let of = if expired.is_some() { " of the expired order" } else { "" };
                write!(f, "{:?} of #{order} goes back{of}{read}: {why:?}", payment(*index))
            }
            Self::Refunds { order } => write!(f, "list what goes back of #{order}"),
            Self::Due { bucket, first, last } => {
                write!(f, "list what is due of home {bucket}, from #{first} to before #{last}")
            }
            Self::Move { id, sku, parts } => {
                let part = |(bucket, more): &(u8, i16)| format!("{more:+}@{bucket}");
                let parts: Vec<_> = parts.iter().map(part).collect();
                write!(f, "move {id} of {}: {}", SKU_NAMES[usize::from(*sku)], parts.join(" "))
            }
            Self::StockMove { id } => write!(f, "read move {id}"),
        }
    }
}
