//! One state of the whole system: both stores, what runs, what is on its way, what was told.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use crate::{
    reference::{
        Bucket, Event, Map, OrderId, Part, Placement, Sku, Take, Units,
        database::{Database, Draft, Order, Stored},
        gate::{Allotment, Gate, Record},
    },
    scenario::Bounds,
};

/// A bucket on its Redis node, with what was restocked in this history of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub gate: Gate,
    pub restocked: Vec<(OrderId, Take)>,
}

/// What nobody in the system knows, and the invariants need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    pub told_committed: bool,
    pub told_refused: bool,
    /// How often a transaction took stock for this order.
    pub takes: u8,
}

/// What another bucket showed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Seen {
    pub bucket: Bucket,
    /// Per line; empty where the bucket is of no use.
    pub free: Vec<Units>,
    /// What the order holds there, if it has a record.
    pub held: Option<Map<Sku, Units>>,
    pub returned: bool,
}

/// An order that is being filled from several buckets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Filling {
    pub kept: Vec<Part>,
    pub missing: Vec<(Sku, Units)>,
    pub seen: Vec<Seen>,
    pub tried: Vec<Bucket>,
    pub rounds: u8,
    pub plan: Vec<Part>,
    /// Buckets of the plan that are still to be asked.
    pub todo: Vec<Bucket>,
    /// Whether some bucket could not be looked into, so that "sold out" is not certain.
    pub blind: bool,
    /// The buckets touched so far, where a transaction was refused for lack of stock before.
    pub refused: Option<Vec<Bucket>>,
}

/// Where a placing call stands: its next step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum At {
    Home,
    Look {
        free: Vec<Units>,
    },
    HomeAgain {
        seen: Vec<Seen>,
    },
    /// Read the order, then go on with what the record holds.
    Resume {
        held: Vec<Units>,
    },
    ResumeLook {
        held: Vec<Units>,
    },
    Take(Filling),
    /// Undo parts that the last plan does without.
    Drop {
        todo: Vec<Bucket>,
        parts: Vec<Part>,
        refused: Option<Vec<Bucket>>,
    },
    Undo {
        todo: Vec<Bucket>,
        buckets: Vec<Bucket>,
        blind: bool,
        refused: Option<Vec<Bucket>>,
    },
    Commit {
        parts: Vec<Part>,
        touched: Vec<Bucket>,
        again: bool,
    },
    Persist {
        parts: Vec<Part>,
    },
    /// The number is taken: read by whom.
    Existing {
        touched: Vec<Bucket>,
    },
    Leftover {
        order: Order,
        todo: Vec<Bucket>,
    },
    /// The database was short: give up those parts in Redis, then look elsewhere.
    Reduce {
        kept: Vec<Part>,
        short: Vec<Bucket>,
        todo: Vec<Bucket>,
        touched: Vec<Bucket>,
    },
    ReduceLook {
        kept: Vec<Part>,
        short: Vec<Bucket>,
        touched: Vec<Bucket>,
    },
    /// On without Redis: no step of its own.
    Past,
    /// Without Redis: read what the database has elsewhere.
    OtherStock {
        touched: Vec<Bucket>,
    },
    Claim {
        buckets: Vec<Bucket>,
    },
    Restock {
        todo: Vec<Bucket>,
        buckets: Vec<Bucket>,
        failed: bool,
    },
    /// Read the order and tell it; where there is none, it was given up for certain, or not.
    Tell {
        given_up: bool,
    },
}

/// A placing call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    pub placement: Arc<Placement>,
    pub degraded: bool,
    pub at: At,
}

/// What follows a restock. Only planted mistakes let anything follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Then {
    Nothing,
    Claim,
    Finish(Event),
}

/// Anything that runs beside the placing calls. Where it stops for good, it crashed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Job {
    Restock {
        order: OrderId,
        take: Take,
        keep_mark: bool,
        todo: Vec<Bucket>,
        then: Then,
    },
    /// After a late payment.
    Restore {
        order: Order,
        todo: Vec<Bucket>,
    },
    /// Reconciliation, one order in one bucket: the record was read; the mark and the order follow.
    Confirm {
        order: OrderId,
        bucket: Bucket,
        record: Option<Record>,
        home: Option<Arc<Placement>>,
        marked: Option<bool>,
        listed: Listed,
    },
    RepairRestore {
        order: Order,
        bucket: Bucket,
    },
    RepairClaim {
        order: OrderId,
        placement: Option<Arc<Placement>>,
        bucket: Bucket,
    },
    /// A bucket's stock was read: load the bucket with it or bring it up to date.
    Sync {
        bucket: Bucket,
        allotments: Vec<Allotment>,
    },
    /// A planted mistake: a move on its way to Redis as a difference.
    Difference {
        bucket: Bucket,
        more: i32,
    },
    /// A stock item was read; its orders are listed next.
    Sum {
        sku: Sku,
        bucket: Bucket,
        version: u16,
        available: Units,
        allotted: Units,
    },
    CorrectSum {
        sku: Sku,
        bucket: Bucket,
        version: u16,
        available: Units,
    },
    /// Orders of one transaction.
    Batch {
        drafts: Vec<Draft>,
    },
    BatchClaim {
        draft: Draft,
    },
}

/// What a listing said of the order before anything else was read. Only planted mistakes keep it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Listed {
    Forgotten,
    Kept(Option<Box<Stored>>),
    /// The record is not read yet.
    Unread(Option<Box<Stored>>),
}

/// A rollback message.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Message {
    pub placement: Arc<Placement>,
    pub buckets: Vec<Bucket>,
}

/// A request whose sender has given it up and that may still arrive.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Late {
    Place { placement: Arc<Placement>, look: bool },
    Commit(Draft, bool),
    Claim(Arc<Placement>),
    Deduct { placement: Arc<Placement>, bucket: Bucket, units: Vec<(Sku, Units)> },
    Undo { placement: Arc<Placement>, bucket: Bucket },
    Restock { order: OrderId, bucket: Bucket, take: Take, keep_mark: bool },
    Restore { order: Order, bucket: Bucket },
}

/// What must not happen and shows in a step, not in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broken {
    /// One take went back twice in one history of a bucket.
    RestockedTwice,
    /// A record was given back of an order that lives.
    ReturnedWhileLive,
    /// A stock item changed and its version did not rise by one.
    Version,
    /// What is stored under a number became something else, or nothing.
    Forgotten,
    /// A script could not read what another wrote.
    BadData,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub nodes: Vec<Arc<Node>>,
    /// What each bucket's replica has; `None` where it follows closely.
    pub replicas: Vec<Option<Arc<Node>>>,
    pub database: Arc<Database>,
    pub calls: Vec<Call>,
    pub jobs: Vec<Job>,
    pub late: Vec<Late>,
    pub messages: Vec<Message>,
    pub persists: Vec<Draft>,
    pub ghosts: Vec<Ghost>,
    pub left: Bounds,
    pub day: u8,
    pub broken: Option<Broken>,
}

impl State {
    #[must_use]
    pub fn gate(&self, bucket: Bucket) -> &Gate {
        &self.nodes[usize::from(bucket.0)].gate
    }

    pub fn node_mut(&mut self, bucket: Bucket) -> &mut Node {
        Arc::make_mut(&mut self.nodes[usize::from(bucket.0)])
    }

    pub fn gate_mut(&mut self, bucket: Bucket) -> &mut Gate {
        &mut self.node_mut(bucket).gate
    }

    pub fn database_mut(&mut self) -> &mut Database {
        Arc::make_mut(&mut self.database)
    }

    pub fn ghost_mut(&mut self, order: OrderId) -> &mut Ghost {
        &mut self.ghosts[usize::from(order.0)]
    }

    pub fn breaks(&mut self, broken: Broken) {
        self.broken = self.broken.or(Some(broken));
    }

    /// What runs or is on its way has no order of its own: states that differ only there are one.
    pub fn settle_order(&mut self) {
        in_order(&mut self.calls);
        in_order(&mut self.jobs);
        in_order(&mut self.late);
        in_order(&mut self.messages);
        in_order(&mut self.persists);
    }
}

fn in_order<T: Hash>(list: &mut [T]) {
    if list.len() > 1 {
        list.sort_by_cached_key(|entry| {
            let mut hasher = DefaultHasher::new();
            entry.hash(&mut hasher);
            hasher.finish()
        });
    }
}
