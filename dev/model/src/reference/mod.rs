//! What the two stores do, as plain data and pure functions: [`gate`] is one bucket of Redis and its
//! scripts, [`database`] the orders and stock in DynamoDB. Ids are small numbers, so that whole states
//! can be compared, hashed and kept by the million.
//!
//! The model explores these, and the differential tests hold them against the real scripts and the
//! real expressions: the same operations must give the same outcomes and the same state.

pub mod changes;
pub mod database;
pub mod gate;
pub mod scripts;
pub mod stock;

use std::{
    hash::{Hash, Hasher},
    sync::Arc,
};

pub use holdfast::domain::{
    limit::{LimitScope, PLACEMENTS_MAX},
    order::{Event, Status, Take},
    record::{Rank, Side},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(pub u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sku(pub u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(pub u8);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Buyer(pub u8);

/// Stands for a business date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub u8);

/// Stands for the hash of an order's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinesId(pub u8);

/// A moment by Redis's clock, in whatever unit the caller counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u32);

/// Units of a SKU that are asked for, held or on sale.
pub type Units = u16;

/// A map in key order, small enough to be searched from the front.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Map<K, V>(Vec<(K, V)>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K: Ord + Copy, V> Map<K, V> {
    #[must_use]
    pub fn get(&self, key: K) -> Option<&V> {
        self.0.iter().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    pub fn get_mut(&mut self, key: K) -> Option<&mut V> {
        self.0.iter_mut().find(|(found, _)| *found == key).map(|(_, value)| value)
    }

    /// Puts the value there, in place of the one that was there.
    pub fn insert(&mut self, key: K, value: V) {
        match self.0.binary_search_by_key(&key, |(found, _)| *found) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    pub fn remove(&mut self, key: K) -> Option<V> {
        let at = self.0.iter().position(|(found, _)| *found == key)?;
        Some(self.0.remove(at).1)
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    #[must_use]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (K, &V)> {
        self.0.iter().map(|(key, value)| (*key, value))
    }

    #[must_use]
    pub fn keys(&self) -> impl ExactSizeIterator<Item = K> {
        self.0.iter().map(|(key, _)| *key)
    }

    pub fn values_mut(&mut self) -> impl ExactSizeIterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }
}

impl<K: Ord + Copy, V> FromIterator<(K, V)> for Map<K, V> {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(entries: I) -> Self {
        let mut map = Self::default();
        for (key, value) in entries {
            map.insert(key, value);
        }
        map
    }
}

/// Units of one SKU from one bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part {
    pub sku: Sku,
    pub bucket: Bucket,
    pub units: Units,
}

/// What a limit counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Activity,
    Sku(Sku),
    Day(Day),
}

/// An admitted submission, as it travels in the record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Placement {
    pub order: OrderId,
    pub buyer: Buyer,
    pub home: Bucket,
    /// One line per SKU, in SKU order.
    pub lines: Vec<(Sku, Units)>,
    pub lines_id: LinesId,
    /// One per scope of the limit.
    pub charges: Vec<(Scope, Units)>,
    /// Fixed at admission.
    pub day: Day,
}

/// The rest follows from these.
impl Hash for Placement {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.order, self.lines_id, self.day).hash(state);
    }
}

impl Placement {
    /// With the charges that the product's `Limit` makes of such lines.
    #[must_use]
    pub fn new(
        order: OrderId,
        buyer: Buyer,
        home: Bucket,
        (lines_id, lines): (LinesId, Vec<(Sku, Units)>),
        scope: LimitScope,
        day: Day,
    ) -> Arc<Self> {
        let total = lines.iter().map(|(_, units)| units).sum();
        let charges = match scope {
            LimitScope::Activity => vec![(Scope::Activity, total)],
            LimitScope::Day => vec![(Scope::Day(day), total)],
            LimitScope::Sku => lines.iter().map(|(sku, units)| (Scope::Sku(*sku), *units)).collect(),
        };
        Arc::new(Self { order, buyer, home, lines, lines_id, charges, day })
    }

    /// Every line wholly in the home bucket.
    #[must_use]
    pub fn home_parts(&self) -> Vec<Part> {
        self.lines.iter().map(|(sku, units)| Part { sku: *sku, bucket: self.home, units: *units }).collect()
    }
}

/// The units that these parts put into one bucket, by SKU.
#[must_use]
pub fn held_in(parts: &[Part], bucket: Bucket) -> Map<Sku, Units> {
    let mut held: Map<Sku, Units> = Map::default();
    for part in parts.iter().filter(|part| part.bucket == bucket) {
        let before = held.get(part.sku).copied().unwrap_or(0);
        held.insert(part.sku, before + part.units);
    }
    held
}
