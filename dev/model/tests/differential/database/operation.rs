//! What a script of the database is made of. Each step reads like a line of a script.
//!
//! Cancel, expiry, refund, payment, shipping, adjusting and moving have their reference in
//! `model::reference::changes` and nothing real yet: each will be one more variant here, one arm in
//! `answer::expect` and one in `answer::ask`.

use std::fmt;

use holdfast::domain::limit::LimitScope;
use model::reference::{Part, Units};
use proptest::{collection::vec, prelude::*, strategy::BoxedStrategy};

use crate::cast::{BUCKETS, BUYERS, CARTS, FILLERS_MAX, ORDERS, SKU_NAMES, SKUS, Submission, part_list};

const STEPS: std::ops::RangeInclusive<usize> = 1..=50;
const STEPS_BEFORE_GROUP: std::ops::RangeInclusive<usize> = 0..=6;
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
    /// The guard of the submission's first scope lists so many other orders, of no units.
    Crowd {
        of: Submission,
        others: u8,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    pub scope: LimitScope,
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
    (scene(), vec(step(submission()), STEPS)).prop_map(|(scene, steps)| Script { scene, steps, group: Vec::new() })
}

pub fn groups() -> impl Strategy<Value = Script> {
    // Two buyers of one home, two orders each: they meet.
    let few = (0_u8..4, 0_u8..3).prop_map(|(order, cart)| Submission::new([0, 1, 3, 4][usize::from(order)], cart));
    (scene(), vec(step(submission()), STEPS_BEFORE_GROUP), vec(write(few.boxed()), GROUP))
        .prop_map(|(scene, steps, group)| Script { scene, steps, group })
}

fn scene() -> impl Strategy<Value = Scene> {
    let scope = prop_oneof![Just(LimitScope::Activity), Just(LimitScope::Sku), Just(LimitScope::Day)];
    let stock = vec(prop_oneof![1 => Just(None), 8 => (0_u16..9).prop_map(Some)], usize::from(SKUS * BUCKETS));
    (scope, stock).prop_map(|(scope, stock)| Scene { scope, stock })
}

fn submission() -> BoxedStrategy<Submission> {
    let carts = u8::try_from(CARTS.len()).unwrap();
    let late = prop::bool::weighted(0.15);
    (0..ORDERS, 0..carts, late).prop_map(|(order, cart, late)| Submission { order, cart, late }).boxed()
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = (0..SKUS, 0..BUCKETS, prop_oneof![9 => 1_u16..4, 1 => Just(0)]);
    vec(part, 0..4)
        .prop_map(|parts| parts.into_iter().map(|(sku, bucket, units)| part_of(sku, bucket, units)).collect())
}

const fn part_of(sku: u8, bucket: u8, units: Units) -> Part {
    Part { sku: model::reference::Sku(sku), bucket: model::reference::Bucket(bucket), units }
}

fn write(of: BoxedStrategy<Submission>) -> BoxedStrategy<Operation> {
    let limit = prop_oneof![4 => 1_u16..8, 1 => Just(100_u16)];
    let home_parts = |of: Submission| {
        let home = crate::cast::home_of(crate::cast::buyer_of(of.order)).0;
        CARTS[usize::from(of.cart)].iter().map(|(sku, units)| part_of(*sku, home, *units)).collect::<Vec<_>>()
    };
    prop_oneof![
        14 => (of.clone(), limit.clone())
            .prop_map(move |(of, limit)| Operation::Commit { of, parts: home_parts(of), limit }),
        14 => (of.clone(), parts(), limit).prop_map(|(of, parts, limit)| Operation::Commit { of, parts, limit }),
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
        44 => write(of.clone()),
        3 => (0..ORDERS).prop_map(|order| Operation::Order { order }),
        2 => Just(Operation::Orders),
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
            Self::Crowd { of, others } => write!(f, "the guard of {of:?} lists {others} other orders"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  a limit per {:?}, stock {:?}", self.scene.scope, self.scene.stock)?;
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
