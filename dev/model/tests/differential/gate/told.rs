//! Reads the gate's answers back into the reference's terms.

use holdfast::{
    domain::{order_no::OrderNo, record::Record as RealRecord},
    ports::{
        BucketState, Deducted as RealDeducted, Effect, Fault, GateRefusal, Look as RealLook, PlaceAnswer,
        Preheated as RealPreheated, RecordPage, Restocked as RealRestocked, Restored as RealRestored,
        SumCheck as RealSumCheck, Undone as RealUndone,
    },
};
use model::reference::{
    Map, OrderId, Sku, Units,
    gate::{Counters, Preheated, Record, SumCheck},
    scripts::{Deducted, Look, Placed, Restocked, Restored, Undone},
};

use super::{answer::Answer, check, server::Snapshot};
use crate::cast::{Cast, reference_sku};

/// A fault is an answer only where something could not be read and nothing was written.
pub fn told_or_fault<T>(result: Result<T, Fault>, told: impl FnOnce(T) -> Answer) -> Answer {
    match result {
        Ok(answer) => told(answer),
        Err(fault) if fault.effect == Effect::None && fault.chain().contains("unreadable data") => Answer::BadData,
        Err(fault) => Answer::Other(fault.chain()),
    }
}

fn few(units: &[u64]) -> Vec<Units> {
    units.iter().map(|units| Units::try_from(*units).unwrap_or(Units::MAX)).collect()
}

pub fn deduct(result: Result<RealDeducted, Fault>) -> Answer {
    told_or_fault(result, |deducted| {
        Answer::Deducted(match deducted {
            RealDeducted::Done => Deducted::Done,
            RealDeducted::Short(units) => Deducted::Short(few(&units)),
            RealDeducted::GivenBack => Deducted::GivenBack,
            RealDeducted::Frozen => Deducted::Frozen,
            RealDeducted::Limited => Deducted::Limited,
            RealDeducted::Unusable => Deducted::Unusable,
            RealDeducted::BadData => return Answer::BadData,
        })
    })
}

pub fn undo(result: Result<RealUndone, Fault>) -> Answer {
    told_or_fault(result, |undone| {
        Answer::Undone(match undone {
            RealUndone::Done => Undone::Done,
            RealUndone::Absent => Undone::Absent,
            RealUndone::GivenBack => Undone::GivenBack,
            RealUndone::BadData => return Answer::BadData,
        })
    })
}

pub fn restock(result: Result<RealRestocked, Fault>) -> Answer {
    told_or_fault(result, |restocked| {
        Answer::Restocked(match restocked {
            RealRestocked::Done { units } => Restocked::Done(few(&[units])[0]),
            RealRestocked::Already => Restocked::Already,
            RealRestocked::RecordOnly => Restocked::RecordOnly,
            RealRestocked::BadData => return Answer::BadData,
        })
    })
}

pub fn restore(result: Result<RealRestored, Fault>) -> Answer {
    told_or_fault(result, |restored| {
        Answer::Restored(match restored {
            RealRestored::Done { delta } => Restored::Done(i32::try_from(delta).unwrap_or(i32::MAX)),
            RealRestored::Already => Restored::Already,
            RealRestored::NoStock => Restored::NoStock,
            RealRestored::BadData => return Answer::BadData,
        })
    })
}

pub fn preheat(result: Result<RealPreheated, Fault>) -> Answer {
    told_or_fault(result, |preheated| {
        Answer::Preheated(match preheated {
            RealPreheated::Loaded => Preheated::Loaded,
            RealPreheated::Already => Preheated::Already,
        })
    })
}

/// What is known while an answer is read.
pub struct Told<'a> {
    pub cast: &'a Cast,
    pub known: Option<&'a [Snapshot]>,
}

impl Told<'_> {
    /// Also holds the product's reader of records against the text that is stored.
    fn record(&self, bucket: u16, order: OrderId, real: &RealRecord) -> Result<Record, String> {
        let text = real.to_string();
        if let Some(known) = self.known {
            let stored = known[usize::from(bucket)].orders.entries.get(self.cast.number(order).as_str());
            if stored != Some(&text) {
                return Err(format!("a record is told as {text}, and {stored:?} is stored"));
            }
        }
        check::record(self.cast, &text).map(|(record, _)| record)
    }

    pub fn place(&self, bucket: u16, result: Result<PlaceAnswer, Fault>) -> Answer {
        told_or_fault(result, |answer| {
            Answer::Placed(match answer {
                PlaceAnswer::MemoryLost => Placed::MemoryLost,
                PlaceAnswer::ConfigurationChanged => Placed::ConfigurationChanged,
                PlaceAnswer::BadData => return Answer::BadData,
                PlaceAnswer::Mismatch => Placed::Mismatch,
                PlaceAnswer::GivenBack => Placed::GivenBack,
                PlaceAnswer::Refused(GateRefusal::NotStarted) => Placed::NotStarted,
                PlaceAnswer::Refused(GateRefusal::Ended) => Placed::Ended,
                PlaceAnswer::Refused(GateRefusal::Frozen) => Placed::Frozen,
                PlaceAnswer::Refused(GateRefusal::Limited) => Placed::Limited,
                PlaceAnswer::Refused(GateRefusal::LimitReached(numbers)) => {
                    let mut orders: Vec<_> = numbers.iter().filter_map(|no| self.cast.order(no.as_str())).collect();
                    orders.sort_unstable();
                    Placed::LimitReached(orders)
                }
                PlaceAnswer::Short(free) => Placed::Short(few(&free)),
                PlaceAnswer::Admitted(taken) => {
                    Placed::Admitted(taken.iter().map(|units| Units::try_from(*units).unwrap()).collect())
                }
                PlaceAnswer::Replayed(record) => {
                    let order = record.placement.as_ref().and_then(|it| self.cast.order(it.order_no.as_str()));
                    match self.record(bucket, order.unwrap_or(OrderId(0)), &record) {
                        Ok(record) => Placed::Replayed(record),
                        Err(why) => return Answer::Other(why),
                    }
                }
            })
        })
    }

    pub fn looks(&self, looks: &[RealLook]) -> Answer {
        let one = |look: &RealLook| {
            let bucket = look.bucket.get();
            let record = look.record.as_ref().map(|record| {
                let order = record.placement.as_ref().and_then(|it| self.cast.order(it.order_no.as_str()));
                self.record(bucket, order.or_else(|| self.stored(bucket, record)).unwrap_or(OrderId(0)), record)
            });
            Ok(Look { free: few(&look.free), limited: look.limited, record: record.transpose()? })
        };
        let looks: Result<_, String> = looks.iter().map(one).collect();
        looks.map_or_else(Answer::Other, Answer::Looks)
    }

    /// The order of a record that does not name it: the one that is stored so.
    fn stored(&self, bucket: u16, record: &RealRecord) -> Option<OrderId> {
        let orders = &self.known?[usize::from(bucket)].orders.entries;
        orders.iter().find(|(_, text)| **text == record.to_string()).and_then(|(number, _)| self.cast.order(number))
    }

    pub fn one_record(
        &self,
        bucket: u16,
        order: OrderId,
        result: Result<Option<Result<RealRecord, String>>, Fault>,
    ) -> Answer {
        told_or_fault(result, |record| match record {
            None => Answer::Record(None),
            Some(Err(_)) => Answer::BadData,
            Some(Ok(record)) => {
                self.record(bucket, order, &record).map_or_else(Answer::Other, |record| Answer::Record(Some(record)))
            }
        })
    }

    pub fn state(state: &BucketState) -> Answer {
        let counters = |it: &holdfast::ports::SkuState| {
            let counters = Counters {
                free: it.stock.try_into().ok()?,
                sold: it.sold.try_into().ok()?,
                allotted: it.allotted.try_into().ok()?,
                version: it.version.try_into().ok()?,
                on_sale: it.on_sale,
            };
            Some((reference_sku(it.sku.as_str())?, counters))
        };
        let skus: Option<Map<Sku, Counters>> = state.skus.iter().map(counters).collect();
        let configuration = state.configuration.map(|version| u16::try_from(version).unwrap_or(u16::MAX));
        match skus {
            Some(skus) => Answer::Bucket { present: state.present, configuration, skus },
            None => Answer::Other(format!("{state:?}")),
        }
    }

    pub fn page(&self, bucket: u16, page: &RecordPage) -> Answer {
        let one = |(number, record): &(OrderNo, Result<RealRecord, String>)| {
            let order = self.cast.order(number.as_str()).ok_or("an unknown order is listed")?;
            let record = record.as_ref().ok().map(|record| self.record(bucket, order, record)).transpose()?;
            Ok((order, record))
        };
        let records: Result<Vec<_>, String> = page.records.iter().map(one).collect();
        let marked: Option<Vec<_>> = page.marked.iter().map(|number| self.cast.order(number.as_str())).collect();
        match (records, marked, page.next) {
            (Ok(mut records), Some(mut marked), None) => {
                records.sort_unstable_by_key(|(order, _)| *order);
                marked.sort_unstable();
                marked.dedup();
                Answer::Listed { records, marked }
            }
            (Err(why), ..) => Answer::Other(why),
            _ => Answer::Other(format!("{page:?}")),
        }
    }

    pub fn sums(sums: &[RealSumCheck]) -> Answer {
        let one = |sum: &RealSumCheck| {
            Some(SumCheck {
                sku: reference_sku(sum.sku.as_str())?,
                deducted: sum.deducted.try_into().ok()?,
                allotted: sum.allotted.try_into().ok()?,
                free: sum.stock.try_into().ok()?,
            })
        };
        let told: Option<Vec<_>> = sums.iter().map(one).collect();
        told.map_or_else(|| Answer::Other(format!("{sums:?}")), Answer::Sums)
    }
}
