//! The invariants of docs/protocol.md as properties of every state.

use crate::{
    protocol::Protocol,
    reference::{
        Buyer, Map, Scope, Sku, Status, Units,
        changes::keeps_quota,
        database::{Database, Order, Stored},
        gate::Gate,
    },
    scenario::Move,
    state::{Broken, State},
};

/// Invariant 1: units in live orders ≤ units put on sale; and what is on sale is what was put there.
pub fn nothing_is_oversold(model: &Protocol, state: &State) -> bool {
    (0..model.scenario.stock.len()).all(|index| {
        let sku = Sku(u8::try_from(index).unwrap_or(u8::MAX));
        let on_sale = put_on_sale(model, &state.database, index);
        let items = state.database.stock.iter().filter(|((of, _), _)| *of == sku);
        let allotted: i32 = items.map(|(_, item)| i32::from(item.allotted)).sum();
        let parts = state.database.live().flat_map(|order| &order.parts).filter(|part| part.sku == sku);
        let live: i32 = parts.map(|part| i32::from(part.units)).sum();
        live <= on_sale && allotted == on_sale
    })
}

fn put_on_sale(model: &Protocol, database: &Database, sku: usize) -> i32 {
    let opened: i32 = model.scenario.stock[sku].iter().map(|units| i32::from(*units)).sum();
    let adjusted: i32 = database
        .moves
        .keys()
        .map(|id| match model.scenario.moves[usize::from(id.0)] {
            Move::Adjust { more, .. } if sku == 0 => i32::from(more),
            _ => 0,
        })
        .sum();
    opened + adjusted
}

/// Invariant 2: no buyer's live orders are over the limit in any scope; and each guard counts exactly
/// those and what is kept.
pub fn nobody_is_over_the_limit(model: &Protocol, state: &State) -> bool {
    let mut live: Map<(Buyer, Scope), Units> = Map::default();
    let mut counted = live.clone();
    let orders = state.database.orders.iter().filter_map(|(_, stored)| match stored {
        Stored::Order(order) => Some(order),
        Stored::Aborted(_) => None,
    });
    for order in orders {
        for (scope, units) in &order.placement.charges {
            let key = (order.placement.buyer, *scope);
            let is_live = order.status.is_live();
            if is_live {
                live.insert(key, live.get(key).copied().unwrap_or(0) + units);
            }
            if is_live || keeps_quota(model.scenario.policy, order.status) {
                counted.insert(key, counted.get(key).copied().unwrap_or(0) + units);
            }
        }
    }
    let within = live.iter().all(|(_, units)| *units <= model.scenario.limit);
    within && state.database.guards.iter().all(|(key, guard)| counted.get(key).copied().unwrap_or(0) == guard.units)
}

/// Invariant 3: in each store what is free and what is held make up what is allotted.
pub fn sums_hold(_: &Protocol, state: &State) -> bool {
    let database = state.database.stock.iter().all(|((sku, bucket), item)| {
        let live = i32::from(state.database.live_units(sku, bucket));
        i32::from(item.available) + live == i32::from(item.allotted)
    });
    database && state.nodes.iter().all(|node| Gate::sums(&node.gate).is_ok_and(|differ| differ.is_empty()))
}

/// Invariant 4: each take commits once, and goes back once per bucket and history.
pub fn each_take_counts_once(_: &Protocol, state: &State) -> bool {
    let takes = state.ghosts.iter().enumerate().all(|(index, ghost)| {
        let order = crate::reference::OrderId(u8::try_from(index).unwrap_or(u8::MAX));
        let taken = match state.database.order(order) {
            Some(Stored::Order(order)) => order.take.get(),
            Some(Stored::Aborted(_)) | None => 0,
        };
        ghost.takes == taken
    });
    takes && state.broken != Some(Broken::RestockedTwice)
}

/// Invariant 5, and that every state can settle: see `settle.rs`.
pub fn two_reconciliations_settle(model: &Protocol, state: &State) -> bool {
    model.settles(state)
}

/// Invariant 6: an order that was told as committed exists; a refusal that was told as final stays.
pub fn what_was_told_stays(_: &Protocol, state: &State) -> bool {
    let told = state.ghosts.iter().enumerate().all(|(index, ghost)| {
        let order = crate::reference::OrderId(u8::try_from(index).unwrap_or(u8::MAX));
        let stored = state.database.order(order);
        let exists = matches!(stored, Some(Stored::Order(_)));
        let given_up = stored.is_some_and(|stored| stored.status() == Status::Aborted);
        (!ghost.told_committed || exists) && (!ghost.told_refused || given_up)
    });
    told && state.broken != Some(Broken::Forgotten)
}

/// Invariant 7: every change of a stock item raises its version by one. The audit row of a change is
/// kept under the version, so each has exactly one, however often the relay writes it.
pub fn every_change_has_its_version(_: &Protocol, state: &State) -> bool {
    state.broken != Some(Broken::Version)
}

/// "Must be impossible": a record R of an order that lives; a script that cannot read another's writing;
/// an order of another day than its record, where Redis lost nothing.
pub fn nothing_impossible_was_seen(model: &Protocol, state: &State) -> bool {
    let bounds = model.scenario.bounds;
    let lossless =
        [bounds.degraded, bounds.flushes, bounds.expiries_of_keys, bounds.failovers].iter().all(|it| *it == 0);
    let same_day = || state.database.live().all(|order| is_of_its_records_day(order, state));
    !matches!(state.broken, Some(Broken::ReturnedWhileLive | Broken::BadData)) && (!lossless || same_day())
}

fn is_of_its_records_day(order: &Order, state: &State) -> bool {
    let record = state.gate(order.placement.home).records.get(order.placement.order);
    record.and_then(|record| record.placement.as_ref()).is_none_or(|own| own.day == order.placement.day)
}
