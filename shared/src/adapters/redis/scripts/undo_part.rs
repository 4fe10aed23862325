//! Twin of `lua/undo_part.lua`.

use std::sync::LazyLock;

use super::mark_fields;
use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        script::{Script, script},
    },
    domain::{activity::Activity, ids::Bucket, order::Placement},
    ports::Undone,
};

static SCRIPT: LazyLock<Script> = script!("undo_part");

pub(in crate::adapters::redis) fn call(activity: &Activity, placement: &Placement, bucket: Bucket) -> Call {
    let mut args = vec![placement.order_no.to_string()];
    args.extend(mark_fields(placement, bucket));
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).all(), args)
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Undone, BadReply> {
    Ok(match reply.outcome()?.0 {
        "done" => Undone::Done,
        "absent" => Undone::Absent,
        "given_back" => Undone::GivenBack,
        "bad_data" => Undone::BadData,
        _ => return Err(BadReply::Unexpected),
    })
}
