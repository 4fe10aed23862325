//! Asks the real gate.

use holdfast::{
    adapters::redis::Gate as RealGate,
    domain::{activity::Activity, ids::Bucket as RealBucket, order::Take, stock::Allotment as RealAllotment},
    ports::{Clock as _, OrderGate as _, PlaceCall, StockGate as _, SystemClock},
};
use model::reference::{OrderId, Sku, gate::Allotment};

use super::{
    answer::{Answer, Moments},
    operation::{Operation, TooGreat},
    server::Snapshot,
    told::{self, Told, told_or_fault},
};
use crate::cast::{Cast, real_bucket, real_parts, real_sku};

/// From here on Lua's numbers are not exact.
const TOO_GREAT: u64 = 1 << 53;

/// Asks the real gate. `known` is what the buckets have, where nothing else runs meanwhile.
pub async fn ask(
    cast: &Cast,
    gate: &RealGate,
    operation: &Operation,
    at: Moments,
    known: Option<&[Snapshot]>,
) -> Answer {
    let bucket = operation.bucket();
    let here = real_bucket(bucket);
    let activity = |stale| cast.activity(at.version(bucket.0, stale));
    let told = Told { cast, known };
    let now = SystemClock.now();
    match operation {
        Operation::Place { of, look, stale } => {
            let call = PlaceCall { activity: activity(*stale), placement: &cast.both(*of).real, look: *look };
            told.place(bucket.0.into(), gate.place(call).await)
        }
        Operation::Deduct { of, units, stale, .. } => {
            let units: Vec<_> = units.iter().map(|(sku, units)| (real_sku(Sku(*sku)), (*units).into())).collect();
            told::deduct(gate.deduct(activity(*stale), &cast.both(*of).real, here, &units).await)
        }
        Operation::Undo { of, .. } => told::undo(gate.undo(activity(false), &cast.both(*of).real, here).await),
        Operation::Restock { of, take, keep_mark, known, .. } => {
            let (number, take) = (cast.number(OrderId(of.order)), Take::from_u8(*take).unwrap());
            let submission = known.then(|| &cast.both(*of).real);
            told::restock(gate.restock(activity(false), &number, here, take, *keep_mark, submission).await)
        }
        Operation::Restore { of, take, parts, .. } => {
            let (placement, take) = (&cast.both(*of).real, Take::from_u8(*take).unwrap());
            told::restore(gate.restore(activity(false), placement, here, take, &real_parts(parts)).await)
        }
        Operation::Preheat { version, allotments, .. } => {
            told::preheat(gate.preheat(cast.activity(*version), here, &real_allotments(allotments), now).await)
        }
        Operation::SyncAllotment { allotments, .. } => {
            told_or_fault(gate.sync_allotment(cast.id(), here, &real_allotments(allotments)).await, Answer::Taken)
        }
        Operation::SyncControl { version, .. } => {
            told_or_fault(gate.sync_control(cast.activity(*version), here, now).await, Answer::Control)
        }
        Operation::Sum { repair, .. } => {
            told_or_fault(gate.sum_bucket(activity(false), here, *repair).await, |sums| Told::sums(&sums))
        }
        Operation::Look { of, stale } => {
            let buckets: Vec<_> = cast.activity(1).buckets.all().collect();
            let looks = gate.look(activity(*stale), &cast.both(*of).real, &buckets).await;
            told_or_fault(looks, |looks| told.looks(&looks))
        }
        Operation::Record { order, .. } => {
            let order = OrderId(*order);
            told.one_record(bucket.0.into(), order, gate.record(cast.id(), here, &cast.number(order)).await)
        }
        Operation::ReadBucket { .. } => {
            told_or_fault(gate.read_bucket(activity(false), here).await, |it| Told::state(&it))
        }
        Operation::ListRecords { .. } => {
            told_or_fault(gate.list_records(cast.id(), here, 0).await, |page| told.page(bucket.0.into(), &page))
        }
        Operation::Marked { of } => {
            told_or_fault(gate.marked(activity(false), &cast.both(*of).real).await, Answer::Marked)
        }
        Operation::TooGreat { number, .. } => too_great(gate, activity(false), here, *number).await,
        Operation::Fault(_) | Operation::Spoiled { .. } => Answer::Other("no operation of one call".to_owned()),
    }
}

async fn too_great(gate: &RealGate, activity: &Activity, bucket: RealBucket, number: TooGreat) -> Answer {
    use TooGreat as T;
    let mut allotment = RealAllotment { sku: real_sku(Sku(0)), allotted: 5, version: 9, on_sale: true };
    let mut activity = activity.clone();
    match number {
        T::PreheatUnits | T::SyncUnits => allotment.allotted = TOO_GREAT,
        T::PreheatVersion | T::SyncVersion => allotment.version = TOO_GREAT,
        T::PreheatConfiguration | T::SyncConfiguration => activity.version = TOO_GREAT,
    }
    let now = SystemClock.now();
    match number {
        T::PreheatUnits | T::PreheatVersion | T::PreheatConfiguration => {
            told::preheat(gate.preheat(&activity, bucket, &[allotment], now).await)
        }
        T::SyncUnits | T::SyncVersion => {
            told_or_fault(gate.sync_allotment(&activity.id, bucket, &[allotment]).await, Answer::Taken)
        }
        T::SyncConfiguration => told_or_fault(gate.sync_control(&activity, bucket, now).await, Answer::Control),
    }
}

fn real_allotments(allotments: &[Allotment]) -> Vec<RealAllotment> {
    let real = |it: &Allotment| RealAllotment {
        sku: real_sku(it.sku),
        allotted: it.allotted.into(),
        version: it.version.into(),
        on_sale: it.on_sale,
    };
    allotments.iter().map(real).collect()
}
