//! Twin of `lua/sync_allotment.lua`.

use std::sync::LazyLock;

use super::push_allotments;
use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        script::{Script, script},
    },
    domain::{
        ids::{ActivityId, Bucket},
        stock::Allotment,
    },
};

static SCRIPT: LazyLock<Script> = script!("sync_allotment");

pub(in crate::adapters::redis) fn call(activity: &ActivityId, bucket: Bucket, allotments: &[Allotment]) -> Call {
    let mut args = Vec::with_capacity(4 * allotments.len());
    push_allotments(&mut args, allotments);
    Call::script(&SCRIPT, BucketKeys::new(activity, bucket).all(), args)
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<usize, BadReply> {
    match reply.outcome()? {
        ("taken", rest) => rest.number(),
        ("bad_data", _) => Err(BadReply::BadData),
        _ => Err(BadReply::Unexpected),
    }
}
