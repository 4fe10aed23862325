//! Twin of `lua/restock_order.lua`. The buyer's marks are found through the placement in the record,
//! which the caller reads first; the script refuses when the record has another one by then.

use std::sync::LazyLock;

use super::mark_fields;
use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        known::Known,
        script::{Script, script},
    },
    domain::{
        activity::Activity,
        ids::Bucket,
        order::{Placement, Take},
        order_no::OrderNo,
    },
    ports::Restocked,
};

static SCRIPT: LazyLock<Script> = script!("restock_order");

/// Takes the marks of the record's placement away and those of `submission`, which may be others. Where
/// the mark is kept, those of the submission stay, and only if it is known others go.
pub(in crate::adapters::redis) fn call(
    activity: &Activity,
    order_no: &OrderNo,
    bucket: Bucket,
    take: Take,
    known: Known,
    (keep_mark, submission): (bool, Option<&Placement>),
) -> Call {
    let now = crate::ports::Clock::now(&crate::ports::SystemClock);
    let own = submission.map(|submission| mark_fields(submission, bucket));
    let mut marks = known.marks;
    match own {
        Some(own) => {
            marks.retain(|mark| !own.contains(mark));
            if !keep_mark {
                marks.extend(own);
            }
        }
        None if keep_mark => marks.clear(),
        None => {}
    }
    let mut args = vec![
        order_no.to_string(),
        take.get().to_string(),
        activity.marks_expire_at(now).get().to_string(),
        known.placement,
    ];
    args.extend(marks);
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
