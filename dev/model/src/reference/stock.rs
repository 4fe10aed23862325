//! What happens to stock, one write or transaction each.

use super::{
    Bucket, Moment, Sku, Units,
    database::{Database, Item, MoveId},
    gate::Allotment,
};

/// One change of allotments.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Move {
    pub sku: Sku,
    /// Units that each bucket gets, or gives when below zero; each bucket once.
    pub parts: Vec<(Bucket, i16)>,
    pub at: Moment,
}

/// What changing allotments answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Moved {
    Done,
    /// A move with this id was made before: this one.
    Already(Move),
    /// An item has less than it should give, or there is none.
    Short,
}

impl Database {
    /// Puts stock on sale if there is none there; answers what is there then.
    pub fn open_stock(&mut self, sku: Sku, bucket: Bucket, units: Units) -> Item {
        if let Some(item) = self.stock.get((sku, bucket)) {
            return *item;
        }
        let item = Item { allotted: units, available: units, version: 1, on_sale: true };
        self.stock.insert((sku, bucket), item);
        item
    }

    /// The move if there is none with its id, and every item's units; only what is available.
    pub fn make_move(&mut self, id: MoveId, change: Move) -> Moved {
        if let Some(made) = self.moves.get(id) {
            return Moved::Already(made.clone());
        }
        let moved = |(bucket, more): &(Bucket, i16)| {
            let key = (change.sku, *bucket);
            let item = self.stock.get(key)?;
            let available = item.available.checked_add_signed(*more)?;
            let allotted = item.allotted.checked_add_signed(*more)?;
            Some((key, Item { available, allotted, version: item.version + 1, ..*item }))
        };
        let Some(items) = change.parts.iter().map(moved).collect::<Option<Vec<_>>>() else { return Moved::Short };
        for (key, item) in items {
            self.stock.insert(key, item);
        }
        self.moves.insert(id, change);
        Moved::Done
    }

    /// More or fewer units for a bucket.
    pub fn adjust(&mut self, id: MoveId, sku: Sku, bucket: Bucket, more: i16) -> Moved {
        self.make_move(id, Move { sku, parts: vec![(bucket, more)], at: Moment::default() })
    }

    /// Units from one bucket to another, of which there must be two: a transaction names an item once.
    pub fn move_units(&mut self, id: MoveId, sku: Sku, from: Bucket, to: Bucket, units: Units) -> Moved {
        let Ok(units) = i16::try_from(units) else { return Moved::Short };
        if from == to {
            return Moved::Short;
        }
        self.make_move(id, Move { sku, parts: vec![(from, -units), (to, units)], at: Moment::default() })
    }

    /// The sale switch. Set to what it is already, it changes nothing.
    pub fn set_on_sale(&mut self, sku: Sku, bucket: Bucket, on_sale: bool) -> Option<Item> {
        let item = self.stock.get_mut((sku, bucket))?;
        if item.on_sale != on_sale {
            item.on_sale = on_sale;
            item.version += 1;
        }
        Some(*item)
    }

    /// Sets `available` only if the item still has this version; answers whether it had.
    pub fn correct_available(&mut self, sku: Sku, bucket: Bucket, version: u16, available: Units) -> bool {
        match self.stock.get_mut((sku, bucket)) {
            Some(item) if item.version == version => {
                item.available = available;
                item.version += 1;
                true
            }
            _ => false,
        }
    }

    /// What a bucket of Redis is told of its stock, in SKU order.
    #[must_use]
    pub fn allotments(&self, bucket: Bucket) -> Vec<Allotment> {
        let here = self.stock.iter().filter(|((_, of), _)| *of == bucket);
        here.map(|((sku, _), item)| Allotment {
            sku,
            allotted: item.allotted,
            version: item.version,
            on_sale: item.on_sale,
        })
        .collect()
    }

    /// Units of live orders in one stock item.
    #[must_use]
    pub fn live_units(&self, sku: Sku, bucket: Bucket) -> Units {
        let parts = self.live().flat_map(|order| &order.parts);
        parts.filter(|part| part.sku == sku && part.bucket == bucket).map(|part| part.units).sum()
    }
}
