//! Twin of `lua/undo_part.lua`.

use std::sync::LazyLock;

use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        known::Known,
        script::{Script, script},
    },
    domain::{activity::Activity, ids::Bucket, order_no::OrderNo},
    ports::Undone,
};

static SCRIPT: LazyLock<Script> = script!("undo_part");

pub(in crate::adapters::redis) fn call(activity: &Activity, order_no: &OrderNo, bucket: Bucket, known: Known) -> Call {
    let mut args = vec![order_no.to_string(), known.placement];
    args.extend(known.marks);
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).all(), args)
}

/// `None`: the record has another placement than what was known.
pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Option<Undone>, BadReply> {
    Ok(Some(match reply.outcome()?.0 {
        "done" => Undone::Done,
        "absent" => Undone::Absent,
        "given_back" => Undone::GivenBack,
        "bad_data" => Undone::BadData,
        "changed" => return Ok(None),
        _ => return Err(BadReply::Unexpected),
    }))
}
