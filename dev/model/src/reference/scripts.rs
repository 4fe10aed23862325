//! The scripts of single orders, one method each, with the checks in the order of the Lua.

use std::sync::Arc;

use super::{
    Map, Moment, OrderId, Part, Placement, Rank, Scope, Side, Sku, Take, Units,
    gate::{Counters, Gate, Mark, Phase, Record},
    held_in,
};

/// One call of the home script.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Of the configuration that the caller has.
    pub version: u16,
    /// Whether the start that the caller knows is over, by Redis's clock.
    pub started: bool,
    pub placement: &'a Arc<Placement>,
    pub look: bool,
    pub limit_max: Units,
    pub placements_max: usize,
    pub now: Moment,
}

/// In order of precedence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Placed {
    MemoryLost,
    ConfigurationChanged,
    BadData,
    Replayed(Record),
    Mismatch,
    GivenBack,
    NotStarted,
    Ended,
    Frozen,
    Limited,
    /// The other orders of the buyer in the scope, in order of their ids.
    LimitReached(Vec<OrderId>),
    /// Free units per line.
    Short(Vec<Units>),
    /// Units taken per line.
    Admitted(Vec<Units>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Deducted {
    Unusable,
    BadData,
    GivenBack,
    Done,
    Frozen,
    Limited,
    /// What the order may hold here, per SKU asked.
    Short(Vec<Units>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Look {
    /// Free units per SKU asked; empty where the bucket is of no use.
    pub free: Vec<Units>,
    pub limited: bool,
    pub record: Option<Record>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Undone {
    Absent,
    BadData,
    GivenBack,
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Restocked {
    BadData,
    Already,
    RecordOnly,
    Done(Units),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Restored {
    BadData,
    NoStock,
    Already,
    /// So much the free stock changed by.
    Done(i32),
}

/// What can be sold of a counter.
fn sellable(counters: &Counters) -> Units {
    Units::try_from(counters.free.max(0)).unwrap_or(Units::MAX)
}

impl Gate {
    /// `place_order`.
    pub fn place(&mut self, call: Place<'_>) -> Placed {
        let Place { placement, .. } = call;
        let Some(control) = self.control.filter(|_| self.sentinel) else {
            return if call.started { Placed::MemoryLost } else { Placed::NotStarted };
        };
        if control.version != call.version {
            return Placed::ConfigurationChanged;
        }
        let lines: Option<Vec<Counters>> =
            placement.lines.iter().map(|(sku, _)| self.skus.get(*sku).copied()).collect();
        let Some(lines) = lines else { return Placed::BadData };
        if let Some(record) = self.records.get(placement.order) {
            return match record.side {
                Side::Returned => Placed::GivenBack,
                Side::Deducted if record.lines != Some(placement.lines_id) => Placed::Mismatch,
                Side::Deducted => Placed::Replayed(record.clone()),
            };
        }
        match control.phase {
            Phase::Before => return Placed::NotStarted,
            Phase::Over => return Placed::Ended,
            Phase::Open => {}
        }
        if lines.iter().any(|counters| !counters.on_sale) {
            return Placed::Frozen;
        }
        if self.admitted > 0 && self.admitted >= control.rate {
            return Placed::Limited;
        }
        if let Some(orders) = self.over_limit(&call) {
            return Placed::LimitReached(orders);
        }
        let available: Vec<Units> = lines.iter().map(sellable).collect();
        let wanted = placement.lines.iter().map(|(_, units)| *units);
        let taken: Vec<Units> = wanted.clone().zip(&available).map(|(wanted, free)| wanted.min(*free)).collect();
        if !call.look && wanted.zip(&taken).any(|(wanted, taken)| *taken < wanted) {
            return Placed::Short(available);
        }
        self.admitted += 1;
        let held = placement.lines.iter().zip(&taken).map(|((sku, _), taken)| (*sku, *taken)).collect();
        self.write_deducted(placement, Take::FIRST, held, call.now);
        self.mark(placement);
        Placed::Admitted(taken)
    }

    fn over_limit(&self, call: &Place<'_>) -> Option<Vec<OrderId>> {
        let placement = call.placement;
        placement.charges.iter().find_map(|(scope, units)| {
            let mark = self.marks.get((*scope, placement.buyer));
            let others: Vec<(OrderId, Units)> =
                mark.into_iter().flat_map(Mark::iter).map(|(order, units)| (order, *units)).collect();
            let others: Vec<_> = others.into_iter().filter(|(order, _)| *order != placement.order).collect();
            let counted: Units = others.iter().map(|(_, units)| units).sum();
            let over = counted + units > call.limit_max || others.len() >= call.placements_max;
            over.then(|| others.into_iter().map(|(order, _)| order).collect())
        })
    }

    /// `deduct_part`.
    pub fn deduct(
        &mut self,
        version: u16,
        placement: &Arc<Placement>,
        units: &[(Sku, Units)],
        now: Moment,
    ) -> Deducted {
        let Some(control) = self.control.filter(|control| self.sentinel && control.version == version) else {
            return Deducted::Unusable;
        };
        let record = self.records.get(placement.order);
        let before = |sku| record.map_or(0, |record| record.held.get(sku).copied().unwrap_or(0));
        let dropped = record
            .into_iter()
            .flat_map(|record| record.held.keys())
            .filter(|sku| !units.iter().any(|(asked, _)| asked == sku));
        let dropped: Vec<Sku> = dropped.collect();
        let readable = |sku: &Sku| self.skus.get(*sku).is_some();
        if !dropped.iter().chain(units.iter().map(|(sku, _)| sku)).all(readable) {
            return Deducted::BadData;
        }
        let same =
            units.iter().all(|(sku, units)| *units == before(*sku)) && dropped.iter().all(|sku| before(*sku) == 0);
        let known = |sku: Sku| self.skus.get(sku).copied().unwrap_or(NOTHING);
        let frozen = units.iter().any(|(sku, units)| *units > before(*sku) && !known(*sku).on_sale);
        let more = |sku: Sku, units: Units| i32::from(units) - i32::from(before(sku));
        let short = units.iter().any(|(sku, units)| more(*sku, *units) > 0 && more(*sku, *units) > known(*sku).free);
        let may_hold = units.iter().map(|(sku, _)| before(*sku) + sellable(&known(*sku))).collect();
        match record {
            Some(record) if !record.deducted() => return Deducted::GivenBack,
            Some(_) if same => return Deducted::Done,
            Some(record) if record.take != Take::FIRST => return Deducted::GivenBack,
            _ => {}
        }
        let made = record.is_none();
        if frozen {
            return Deducted::Frozen;
        }
        if made && self.admitted >= control.rate {
            return Deducted::Limited;
        }
        if short {
            return Deducted::Short(may_hold);
        }
        self.admitted += u16::from(made);
        // A record that is there keeps its placement: the marks are those of that one.
        let own = record.and_then(|record| record.placement.clone()).unwrap_or_else(|| placement.clone());
        self.write_deducted(&own, Take::FIRST, units.iter().copied().collect(), now);
        if made && self.bucket == placement.home {
            self.mark(placement);
        }
        Deducted::Done
    }

    /// `look_bucket`.
    #[must_use]
    pub fn look(&self, version: u16, placement: &Placement) -> Look {
        let limited = self.control.is_some_and(|control| self.admitted > 0 && self.admitted >= control.rate);
        let counters: Option<Vec<Counters>> =
            placement.lines.iter().map(|(sku, _)| self.skus.get(*sku).copied()).collect();
        let current = self.sentinel && self.control.is_some_and(|control| control.version == version);
        let usable = counters.filter(|counters| current && counters.iter().all(|counters| counters.on_sale));
        let free = usable.map_or(Vec::new(), |counters| counters.iter().map(sellable).collect());
        Look { free, limited, record: self.records.get(placement.order).cloned() }
    }

    /// `undo_part`, with the marks of the placement that the record has now: the script refuses any other
    /// and is called again.
    pub fn undo(&mut self, placement: &Placement) -> Undone {
        let Some(record) = self.records.get(placement.order) else { return Undone::Absent };
        if !record.deducted() || record.take != Take::FIRST {
            return Undone::GivenBack;
        }
        if self.usable() && !record.held.keys().all(|sku| self.skus.get(sku).is_some()) {
            return Undone::BadData;
        }
        let (held, own) = (record.held.clone(), record.placement.clone());
        self.give_back(&held);
        self.records.remove(placement.order);
        if let Some(own) = own {
            self.unmark(&own);
        }
        Undone::Done
    }

    /// `restock_order`, with the marks of the placement that the record has now: the script refuses any
    /// other and is called again. Those of the order's own submission go too, and stay where they are kept.
    pub fn restock(
        &mut self,
        order: OrderId,
        take: Take,
        (keep_mark, submission): (bool, Option<&Placement>),
        now: Moment,
    ) -> Restocked {
        let record = self.records.get(order);
        let (rank, target) = (record.map_or(Rank::ABSENT, Record::rank), Rank::of(take, Side::Returned));
        if rank > target {
            return Restocked::Already;
        }
        let raise = rank < target;
        let mut given_back: Map<Sku, Units> = Map::default();
        if let Some(record) = record.filter(|record| raise && record.deducted()) {
            if self.usable() && !record.held.keys().all(|sku| self.skus.get(sku).is_some()) {
                return Restocked::BadData;
            }
            given_back = record.held.clone();
        }
        let placement = record.and_then(|record| record.placement.clone());
        match (placement, submission) {
            (Some(placement), Some(submission)) if keep_mark => self.unmark_others(&placement, submission),
            _ if keep_mark => {}
            (placement, submission) => {
                placement.as_deref().into_iter().chain(submission).for_each(|placement| self.unmark(placement));
            }
        }
        if !raise {
            return Restocked::Already;
        }
        self.give_back(&given_back);
        match self.records.get_mut(order) {
            Some(record) => (record.side, record.take) = (Side::Returned, take),
            None => self.records.insert(
                order,
                Record { take, side: Side::Returned, at: now, lines: None, held: Map::default(), placement: None },
            ),
        }
        if self.usable() {
            Restocked::Done(given_back.iter().map(|(_, units)| *units).sum())
        } else {
            Restocked::RecordOnly
        }
    }

    /// `restore_order`, called again as [`Self::restock`] is.
    pub fn restore(&mut self, placement: &Arc<Placement>, take: Take, parts: &[Part], now: Moment) -> Restored {
        if !self.usable() {
            return Restored::NoStock;
        }
        let record = self.records.get(placement.order);
        let (rank, target) = (record.map_or(Rank::ABSENT, Record::rank), Rank::of(take, Side::Deducted));
        if rank > target {
            return Restored::Already;
        }
        let at_home = self.bucket == placement.home;
        // Of every line at home, zero units included; elsewhere of what is held only.
        let mut units: Map<Sku, Units> = placement.lines.iter().filter(|_| at_home).map(|(sku, _)| (*sku, 0)).collect();
        for (sku, held) in held_in(parts, self.bucket).iter() {
            units.insert(sku, *held);
        }
        let before = |sku| record.map_or(0, |record| record.holds(sku));
        let dropped = record.filter(|record| record.deducted()).map(|record| record.held.clone()).unwrap_or_default();
        let skus: Vec<Sku> = units.keys().chain(dropped.keys().filter(|sku| units.get(*sku).is_none())).collect();
        if !skus.iter().all(|sku| self.skus.get(*sku).is_some()) {
            return Restored::BadData;
        }
        let more = |sku| i32::from(units.get(sku).copied().unwrap_or(0)) - i32::from(before(sku));
        let delta: i32 = skus.iter().map(|sku| -more(*sku)).sum();
        let own = record.and_then(|record| record.placement.clone());
        let same = rank == target && skus.iter().all(|sku| more(*sku) == 0);
        let same = same && (!at_home || own.as_ref() == Some(placement));
        if let Some(own) = own {
            self.unmark_others(&own, placement);
        }
        let marked = !at_home || self.mark(placement);
        if same && marked {
            return Restored::Already;
        }
        if !same {
            self.write_deducted(placement, take, units, now);
        }
        Restored::Done(delta)
    }

    /// Writes a record D and moves the stock by what it held before less what it holds now.
    fn write_deducted(&mut self, placement: &Arc<Placement>, take: Take, held: Map<Sku, Units>, now: Moment) {
        let before = self.records.get(placement.order);
        let at = before.map_or(now, |record| record.at);
        if let Some(before) = before.filter(|record| record.deducted()).map(|record| record.held.clone()) {
            self.give_back(&before);
        }
        for (sku, units) in held.iter() {
            if let Some(counters) = self.skus.get_mut(sku) {
                counters.free -= i32::from(*units);
                counters.sold += i32::from(*units);
            }
        }
        let (lines, placement) = (Some(placement.lines_id), placement.clone());
        let order = placement.order;
        self.records.insert(order, Record { take, side: Side::Deducted, at, lines, held, placement: Some(placement) });
    }

    /// Where the bucket's memory is lost there is no stock to give back to.
    fn give_back(&mut self, held: &Map<Sku, Units>) {
        if !self.usable() {
            return;
        }
        for (sku, units) in held.iter() {
            if let Some(counters) = self.skus.get_mut(sku) {
                counters.free += i32::from(*units);
                counters.sold -= i32::from(*units);
            }
        }
    }

    /// Counts the order in its buyer's marks; answers whether they counted it so already.
    fn mark(&mut self, placement: &Placement) -> bool {
        let mut already = true;
        for (scope, units) in &placement.charges {
            let key = (*scope, placement.buyer);
            let mut mark = self.marks.get(key).cloned().unwrap_or_default();
            already &= mark.get(placement.order) == Some(units);
            mark.insert(placement.order, *units);
            self.marks.insert(key, mark);
        }
        already
    }

    /// Takes the order out of its buyer's marks, at home.
    fn unmark(&mut self, placement: &Placement) {
        self.unmark_in(placement, |_| true);
    }

    /// Takes it out of those in which `kept` does not count.
    fn unmark_others(&mut self, placement: &Placement, kept: &Placement) {
        self.unmark_in(placement, |scope| kept.charges.iter().all(|(of, _)| *of != scope));
    }

    fn unmark_in(&mut self, placement: &Placement, which: impl Fn(Scope) -> bool) {
        if self.bucket != placement.home {
            return;
        }
        for (scope, _) in placement.charges.iter().filter(|(scope, _)| which(*scope)) {
            let key = (*scope, placement.buyer);
            if let Some(mark) = self.marks.get_mut(key) {
                mark.remove(placement.order);
                if mark.is_empty() {
                    self.marks.remove(key);
                }
            }
        }
    }
}

const NOTHING: Counters = Counters { free: 0, sold: 0, allotted: 0, version: 0, on_sale: false };
