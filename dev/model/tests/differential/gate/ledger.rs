//! The entry that an operation must leave in the ledger, by what it did to the reference.

use model::reference::{
    Map, OrderId, Sku, Units,
    gate::{Gate, Preheated, Record},
    held_in,
};

use super::{answer::Answer, operation::Operation};
use crate::cast::{Cast, SKU_NAMES};

fn list(units: impl Iterator<Item = (Sku, i32)>) -> String {
    units.map(|(sku, units)| format!("{}={units}", SKU_NAMES[usize::from(sku.0)])).collect::<Vec<_>>().join(",")
}

fn held(units: &Map<Sku, Units>) -> String {
    list(units.iter().map(|(sku, units)| (sku, i32::from(*units))))
}

/// Operation and text of the entry, if there must be one.
pub fn entry(cast: &Cast, operation: &Operation, answer: &Answer, before: &Gate, after: &Gate) -> Option<String> {
    let of = |name: &str, order: OrderId, units: &str| Some(format!("{name} {} {units}", cast.number(order)));
    let held_by =
        |gate: &Gate, order| gate.records.get(order).map_or(String::new(), |record: &Record| held(&record.held));
    let (order, changed) = (operation.order().unwrap_or(OrderId(0)), before != after);
    match operation {
        Operation::Place { .. } if changed => of("place", order, &held_by(after, order)),
        Operation::Deduct { .. } if changed => of("deduct", order, &held_by(after, order)),
        Operation::Undo { .. } if changed => of("undo", order, &held_by(before, order)),
        // A mark alone moves no stock.
        Operation::Restock { .. } if before.records != after.records => of("restock", order, &held_by(before, order)),
        Operation::Restore { of: submission, parts, .. } if changed => {
            let placement = &cast.both(*submission).reference;
            let lines = placement.lines.iter().filter(|_| placement.home == after.bucket);
            let mut units: Map<Sku, Units> = lines.map(|(sku, _)| (*sku, 0)).collect();
            for (sku, more) in held_in(parts, after.bucket).iter() {
                units.insert(sku, *more);
            }
            of("restore", order, &held(&units))
        }
        Operation::Preheat { allotments, .. } if *answer == Answer::Preheated(Preheated::Loaded) => {
            Some(format!("preheat {}", list(allotments.iter().map(|it| (it.sku, i32::from(it.allotted))))))
        }
        Operation::SyncAllotment { allotments, .. } if changed => {
            let old = |sku| before.skus.get(sku).copied();
            let newer = allotments.iter().filter(|it| old(it.sku).is_none_or(|old| it.version > old.version));
            let more =
                newer.map(|it| (it.sku, i32::from(it.allotted) - old(it.sku).map_or(0, |old| i32::from(old.allotted))));
            Some(format!("sync {}", list(more)))
        }
        Operation::Sum { .. } if changed => match answer {
            Answer::Sums(sums) => {
                Some(format!("repair {}", list(sums.iter().map(|it| (it.sku, it.allotted - it.deducted - it.free)))))
            }
            _ => None,
        },
        _ => None,
    }
}
