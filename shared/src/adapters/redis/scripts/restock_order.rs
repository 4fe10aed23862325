//! Twin of `lua/restock_order.lua`. The buyer's marks are found through the placement in the record,
//! which the caller reads first; the script refuses when the record has another one by then.

use std::sync::LazyLock;

use super::mark_fields;
use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        script::{Script, script},
    },
    domain::{activity::Activity, ids::Bucket, order::Take, order_no::OrderNo, record::Record},
    ports::Restocked,
};

static SCRIPT: LazyLock<Script> = script!("restock_order");

/// What was read of the record before: its placement as text, and the marks to clear.
#[derive(Default)]
pub(in crate::adapters::redis) struct Known {
    placement: String,
    marks: Vec<String>,
}

impl Known {
    /// `None` when the record cannot be read.
    pub fn read(text: Option<&str>, bucket: Bucket, keep_mark: bool) -> Option<Self> {
        let Some(text) = text else {
            return Some(Self::default());
        };
        let record = Record::parse(text).ok()?;
        let marks = record.placement.as_ref().filter(|_| !keep_mark).map(|placement| mark_fields(placement, bucket));
        let placement = text.splitn(7, '|').nth(6).unwrap_or_default().to_owned();
        Some(Self { placement, marks: marks.unwrap_or_default() })
    }
}

pub(in crate::adapters::redis) fn call(
    activity: &Activity,
    order_no: &OrderNo,
    bucket: Bucket,
    take: Take,
    known: Known,
) -> Call {
    let now = crate::ports::Clock::now(&crate::ports::SystemClock);
    let mut args = vec![
        order_no.to_string(),
        take.get().to_string(),
        activity.marks_expire_at(now).get().to_string(),
        known.placement,
    ];
    args.extend(known.marks);
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).all(), args)
}

/// `None`: the record has another placement than what was read.
pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Option<Restocked>, BadReply> {
    let (outcome, rest) = reply.outcome()?;
    Ok(Some(match outcome {
        "done" => Restocked::Done { units: rest.number()? },
        "already" => Restocked::Already,
        "record_only" => Restocked::RecordOnly,
        "bad_data" => Restocked::BadData,
        "changed" => return Ok(None),
        _ => return Err(BadReply::Unexpected),
    }))
}
