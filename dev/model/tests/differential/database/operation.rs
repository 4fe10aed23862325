//! What a script of the database is made of. Each step reads like a line of a script.
//! A new operation is one more variant here, or in `life`, one arm in `expect` and one in `ask`.

use std::fmt;

use holdfast::domain::{activity::QuotaPolicy, limit::LimitScope};
use model::reference::{Bucket, Part, Sku, Units};
use proptest::{collection::vec, prelude::*, strategy::BoxedStrategy};

use super::life::{self, Life};
use crate::cast::{BUCKETS, BUYERS, CARTS, FILLERS_MAX, ORDERS, SKU_NAMES, SKUS, Submission, part_list};

/// Single steps, and orders with what happens to them.
const STEPS: std::ops::RangeInclusive<usize> = 1..=30;
const STEPS_BEFORE_GROUP: std::ops::RangeInclusive<usize> = 0..=4;
const GROUP: std::ops::RangeInclusive<usize> = 1..=4;

#[derive(Clone, PartialEq)]
pub enum Operation {
    Commit {
        of: Submission,
        parts: Vec<Part>,
        limit: Units,
    },
    Claim {
        of: Submission,
        knows: bool,
    },
    OpenStock {
        sku: u8,
        bucket: u8,
        units: Units,
    },
    SetOnSale {
        sku: u8,
        bucket: u8,
        on_sale: bool,
    },
    /// Under the item's version, or one that is off.
    Correct {
        sku: u8,
        bucket: u8,
        off: i8,
        available: Units,
    },
    Order {
        order: u8,
    },
    /// All of them, some twice.
    Orders,
    BuyerOrders {
        buyer: u8,
    },
    HomeOrders {
        bucket: u8,
    },
    BucketStock {
        bucket: u8,
    },
    Stock,
    Life(Life),
    /// The guard of the submission's first scope lists so many other orders, of no units.
    Crowd {
        of: Submission,
        others: u8,
    },
}

impl Operation {
    /// The stock that it sets by hand.
    pub const fn corrects(&self) -> Option<(Sku, Bucket)> {
        match self {
            Self::Correct { sku, bucket, .. } => Some((Sku(*sku), Bucket(*bucket))),
            _ => None,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    pub scope: LimitScope,
    pub policy: QuotaPolicy,
    /// Units per SKU and bucket, where there are any.
    pub stock: Vec<Option<Units>>,
}

#[derive(Clone, PartialEq)]
pub struct Script {
    pub scene: Scene,
    pub steps: Vec<Operation>,
    /// The last of them at once.
    pub group: Vec<Operation>,
}

pub fn scripts() -> impl Strategy<Value = Script> {
    (scene(), steps(STEPS)).prop_map(|(scene, steps)| Script { scene, steps, group: Vec::new() })
}

pub fn groups() -> impl Strategy<Value = Script> {
    // Two buyers of one home, two orders each: they meet.
    let few = (0_u8..4, 0_u8..3).prop_map(|(order, cart)| Submission::new([0, 1, 3, 4][usize::from(order)], cart));
    (scene(), steps(STEPS_BEFORE_GROUP), vec(write(few.boxed()), GROUP)).prop_map(|(scene, steps, group)| Script {
        scene,
        steps,
        group,
    })
}

fn steps(count: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = Vec<Operation>> {
    let some = prop_oneof![
        20 => step(submission()).prop_map(|step| vec![step]),
        7 => order_with_its_life(),
        1 => life::move_and_read().prop_map(|lives| lives.into_iter().map(Operation::Life).collect()),
    ];
    vec(some, count).prop_map(|steps| steps.concat())
}

/// An order is placed, and something happens to it, and something else in between.
fn order_with_its_life() -> impl Strategy<Value = Vec<Operation>> {
    (submission(), prop_oneof![1_u16..8, Just(100_u16)]).prop_flat_map(|(of, limit)| {
        let home = crate::cast::home_of(crate::cast::buyer_of(of.order)).0;
        let frozen = Operation::SetOnSale { sku: CARTS[usize::from(of.cart)][0].0, bucket: home, on_sale: false };
        let between = prop_oneof![5 => vec(write(submission()), 0..3), 1 => Just(vec![frozen])];
        (life::of_order(of.order), between).prop_map(move |((first, last), between)| {
            let lives = |lives: Vec<Life>| lives.into_iter().map(Operation::Life);
            let commit = Operation::Commit { of, parts: home_parts(of), limit };
            std::iter::once(commit).chain(lives(first)).chain(between).chain(lives(last)).collect::<Vec<_>>()
        })
    })
}

fn scene() -> impl Strategy<Value = Scene> {
    let scope = prop_oneof![Just(LimitScope::Activity), Just(LimitScope::Sku), Just(LimitScope::Day)];
    let stock = vec(prop_oneof![1 => Just(None), 8 => (0_u16..9).prop_map(Some)], usize::from(SKUS * BUCKETS));
    let policy = prop_oneof![Just(QuotaPolicy::Release), Just(QuotaPolicy::Keep)];
    (scope, policy, stock).prop_map(|(scope, policy, stock)| Scene { scope, policy, stock })
}

fn submission() -> BoxedStrategy<Submission> {
    let carts = u8::try_from(CARTS.len()).unwrap();
    let late = prop::bool::weighted(0.15);
    (0..ORDERS, 0..carts, late).prop_map(|(order, cart, late)| Submission { order, cart, late }).boxed()
}

pub fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = (0..SKUS, 0..BUCKETS, prop_oneof![9 => 1_u16..4, 1 => Just(0)]);
    vec(part, 0..4)
        .prop_map(|parts| parts.into_iter().map(|(sku, bucket, units)| part_of(sku, bucket, units)).collect())
}

const fn part_of(sku: u8, bucket: u8, units: Units) -> Part {
    Part { sku: Sku(sku), bucket: Bucket(bucket), units }
}

pub fn limit() -> impl Strategy<Value = Units> {
    prop_oneof![4 => 1_u16..8, 1 => Just(100_u16)]
}

fn home_parts(of: Submission) -> Vec<Part> {
    let home = crate::cast::home_of(crate::cast::buyer_of(of.order)).0;
    CARTS[usize::from(of.cart)].iter().map(|(sku, units)| part_of(*sku, home, *units)).collect()
}

fn write(of: BoxedStrategy<Submission>) -> BoxedStrategy<Operation> {
    let order = of.clone().prop_map(|of| of.order).boxed();
    prop_oneof![
        14 => (of.clone(), limit())
            .prop_map(move |(of, limit)| Operation::Commit { of, parts: home_parts(of), limit }),
        14 => (of.clone(), parts(), limit()).prop_map(|(of, parts, limit)| Operation::Commit { of, parts, limit }),
        24 => life::writes(order).prop_map(Operation::Life),
        5 => (of, any::<bool>()).prop_map(|(of, knows)| Operation::Claim { of, knows }),
        3 => (0..SKUS, 0..BUCKETS, 0_u16..9)
            .prop_map(|(sku, bucket, units)| Operation::OpenStock { sku, bucket, units }),
        4 => (0..SKUS, 0..BUCKETS, prop::bool::weighted(0.6))
            .prop_map(|(sku, bucket, on_sale)| Operation::SetOnSale { sku, bucket, on_sale }),
        4 => (0..SKUS, 0..BUCKETS, prop_oneof![2 => Just(0_i8), 1 => -1_i8..2], 0_u16..9)
            .prop_map(|(sku, bucket, off, available)| Operation::Correct { sku, bucket, off, available }),
    ]
    .boxed()
}

fn step(of: BoxedStrategy<Submission>) -> BoxedStrategy<Operation> {
    prop_oneof![
        68 => write(of.clone()),
        6 => life::reads().prop_map(Operation::Life),
        3 => (0..ORDERS).prop_map(|order| Operation::Order { order }),
        3 => Just(Operation::Orders),
        3 => (0..BUYERS).prop_map(|buyer| Operation::BuyerOrders { buyer }),
        3 => (0..BUCKETS).prop_map(|bucket| Operation::HomeOrders { bucket }),
        2 => (0..BUCKETS).prop_map(|bucket| Operation::BucketStock { bucket }),
        1 => Just(Operation::Stock),
        2 => (of, FILLERS_MAX - 3..=FILLERS_MAX).prop_map(|(of, others)| Operation::Crowd { of, others }),
    ]
    .boxed()
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let item = |sku: &u8, bucket: &u8| format!("{}@{bucket}", SKU_NAMES[usize::from(*sku)]);
        match self {
            Self::Commit { of, parts, limit } => {
                write!(f, "commit {of:?} of {} within a limit of {limit}", part_list(parts))
            }
            Self::Claim { of, knows } => {
                write!(f, "claim {of:?}{}", if *knows { "" } else { ", knowing only its number" })
            }
            Self::OpenStock { sku, bucket, units } => write!(f, "open {} with {units}", item(sku, bucket)),
            Self::SetOnSale { sku, bucket, on_sale } => {
                write!(f, "{} {}", if *on_sale { "sell" } else { "freeze" }, item(sku, bucket))
            }
            Self::Correct { sku, bucket, off, available } => {
                write!(
                    f,
                    "correct {} to {available}, under its version{}",
                    item(sku, bucket),
                    match off {
                        0 => String::new(),
                        off => format!(" {off:+}"),
                    }
                )
            }
            Self::Order { order } => write!(f, "read #{order}"),
            Self::Orders => write!(f, "read all orders"),
            Self::BuyerOrders { buyer } => write!(f, "list the orders of buyer {buyer}"),
            Self::HomeOrders { bucket } => write!(f, "list the orders of home {bucket}"),
            Self::BucketStock { bucket } => write!(f, "read the stock of bucket {bucket}"),
            Self::Stock => write!(f, "read all stock"),
            Self::Life(life) => write!(f, "{life:?}"),
            Self::Crowd { of, others } => write!(f, "the guard of {of:?} lists {others} other orders"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scene { scope, policy, stock } = &self.scene;
        writeln!(f, "  a limit per {scope:?}, quota by {policy:?}, stock {stock:?}")?;
        for (number, step) in (1..).zip(&self.steps) {
            writeln!(f, "  {number:2}. {step:?}")?;
        }
        for step in &self.group {
            writeln!(f, "  at once: {step:?}")?;
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
