//! Twin of `lua/sync_control.lua`.

use std::sync::LazyLock;

use super::control_args;
use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        script::{Script, script},
    },
    domain::{activity::Activity, ids::Bucket, time::UnixMillis},
};

static SCRIPT: LazyLock<Script> = script!("sync_control");

pub(in crate::adapters::redis) fn call(activity: &Activity, bucket: Bucket, now: UnixMillis) -> Call {
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).all(), control_args(activity, now))
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<bool, BadReply> {
    match reply.outcome()?.0 {
        "taken" => Ok(true),
        "kept" => Ok(false),
        "bad_data" => Err(BadReply::BadData),
        _ => Err(BadReply::Unexpected),
    }
}
