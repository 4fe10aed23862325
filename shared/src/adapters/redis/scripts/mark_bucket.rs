//! Twin of `lua/mark_bucket.lua`.

use std::sync::LazyLock;

use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        script::{Script, script},
    },
    domain::{
        ids::{ActivityId, Bucket},
        time::UnixMillis,
    },
    ports::BucketMark,
};

static SCRIPT: LazyLock<Script> = script!("mark_bucket");

pub(in crate::adapters::redis) fn call(activity: &ActivityId, bucket: Bucket, upto: Option<UnixMillis>) -> Call {
    let upto = upto.map_or_else(String::new, |upto| upto.get().to_string());
    Call::script(&SCRIPT, BucketKeys::new(activity, bucket).all(), vec![upto])
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<BucketMark, BadReply> {
    let rest = match reply.outcome()? {
        ("mark", rest) => rest,
        ("bad_data", _) => return Err(BadReply::BadData),
        _ => return Err(BadReply::Unexpected),
    };
    match rest.texts()?[..] {
        [node, entry] => Ok(BucketMark { node: node.to_owned(), entry: entry.to_owned() }),
        _ => Err(BadReply::Unexpected),
    }
}
