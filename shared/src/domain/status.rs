//! The life of an order, as one transition function. Conditions in the database are derived from it.

use serde::{Deserialize, Serialize};

/// Where a stored order stands. An order that is not stored has no status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    PendingPayment,
    Paid,
    Shipped,
    /// Given up by the buyer or an operator before it was paid.
    Cancelled,
    /// Not paid in time.
    Closed,
    Refunded,
    /// A tombstone: this submission was given up before it became an order, and never will be one.
    Aborted,
}

impl Status {
    pub const ALL: [Self; 7] =
        [Self::PendingPayment, Self::Paid, Self::Shipped, Self::Cancelled, Self::Closed, Self::Refunded, Self::Aborted];

    /// Whether the order holds stock and quota.
    #[must_use]
    pub const fn is_live(self) -> bool {
        matches!(self, Self::PendingPayment | Self::Paid | Self::Shipped)
    }

    /// The status as it is stored and shown.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PendingPayment => "PENDING_PAYMENT",
            Self::Paid => "PAID",
            Self::Shipped => "SHIPPED",
            Self::Cancelled => "CANCELLED",
            Self::Closed => "CLOSED",
            Self::Refunded => "REFUNDED",
            Self::Aborted => "ABORTED",
        }
    }
}

/// What can happen to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// The order transaction.
    Place,
    /// The claim: whoever gives a submission up puts the tombstone first.
    Abort,
    Pay,
    Cancel,
    /// The payment deadline passed.
    Expire,
    Ship,
    Refund,
}

impl Event {
    pub const ALL: [Self; 7] =
        [Self::Place, Self::Abort, Self::Pay, Self::Cancel, Self::Expire, Self::Ship, Self::Refund];
}

/// What an event does to an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transition {
    /// It moves there, taking or giving back stock as [`StockEffect`] says.
    To(Status, StockEffect),
    /// It happened already: no effect, same answer.
    Already,
    /// It may not happen; the order stays as it is.
    Refused,
}

/// What a transition does to the stock that the order holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StockEffect {
    None,
    /// Takes it; the order's take count goes up.
    Take,
    GiveBack,
}

/// The life of an order: the only place that says what may follow what. `None` is an order that is
/// not stored.
#[must_use]
pub const fn next(from: Option<Status>, event: Event) -> Transition {
    use {Event as E, Status as S, StockEffect as X, Transition as T};
    match (from, event) {
        (None, E::Place) => T::To(S::PendingPayment, X::Take),
        (None, E::Abort) => T::To(S::Aborted, X::None),
        (Some(S::PendingPayment), E::Pay) => T::To(S::Paid, X::None),
        (Some(S::PendingPayment), E::Cancel) => T::To(S::Cancelled, X::GiveBack),
        (Some(S::PendingPayment), E::Expire) => T::To(S::Closed, X::GiveBack),
        (Some(S::Paid), E::Ship) => T::To(S::Shipped, X::None),
        (Some(S::Paid), E::Refund) => T::To(S::Refunded, X::GiveBack),
        // A late payment: stock and quota permitting, in the same write.
        (Some(S::Closed), E::Pay) => T::To(S::Paid, X::Take),
        (Some(S::PendingPayment | S::Paid | S::Shipped), E::Place)
        | (Some(S::Paid | S::Shipped), E::Pay)
        | (Some(S::Shipped), E::Ship)
        | (Some(S::Cancelled), E::Cancel)
        | (Some(S::Closed), E::Expire)
        | (Some(S::Refunded), E::Refund)
        | (Some(S::Aborted), E::Abort) => T::Already,
        _ => T::Refused,
    }
}

/// The statuses from which an event moves an order: what a write's condition must allow, and nothing
/// else. `None` stands for "not stored".
#[must_use]
pub fn sources(event: Event) -> Vec<Option<Status>> {
    std::iter::once(None)
        .chain(Status::ALL.map(Some))
        .filter(|from| matches!(next(*from, event), Transition::To(..)))
        .collect()
}

/// How often an order has taken its stock: 1, or 2 after a late payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Take(u8);

impl Take {
    pub const FIRST: Self = Self(1);
    pub const SECOND: Self = Self(2);

    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    #[must_use]
    pub const fn from_u8(take: u8) -> Option<Self> {
        match take {
            1 | 2 => Some(Self(take)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Event as E, Status as S, *};

    /// Every status × event, literally, in the order of [`Event::ALL`]: place, abort, pay, cancel,
    /// expire, ship, refund. `=` happened already, `-` is refused.
    const TABLE: [(Option<S>, [&str; 7]); 8] = [
        (None, ["PENDING_PAYMENT+", "ABORTED", "-", "-", "-", "-", "-"]),
        (Some(S::PendingPayment), ["=", "-", "PAID", "CANCELLED<", "CLOSED<", "-", "-"]),
        (Some(S::Paid), ["=", "-", "=", "-", "-", "SHIPPED", "REFUNDED<"]),
        (Some(S::Shipped), ["=", "-", "=", "-", "-", "=", "-"]),
        (Some(S::Cancelled), ["-", "-", "-", "=", "-", "-", "-"]),
        (Some(S::Closed), ["-", "-", "PAID+", "-", "=", "-", "-"]),
        (Some(S::Refunded), ["-", "-", "-", "-", "-", "-", "="]),
        (Some(S::Aborted), ["-", "=", "-", "-", "-", "-", "-"]),
    ];

    fn cell(transition: Transition) -> String {
        match transition {
            Transition::Already => "=".to_owned(),
            Transition::Refused => "-".to_owned(),
            Transition::To(status, StockEffect::None) => status.as_str().to_owned(),
            Transition::To(status, StockEffect::Take) => format!("{}+", status.as_str()),
            Transition::To(status, StockEffect::GiveBack) => format!("{}<", status.as_str()),
        }
    }

    #[test]
    fn every_status_and_event() {
        for (from, cells) in TABLE {
            for (event, expected) in E::ALL.into_iter().zip(cells) {
                assert_eq!(cell(next(from, event)), expected, "{from:?} × {event:?}");
            }
        }
    }

    #[test]
    fn stock_is_taken_when_an_order_comes_alive_and_given_back_when_it_dies() {
        for from in std::iter::once(None).chain(S::ALL.map(Some)) {
            for event in E::ALL {
                if let Transition::To(to, effect) = next(from, event) {
                    let expected = match (from.is_some_and(S::is_live), to.is_live()) {
                        (false, true) => StockEffect::Take,
                        (true, false) => StockEffect::GiveBack,
                        _ => StockEffect::None,
                    };
                    assert_eq!(effect, expected, "{from:?} × {event:?}");
                }
            }
        }
    }

    #[test]
    fn an_order_and_its_tombstone_exclude_each_other() {
        assert_eq!(sources(E::Place), [None]);
        assert_eq!(sources(E::Abort), [None]);
        assert_eq!(sources(E::Pay), [Some(S::PendingPayment), Some(S::Closed)]);
    }
}
