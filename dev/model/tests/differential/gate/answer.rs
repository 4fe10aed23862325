//! What an operation answers, in one form, and what the reference answers.

use holdfast::domain::order::Take;
use model::reference::{
    Map, Moment, OrderId, PLACEMENTS_MAX, Sku, Units,
    gate::{Counters, Gate, Phase, Preheated, Record, SumCheck},
    scripts::{Deducted, Look, Place, Placed, Restocked, Restored, Undone},
};

use super::operation::{Operation, TooGreat};
use crate::cast::{Cast, control};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Placed(Placed),
    Deducted(Deducted),
    Undone(Undone),
    Restocked(Restocked),
    Restored(Restored),
    Preheated(Preheated),
    Taken(usize),
    Control(bool),
    Sums(Vec<SumCheck>),
    Looks(Vec<Look>),
    Record(Option<Record>),
    Bucket {
        present: bool,
        configuration: Option<u16>,
        skus: Map<Sku, Counters>,
    },
    /// A record that cannot be read has its number only.
    Listed {
        records: Vec<(OrderId, Option<Record>)>,
        marked: Vec<OrderId>,
    },
    Marked(bool),
    BadData,
    /// Nothing that the reference ever says.
    Other(String),
}

/// What is given when an operation runs.
#[derive(Clone, Copy)]
pub struct Moments {
    pub now: Moment,
    /// The configuration that callers know, per bucket.
    pub versions: [u16; 2],
}

impl Moments {
    pub fn version(self, bucket: u8, stale: bool) -> u16 {
        match (self.versions[usize::from(bucket)], stale) {
            (version, false) => version,
            (1, true) => 2,
            (version, true) => version - 1,
        }
    }
}

/// Times are compared where the state is.
fn timeless(record: &Record) -> Record {
    Record { at: Moment(0), ..record.clone() }
}

fn lines(units: &[(u8, Units)]) -> Vec<(Sku, Units)> {
    units.iter().map(|(sku, units)| (Sku(*sku), *units)).collect()
}

/// The reference's answer.
pub fn expect(cast: &Cast, gates: &mut [Gate], operation: &Operation, at: Moments) -> Answer {
    let bucket = operation.bucket().0;
    let gate = &mut gates[usize::from(bucket)];
    let take = |take: u8| Take::from_u8(take).unwrap();
    match operation {
        Operation::Place { of, look, stale } => {
            let version = at.version(bucket, *stale);
            let call = Place {
                version,
                started: control(version).phase != Phase::Before,
                placement: &cast.both(*of).reference,
                look: *look,
                limit_max: cast.limit,
                placements_max: PLACEMENTS_MAX,
                now: at.now,
            };
            match gate.place(call) {
                Placed::BadData => Answer::BadData,
                Placed::Replayed(record) => Answer::Placed(Placed::Replayed(timeless(&record))),
                placed => Answer::Placed(placed),
            }
        }
        Operation::Deduct { of, units, stale, .. } => {
            let version = at.version(bucket, *stale);
            match gate.deduct(version, &cast.both(*of).reference, &lines(units), at.now) {
                Deducted::BadData => Answer::BadData,
                deducted => Answer::Deducted(deducted),
            }
        }
        Operation::Undo { of, .. } => match gate.undo(&cast.both(*of).reference) {
            Undone::BadData => Answer::BadData,
            undone => Answer::Undone(undone),
        },
        Operation::Restock { of, take: to, keep_mark, known, .. } => {
            let submission = known.then(|| &*cast.both(*of).reference);
            match gate.restock(OrderId(of.order), take(*to), (*keep_mark, submission), at.now) {
                Restocked::BadData => Answer::BadData,
                restocked => Answer::Restocked(restocked),
            }
        }
        Operation::Restore { of, take: to, parts, .. } => {
            match gate.restore(&cast.both(*of).reference, take(*to), parts, at.now) {
                Restored::BadData => Answer::BadData,
                restored => Answer::Restored(restored),
            }
        }
        Operation::Preheat { version, allotments, .. } => {
            Answer::Preheated(gate.preheat(control(*version), allotments))
        }
        Operation::SyncAllotment { allotments, .. } => Answer::Taken(gate.sync_allotment(allotments)),
        Operation::SyncControl { version, .. } => Answer::Control(gate.sync_control(control(*version))),
        Operation::Sum { repair, .. } => gate.sum(*repair).map_or(Answer::BadData, Answer::Sums),
        Operation::TooGreat { number, .. } => expect_too_great(gate, *number),
        _ => expect_read(cast, gates, operation, at),
    }
}

fn expect_read(cast: &Cast, gates: &[Gate], operation: &Operation, at: Moments) -> Answer {
    let gate = &gates[usize::from(operation.bucket().0)];
    match operation {
        Operation::Look { of, stale } => {
            let placement = &cast.both(*of).reference;
            let version = at.version(placement.home.0, *stale);
            let looks = gates.iter().map(|gate| gate.look(version, placement));
            let looks = looks.map(|look| Look { record: look.record.as_ref().map(timeless), ..look });
            Answer::Looks(looks.collect())
        }
        Operation::Record { order, .. } => Answer::Record(gate.records.get(OrderId(*order)).map(timeless)),
        Operation::ReadBucket { .. } => Answer::Bucket {
            present: gate.usable(),
            configuration: gate.control.map(|control| control.version),
            skus: gate.skus.clone(),
        },
        Operation::ListRecords { .. } => Answer::Listed {
            records: gate.records.iter().map(|(order, record)| (order, Some(timeless(record)))).collect(),
            marked: gate.marked_orders(),
        },
        Operation::Marked { of } => Answer::Marked(gate.marked(&cast.both(*of).reference)),
        _ => Answer::Other("no operation of one call".to_owned()),
    }
}

fn expect_too_great(gate: &Gate, number: TooGreat) -> Answer {
    use TooGreat as T;
    match (number, gate.usable()) {
        (T::PreheatUnits | T::PreheatVersion | T::PreheatConfiguration, true) => Answer::Preheated(Preheated::Already),
        (T::SyncUnits | T::SyncVersion, false) => Answer::Taken(0),
        (T::SyncConfiguration, false) => Answer::Control(false),
        _ => Answer::BadData,
    }
}
