//! Twin of `lua/count_token.lua`.

use std::sync::LazyLock;

use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys,
        script::{Script, script},
    },
    domain::ids::{ActivityId, Bucket, BuyerId},
};

/// Length of the window in which a buyer's tokens are counted, in milliseconds.
const WINDOW_MS: u32 = 60_000;

static SCRIPT: LazyLock<Script> = script!("count_token");

pub(in crate::adapters::redis) fn call(activity: &ActivityId, home: Bucket, buyer: &BuyerId, max: u32) -> Call {
    let args = vec![max.to_string(), WINDOW_MS.to_string()];
    Call::script(&SCRIPT, vec![keys::tokens(activity, home, buyer)], args).once()
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Result<(), u32>, BadReply> {
    match reply.outcome()? {
        ("allowed", _) => Ok(Ok(())),
        ("wait", rest) => rest.number().map(Err),
        ("bad_data", _) => Err(BadReply::BadData),
        _ => Err(BadReply::Unexpected),
    }
}
