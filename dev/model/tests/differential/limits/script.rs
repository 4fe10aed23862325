//! What buyers and others do, one step after another.

use std::fmt;

use holdfast::domain::{activity::QuotaPolicy, limit::LimitScope};
use proptest::{collection::vec, prelude::*, strategy::BoxedStrategy};

use super::sale::{BUYERS, CARTS, ORDERS, Submission};

const STEPS: std::ops::RangeInclusive<usize> = 1..=16;
/// Order numbers below this are submitted one by one.
const SINGLE: u8 = 6;

/// How a live order ends, and what becomes of its quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The quota by the activity's policy.
    Cancel,
    Expire,
    /// The quota as an operator says.
    Operator {
        keep: bool,
    },
}

#[derive(Clone, PartialEq)]
pub enum Step {
    /// The first time or again, the same or other words.
    Place(Submission),
    End {
        buyer: u8,
        order: u8,
        how: How,
    },
    /// An expired order is paid.
    PayLate {
        buyer: u8,
        order: u8,
    },
    /// The submission is given up before it is an order, or as if.
    GiveUp(Submission),
    /// So many submissions of one unit, each cancelled with its quota given back where `dead`.
    Many {
        buyer: u8,
        count: u8,
        dead: bool,
    },
}

#[derive(Clone, PartialEq)]
pub struct Script {
    pub scope: LimitScope,
    pub max: u32,
    pub policy: QuotaPolicy,
    pub steps: Vec<Step>,
}

pub fn scripts() -> impl Strategy<Value = Script> {
    let scope = prop_oneof![Just(LimitScope::Activity), Just(LimitScope::Sku), Just(LimitScope::Day)];
    let policy = prop_oneof![Just(QuotaPolicy::Release), Just(QuotaPolicy::Keep)];
    let many =
        (0..BUYERS, 18_u8..=20, any::<bool>()).prop_map(|(buyer, count, dead)| Some(Step::Many { buyer, count, dead }));
    let many = prop_oneof![3 => Just(None), 1 => many];
    let some = prop_oneof![3 => step().prop_map(|step| vec![step]), 1 => late()];
    (scope, 1_u32..6, policy, many, vec(some, STEPS)).prop_map(|(scope, max, policy, many, then)| {
        // So many that live are below no other limit.
        let max = if matches!(many, Some(Step::Many { dead: false, .. })) { 100 } else { max };
        Script { scope, max, policy, steps: many.into_iter().chain(then.concat()).collect() }
    })
}

/// An order expires and is paid late, with something in between: whatever comes, or the same buyer's next
/// orders.
fn late() -> impl Strategy<Value = Vec<Step>> {
    let next = vec(submission(), 2..5);
    let between = prop_oneof![vec(step(), 0..3).prop_map(Ok), next.prop_map(Err)];
    (submission(), between).prop_map(|(of, between)| {
        let Submission { buyer, order, .. } = of;
        let again =
            |next: Vec<Submission>| next.into_iter().map(|it| Step::Place(Submission { buyer, ..it })).collect();
        let first = [Step::Place(of), Step::End { buyer, order, how: How::Expire }];
        let between = between.unwrap_or_else(again);
        first.into_iter().chain(between).chain([Step::PayLate { buyer, order }]).collect()
    })
}

fn submission() -> BoxedStrategy<Submission> {
    let carts = u8::try_from(CARTS.len()).unwrap();
    // Mostly what the number says, so that repeats ask for the same.
    let cart = prop_oneof![3 => Just(None), 1 => (0..carts).prop_map(Some)];
    (0..BUYERS, 0..SINGLE, cart, prop::bool::weighted(0.3))
        .prop_map(move |(buyer, order, cart, tomorrow)| Submission {
            buyer,
            order,
            cart: cart.unwrap_or(order % carts),
            tomorrow,
        })
        .boxed()
}

fn step() -> BoxedStrategy<Step> {
    let how = prop_oneof![
        2 => Just(How::Cancel),
        2 => Just(How::Expire),
        1 => any::<bool>().prop_map(|keep| How::Operator { keep }),
    ];
    prop_oneof![
        8 => submission().prop_map(Step::Place),
        5 => (0..BUYERS, 0..SINGLE, how).prop_map(|(buyer, order, how)| Step::End { buyer, order, how }),
        2 => (0..BUYERS, 0..SINGLE).prop_map(|(buyer, order)| Step::PayLate { buyer, order }),
        1 => submission().prop_map(Step::GiveUp),
    ]
    .boxed()
}

/// The order numbers that [`Step::Many`] submits.
pub fn many(count: u8) -> impl Iterator<Item = u8> {
    (SINGLE..ORDERS).take(count.into())
}

impl fmt::Debug for Submission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = |(sku, units): &(usize, u32)| format!("{units}{}", ["a", "b", "c"][*sku]);
        let lines: Vec<_> = CARTS[usize::from(self.cart)].iter().map(line).collect();
        let day = if self.tomorrow { " tomorrow" } else { "" };
        write!(f, "buyer {}'s #{} [{}]{day}", self.buyer, self.order, lines.join(" "))
    }
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Place(of) => write!(f, "place {of:?}"),
            Self::End { buyer, order, how } => write!(f, "end buyer {buyer}'s #{order}: {how:?}"),
            Self::PayLate { buyer, order } => write!(f, "pay buyer {buyer}'s #{order} late"),
            Self::GiveUp(of) => write!(f, "give up {of:?}"),
            Self::Many { buyer, count, dead } => {
                let dead = if *dead { ", each cancelled with its quota given back" } else { "" };
                write!(f, "buyer {buyer} places {count} orders of one unit{dead}")
            }
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scope, max, policy, steps } = self;
        writeln!(f, "  a limit of {max} per {scope:?}, quota by {policy:?}")?;
        for (number, step) in (1..).zip(steps) {
            writeln!(f, "  {number:2}. {step:?}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // In the file of regressions: one line.
        write!(f, "{}", self.to_string().trim().replace("\n ", ";"))
    }
}
