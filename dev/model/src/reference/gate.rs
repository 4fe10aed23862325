//! One bucket of Redis: its keys, and the scripts that concern the whole bucket. The scripts of single
//! orders are in `scripts.rs`.

use std::sync::Arc;

use super::{Bucket, Buyer, LinesId, Map, Moment, OrderId, Placement, Rank, Scope, Side, Sku, Take, Units};

/// Where the window stands by Redis's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    Before,
    Open,
    Over,
}

/// The configuration that the bucket knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Control {
    pub version: u16,
    pub phase: Phase,
    /// Orders admitted per second, at most.
    pub rate: u16,
}

/// One SKU's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Counters {
    /// Below zero reads as sold out.
    pub free: i32,
    pub sold: i32,
    pub allotted: Units,
    /// Of the database's stock item.
    pub version: u16,
    pub on_sale: bool,
}

/// One order's record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    pub take: Take,
    pub side: Side,
    /// When it was first written.
    pub at: Moment,
    /// `None` where a restock found no record.
    pub lines: Option<LinesId>,
    pub held: Map<Sku, Units>,
    pub placement: Option<Arc<Placement>>,
}

impl Record {
    #[must_use]
    pub const fn rank(&self) -> Rank {
        Rank::of(self.take, self.side)
    }

    /// What it holds now: nothing once it was given back.
    #[must_use]
    pub fn holds(&self, sku: Sku) -> Units {
        if self.side == Side::Deducted { self.held.get(sku).copied().unwrap_or(0) } else { 0 }
    }

    #[must_use]
    pub fn deducted(&self) -> bool {
        self.side == Side::Deducted
    }
}

/// The orders that count for a buyer in one scope, with their units.
pub type Mark = Map<OrderId, Units>;

/// The keys of one bucket. The bucket key holds `control`, `admitted` and `skus`, the orders key
/// `sentinel`, `records` and `marks`; each of the two can be gone by itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    pub bucket: Bucket,
    pub control: Option<Control>,
    /// Orders admitted in this second.
    pub admitted: u16,
    pub skus: Map<Sku, Counters>,
    /// There from preheat on; where it is missing, the records are lost.
    pub sentinel: bool,
    pub records: Map<OrderId, Record>,
    pub marks: Map<(Scope, Buyer), Mark>,
}

/// What the database says of one SKU in a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Allotment {
    pub sku: Sku,
    pub allotted: Units,
    pub version: u16,
    pub on_sale: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preheated {
    Loaded,
    Already,
}

/// A SKU whose counters are not what the records say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SumCheck {
    pub sku: Sku,
    /// Units that D records hold.
    pub deducted: i32,
    pub allotted: i32,
    /// Before the repair.
    pub free: i32,
}

/// Something that cannot be read: nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BadData;

impl Gate {
    /// A bucket that was never loaded.
    #[must_use]
    pub fn empty(bucket: Bucket) -> Self {
        Self {
            bucket,
            control: None,
            admitted: 0,
            skus: Map::default(),
            sentinel: false,
            records: Map::default(),
            marks: Map::default(),
        }
    }

    /// Whether its memory is whole.
    #[must_use]
    pub const fn usable(&self) -> bool {
        self.control.is_some() && self.sentinel
    }

    /// Every key of it is lost.
    pub fn flush(&mut self) {
        self.lose_stock();
        self.lose_orders();
    }

    /// The bucket key is gone: it expires first.
    pub fn lose_stock(&mut self) {
        self.control = None;
        self.admitted = 0;
        self.skus.clear();
    }

    /// The orders key is gone.
    pub fn lose_orders(&mut self) {
        self.sentinel = false;
        self.records.clear();
        self.marks.clear();
    }

    /// A second of Redis's clock is over.
    pub const fn next_second(&mut self) {
        self.admitted = 0;
    }

    /// `preheat_bucket`: loads a bucket whose memory is empty or lost; stock = allotted.
    pub fn preheat(&mut self, control: Control, allotments: &[Allotment]) -> Preheated {
        if self.usable() {
            return Preheated::Already;
        }
        self.flush();
        self.control = Some(control);
        self.sentinel = true;
        for allotment in allotments {
            let &Allotment { sku, allotted, version, on_sale } = allotment;
            self.skus.insert(sku, Counters { free: i32::from(allotted), sold: 0, allotted, version, on_sale });
        }
        Preheated::Loaded
    }

    /// `sync_allotment`: takes over what is newer; answers how many SKUs were.
    pub fn sync_allotment(&mut self, allotments: &[Allotment]) -> usize {
        if !self.usable() {
            return 0;
        }
        let mut taken = 0;
        for allotment in allotments {
            let known = self.skus.get(allotment.sku).copied();
            if known.is_some_and(|known| allotment.version <= known.version) {
                continue;
            }
            let (free, sold, old) = known.map_or((0, 0, 0), |known| (known.free, known.sold, known.allotted));
            let free = free + i32::from(allotment.allotted) - i32::from(old);
            let &Allotment { sku, allotted, version, on_sale } = allotment;
            self.skus.insert(sku, Counters { free, sold, allotted, version, on_sale });
            taken += 1;
        }
        taken
    }

    /// `sync_control`: takes over a newer configuration; answers whether it was.
    pub fn sync_control(&mut self, newer: Control) -> bool {
        match &mut self.control {
            Some(known) if self.sentinel && newer.version > known.version => {
                *known = newer;
                true
            }
            _ => false,
        }
    }

    /// `sum_bucket` without the repair: the SKUs whose counters are not what the records say, in SKU
    /// order.
    ///
    /// # Errors
    /// When a record holds units of a SKU that the bucket does not have.
    pub fn sums(&self) -> Result<Vec<SumCheck>, BadData> {
        if !self.usable() {
            return Ok(Vec::new());
        }
        let deducted = |sku| self.records.iter().map(|(_, record)| i32::from(record.holds(sku))).sum::<i32>();
        let held =
            self.records.iter().filter(|(_, record)| record.deducted()).flat_map(|(_, record)| record.held.iter());
        let mut unknown = held.filter(|(sku, units)| **units > 0 && self.skus.get(*sku).is_none());
        if unknown.next().is_some() {
            return Err(BadData);
        }
        let mut differ = Vec::new();
        for (sku, counters) in self.skus.iter() {
            let (deducted, allotted) = (deducted(sku), i32::from(counters.allotted));
            if counters.free != allotted - deducted || counters.sold != deducted {
                differ.push(SumCheck { sku, deducted, allotted, free: counters.free });
            }
        }
        Ok(differ)
    }

    /// `sum_bucket`, with the repair where `repair`.
    ///
    /// # Errors
    /// As [`Self::sums`]; nothing is repaired then.
    pub fn sum(&mut self, repair: bool) -> Result<Vec<SumCheck>, BadData> {
        let differ = self.sums()?;
        for check in differ.iter().filter(|_| repair) {
            if let Some(counters) = self.skus.get_mut(check.sku) {
                (counters.free, counters.sold) = (check.allotted - check.deducted, check.deducted);
            }
        }
        Ok(differ)
    }

    /// Whether every mark of this submission counts its order. Asked of its home bucket.
    #[must_use]
    pub fn marked(&self, placement: &Placement) -> bool {
        placement.charges.iter().all(|(scope, _)| {
            self.marks.get((*scope, placement.buyer)).is_some_and(|mark| mark.get(placement.order).is_some())
        })
    }

    /// The orders that any mark here counts.
    #[must_use]
    pub fn marked_orders(&self) -> Vec<OrderId> {
        let mut orders: Vec<OrderId> = self.marks.iter().flat_map(|(_, mark)| mark.keys()).collect();
        orders.sort_unstable();
        orders.dedup();
        orders
    }
}
