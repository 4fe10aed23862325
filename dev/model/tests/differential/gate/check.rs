//! Reads the keys of a bucket, without the product's help, and holds them against the reference.

use std::collections::BTreeMap;

use holdfast::domain::{order::Take, record::Side};
use model::reference::{
    Bucket, Map, Moment, OrderId, Sku, Units,
    gate::{Control, Counters, Gate, Mark, Record},
};

use super::server::Snapshot;
use crate::cast::{BUCKETS, CONFIGURATIONS, Cast, control, reference_sku};

/// What the keys of a bucket say, in the reference's terms, and when each record was first written, in
/// milliseconds since 1970.
pub struct Stored {
    pub gate: Gate,
    pub times: BTreeMap<OrderId, i64>,
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text} is no such number"))
}

/// Reads a bucket.
pub fn read(cast: &Cast, bucket: Bucket, snapshot: &Snapshot) -> Result<Stored, String> {
    let mut gate = Gate::empty(bucket);
    let mut times = BTreeMap::new();
    for (field, text) in &snapshot.bucket.entries {
        match field.as_str() {
            "@control" => gate.control = Some(read_control(cast, text)?),
            "@admitted" => {
                let (_, orders) = text.split_once('|').ok_or("no admissions")?;
                gate.admitted = number(orders)?;
            }
            name => {
                let sku = reference_sku(name).ok_or_else(|| format!("the bucket has a field {name}"))?;
                gate.skus.insert(sku, read_counters(text)?);
            }
        }
    }
    for (field, text) in &snapshot.orders.entries {
        if field == "#" {
            gate.sentinel = text == "1";
        } else if let Some(mark) = cast.mark(field) {
            gate.marks.insert(mark, read_mark(cast, text)?);
        } else {
            let order = cast.order(field).ok_or_else(|| format!("the orders have a field {field}"))?;
            let (record, at_ms) = record(cast, text)?;
            gate.records.insert(order, record);
            times.insert(order, at_ms);
        }
    }
    Ok(Stored { gate, times })
}

/// `version|start|end|rate`, exactly as one of the configurations has it.
fn read_control(cast: &Cast, text: &str) -> Result<Control, String> {
    let told = |version: u16| {
        let activity = cast.activity(version);
        let window = activity.window;
        format!("{version}|{}|{}|{}", window.starts_at.get(), window.ends_at.get(), activity.bucket_rate)
    };
    let versions = 1..=u16::try_from(CONFIGURATIONS.len()).unwrap();
    let known = versions.into_iter().find(|version| told(*version) == text);
    known.map(control).ok_or_else(|| format!("no configuration is {text}"))
}

fn read_counters(text: &str) -> Result<Counters, String> {
    let parts: Vec<&str> = text.split('|').collect();
    let [free, sold, on_sale, allotted, version] = parts[..] else { return Err(format!("counters {text}")) };
    Ok(Counters {
        free: number(free)?,
        sold: number(sold)?,
        allotted: number(allotted)?,
        version: number(version)?,
        on_sale: on_sale == "1",
    })
}

fn read_mark(cast: &Cast, text: &str) -> Result<Mark, String> {
    let mut mark = Mark::default();
    for entry in text.split(';') {
        let (order, units) = entry.split_once('=').ok_or_else(|| format!("a mark {text}"))?;
        let order = cast.order(order).ok_or_else(|| format!("a mark of {order}"))?;
        if mark.get(order).is_some() {
            return Err(format!("a mark counts {order:?} twice: {text}"));
        }
        mark.insert(order, number(units)?);
    }
    Ok(mark)
}

/// Reads a record, but for when it was first written, which is told beside it.
pub fn record(cast: &Cast, text: &str) -> Result<(Record, i64), String> {
    let parts: Vec<&str> = text.splitn(7, '|').collect();
    let ["1", side, take, at, hash, held, placement] = parts[..] else { return Err(format!("a record {text}")) };
    let side = match side {
        "D" => Side::Deducted,
        "R" => Side::Returned,
        _ => return Err(format!("a side {side}")),
    };
    let take = Take::from_u8(number(take)?).ok_or("a take")?;
    let lines = (!hash.is_empty()).then(|| cast.lines(hash).ok_or_else(|| format!("lines {hash}"))).transpose()?;
    let placement = match placement {
        "" => None,
        text => Some(cast.by_text(text).ok_or_else(|| format!("a placement {text}"))?.reference.clone()),
    };
    let mut units: Map<Sku, Units> = Map::default();
    for pair in held.split_terminator(',') {
        let (sku, of_it) = pair.split_once('=').ok_or_else(|| format!("held {held}"))?;
        let sku = reference_sku(sku).ok_or_else(|| format!("held {held}"))?;
        if units.get(sku).is_some() {
            return Err(format!("held twice: {held}"));
        }
        units.insert(sku, number(of_it)?);
    }
    Ok((Record { take, side, at: Moment(0), lines, held: units, placement }, number(at)?))
}

/// What is stored must be what the reference has. Admissions are left out: they end with a second.
pub fn same(reference: &Gate, stored: &Gate) -> Result<(), String> {
    let mut timeless = Gate { admitted: stored.admitted, ..reference.clone() };
    for record in timeless.records.values_mut() {
        record.at = Moment(0);
    }
    if timeless == *stored {
        return Ok(());
    }
    let mut differ = Vec::new();
    let mut tell = |what: &str, real: String, expected: String| {
        if real != expected {
            differ.push(format!("  {what}\n    real:      {real}\n    reference: {expected}"));
        }
    };
    tell("configuration", format!("{:?}", stored.control), format!("{:?}", timeless.control));
    tell("counters", format!("{:?}", stored.skus), format!("{:?}", timeless.skus));
    tell("records are there", stored.sentinel.to_string(), timeless.sentinel.to_string());
    tell("records", format!("{:?}", stored.records), format!("{:?}", timeless.records));
    tell("marks", format!("{:?}", stored.marks), format!("{:?}", timeless.marks));
    Err(format!("bucket {}:\n{}", reference.bucket.0, differ.join("\n")))
}

/// In Redis, free + units of D records = allotted, and sold = units of D records; of what is stored.
pub fn sums(stored: &Gate, drifted: &[Sku]) -> Result<(), String> {
    for (sku, counters) in stored.skus.iter().filter(|(sku, _)| stored.usable() && !drifted.contains(sku)) {
        let held: i32 = stored.records.iter().map(|(_, record)| i32::from(record.holds(sku))).sum();
        if (counters.free + held, counters.sold) != (i32::from(counters.allotted), held) {
            return Err(format!("bucket {}: {counters:?} of {sku:?}, and records hold {held}", stored.bucket.0));
        }
    }
    Ok(())
}

/// Every key has an end, and none that explains the stock ends before the stock.
pub fn lives(snapshot: &Snapshot) -> Result<(), String> {
    let [bucket, orders, ledger] = snapshot.keys();
    if snapshot.keys().iter().any(|key| key.is_there() && key.expires <= 0) {
        return Err("a key has no end".to_owned());
    }
    let early = |key: &super::server::Content| key.is_there() && key.expires < bucket.expires;
    if early(orders) || early(ledger) { Err("records or ledger end before the stock".to_owned()) } else { Ok(()) }
}

/// The buckets of a script.
pub fn buckets() -> impl Iterator<Item = Bucket> {
    (0..BUCKETS).map(Bucket)
}
