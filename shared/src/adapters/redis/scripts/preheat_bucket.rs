//! Twin of `lua/preheat_bucket.lua`.

use std::sync::LazyLock;

use super::{control_args, push_allotments};
use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        script::{Script, script},
    },
    domain::{activity::Activity, ids::Bucket, stock::Allotment, time::UnixMillis},
    ports::Preheated,
};

static SCRIPT: LazyLock<Script> = script!("preheat_bucket");

pub(in crate::adapters::redis) fn call(
    activity: &Activity,
    bucket: Bucket,
    allotments: &[Allotment],
    now: UnixMillis,
) -> Call {
    let mut args = control_args(activity, now);
    push_allotments(&mut args, allotments);
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).all(), args)
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Preheated, BadReply> {
    match reply.outcome()?.0 {
        "loaded" => Ok(Preheated::Loaded),
        "already" => Ok(Preheated::Already),
        "bad_data" => Err(BadReply::BadData),
        _ => Err(BadReply::Unexpected),
    }
}
