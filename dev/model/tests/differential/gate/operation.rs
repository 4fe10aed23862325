//! What a script of the gate is made of. Each step reads like a line of a script.

use std::fmt;

use holdfast::domain::limit::LimitScope;
use model::reference::{Bucket, Buyer, OrderId, Part, Sku, Units, gate::Allotment};

use crate::cast::{self, Submission, buyer_of, home_of, part_list, unit_text};

#[derive(Clone, PartialEq)]
pub enum Operation {
    Place {
        of: Submission,
        look: bool,
        stale: bool,
    },
    Deduct {
        of: Submission,
        at: u8,
        units: Vec<(u8, Units)>,
        stale: bool,
    },
    Undo {
        of: Submission,
        at: u8,
    },
    Restock {
        of: Submission,
        at: u8,
        take: u8,
        keep_mark: bool,
        /// Whether the caller has the submission from the database.
        known: bool,
    },
    Restore {
        of: Submission,
        take: u8,
        at: u8,
        parts: Vec<Part>,
    },
    Preheat {
        at: u8,
        version: u16,
        allotments: Vec<Allotment>,
    },
    SyncAllotment {
        at: u8,
        allotments: Vec<Allotment>,
    },
    SyncControl {
        at: u8,
        version: u16,
    },
    Sum {
        at: u8,
        repair: bool,
    },
    Look {
        of: Submission,
        stale: bool,
    },
    Record {
        order: u8,
        at: u8,
    },
    ReadBucket {
        at: u8,
    },
    ListRecords {
        at: u8,
    },
    Marked {
        of: Submission,
    },
    Fault(Fault),
    /// The operation finds something that cannot be read, which is put right afterwards.
    Spoiled {
        what: Spoil,
        then: Box<Operation>,
    },
    /// The operation brings a number of 2^53 or more.
    TooGreat {
        at: u8,
        number: TooGreat,
    },
}

/// What happens to a server, or to a second.
#[derive(Clone, PartialEq)]
pub enum Fault {
    NextSecond,
    /// The bucket key expires first.
    LoseStock {
        at: u8,
    },
    LoseOrders {
        at: u8,
    },
    LoseLedger {
        at: u8,
    },
    LoseAll,
    ForgetScripts,
    /// From here on the replica of the bucket's node gets nothing.
    ReplicaStops {
        at: u8,
    },
    /// The replica takes over with what it has.
    FailOver {
        at: u8,
    },
    /// A counter is off, as after a hand's work.
    Drift {
        at: u8,
        sku: u8,
        by: i32,
        /// Sold units instead of free ones.
        sold: bool,
    },
    /// The buyer's marks list so many other orders, of no units.
    Crowd {
        order: u8,
        others: u8,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spoil {
    BucketKey,
    OrdersKey,
    LedgerKey,
    Control(u8),
    Admitted(u8),
    Sku(u8, u8),
    /// Free units of 2^53 + 1.
    GreatSku(u8),
    /// Of the order that the operation is about, or the first one there.
    Record(u8),
    Placement,
    Mark(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TooGreat {
    PreheatUnits,
    PreheatVersion,
    PreheatConfiguration,
    SyncUnits,
    SyncVersion,
    SyncConfiguration,
}

/// What a script begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct Scene {
    pub scope: LimitScope,
    pub limit: Units,
    pub configuration: u16,
    /// What both buckets are loaded with, if they are.
    pub stock: Option<Vec<Units>>,
}

#[derive(Clone, PartialEq)]
pub struct Script {
    pub scene: Scene,
    pub steps: Vec<Operation>,
    /// The last of them at once.
    pub group: Vec<Operation>,
}

impl Operation {
    /// The bucket whose keys it uses.
    pub fn bucket(&self) -> Bucket {
        match self {
            Self::Place { of, .. } | Self::Look { of, .. } | Self::Marked { of } => home_of(buyer_of(of.order)),
            Self::Deduct { at, .. }
            | Self::Undo { at, .. }
            | Self::Restock { at, .. }
            | Self::Restore { at, .. }
            | Self::Preheat { at, .. }
            | Self::SyncAllotment { at, .. }
            | Self::SyncControl { at, .. }
            | Self::Sum { at, .. }
            | Self::Record { at, .. }
            | Self::ReadBucket { at }
            | Self::ListRecords { at }
            | Self::TooGreat { at, .. } => Bucket(*at),
            Self::Spoiled { then, .. } => then.bucket(),
            Self::Fault(fault) => fault.bucket(),
        }
    }

    /// The order that it is about.
    pub fn order(&self) -> Option<OrderId> {
        match self {
            Self::Place { of, .. }
            | Self::Look { of, .. }
            | Self::Marked { of }
            | Self::Deduct { of, .. }
            | Self::Undo { of, .. }
            | Self::Restock { of, .. }
            | Self::Restore { of, .. } => Some(OrderId(of.order)),
            Self::Record { order, .. } => Some(OrderId(*order)),
            _ => None,
        }
    }

    pub fn submission(&self) -> Option<Submission> {
        match self {
            Self::Place { of, .. }
            | Self::Look { of, .. }
            | Self::Marked { of }
            | Self::Deduct { of, .. }
            | Self::Undo { of, .. }
            | Self::Restock { of, .. }
            | Self::Restore { of, .. } => Some(*of),
            _ => None,
        }
    }
}

impl Fault {
    pub fn bucket(&self) -> Bucket {
        match self {
            Self::LoseStock { at }
            | Self::LoseOrders { at }
            | Self::LoseLedger { at }
            | Self::ReplicaStops { at }
            | Self::FailOver { at }
            | Self::Drift { at, .. } => Bucket(*at),
            Self::Crowd { order, .. } => home_of(buyer_of(*order)),
            Self::NextSecond | Self::LoseAll | Self::ForgetScripts => Bucket(0),
        }
    }
}

fn list(units: &[(u8, Units)]) -> String {
    units.iter().map(|(sku, units)| unit_text(*sku, *units)).collect::<Vec<_>>().join(" ")
}

fn allotted(allotments: &[Allotment]) -> String {
    let one = |it: &Allotment| {
        let frozen = if it.on_sale { "" } else { " frozen" };
        format!("{} v{}{frozen}", unit_text(it.sku.0, it.allotted), it.version)
    };
    allotments.iter().map(one).collect::<Vec<_>>().join(", ")
}

impl fmt::Debug for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told = |stale: &bool| if *stale { " by another configuration" } else { "" };
        match self {
            Self::Place { of, look, stale } => {
                write!(f, "place {of:?}{}{}", if *look { ", look" } else { "" }, told(stale))
            }
            Self::Deduct { of, at, units, stale } => {
                write!(f, "deduct {} for {of:?} in bucket {at}{}", list(units), told(stale))
            }
            Self::Undo { of, at } => write!(f, "undo {of:?} in bucket {at}"),
            Self::Restock { of, at, take, keep_mark, known } => {
                let keep = if *keep_mark { ", keep the mark" } else { "" };
                let known = if *known { "" } else { ", unknown" };
                write!(f, "restock {of:?}{known} in bucket {at}, take {take}{keep}")
            }
            Self::Restore { of, take, at, parts } => {
                write!(f, "restore {of:?} in bucket {at}, take {take}: {}", part_list(parts))
            }
            Self::Preheat { at, version, allotments } => {
                write!(f, "preheat bucket {at} by configuration {version}: {}", allotted(allotments))
            }
            Self::SyncAllotment { at, allotments } => {
                write!(f, "sync allotments of bucket {at}: {}", allotted(allotments))
            }
            Self::SyncControl { at, version } => write!(f, "sync bucket {at} to configuration {version}"),
            Self::Sum { at, repair } => write!(f, "sum bucket {at}{}", if *repair { " and repair" } else { "" }),
            Self::Look { of, stale } => write!(f, "look around for {of:?}{}", told(stale)),
            Self::Record { order, at } => write!(f, "read the record of #{order} in bucket {at}"),
            Self::ReadBucket { at } => write!(f, "read bucket {at}"),
            Self::ListRecords { at } => write!(f, "list the records of bucket {at}"),
            Self::Marked { of } => write!(f, "ask whether {of:?} is marked"),
            Self::Fault(fault) => write!(f, "{fault:?}"),
            Self::Spoiled { what, then } => write!(f, "with {what:?} unreadable: {then:?}"),
            Self::TooGreat { at, number } => write!(f, "bucket {at} is told a number of 2^53: {number:?}"),
        }
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NextSecond => write!(f, "the next second begins"),
            Self::LoseStock { at } => write!(f, "bucket {at} loses its stock"),
            Self::LoseOrders { at } => write!(f, "bucket {at} loses its records and marks"),
            Self::LoseLedger { at } => write!(f, "bucket {at} loses its ledger"),
            Self::LoseAll => write!(f, "flush everything"),
            Self::ForgetScripts => write!(f, "flush the scripts"),
            Self::ReplicaStops { at } => write!(f, "the replica of bucket {at} stops following"),
            Self::FailOver { at } => write!(f, "bucket {at} fails over to its replica"),
            Self::Drift { at, sku, by, sold } => {
                let counter = if *sold { "sold" } else { "free" };
                write!(f, "{counter} {} of bucket {at} is off by {by}", cast::SKU_NAMES[usize::from(*sku)])
            }
            Self::Crowd { order, others } => write!(f, "the marks of #{order}'s buyer list {others} other orders"),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scene { scope, limit, configuration, stock } = &self.scene;
        let loaded =
            stock.as_ref().map_or("not loaded".to_owned(), |stock| format!("loaded with {stock:?} of each SKU"));
        writeln!(f, "  a limit of {limit} per {scope:?}, configuration {configuration}, both buckets {loaded}")?;
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

pub fn allotment(sku: u8, allotted: Units, version: u16, on_sale: bool) -> Allotment {
    Allotment { sku: Sku(sku), allotted, version, on_sale }
}

/// The buyer whose marks a fault makes long.
pub fn crowded(order: u8) -> Buyer {
    buyer_of(order)
}
