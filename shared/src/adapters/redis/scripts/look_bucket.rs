//! Twin of `lua/look_bucket.lua`.

use std::sync::LazyLock;

use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        script::{Script, script},
    },
    domain::{activity::Activity, ids::Bucket, order::Placement, record::Record},
    ports::Look,
};

static SCRIPT: LazyLock<Script> = script!("look_bucket");

pub(in crate::adapters::redis) fn call(activity: &Activity, placement: &Placement, bucket: Bucket) -> Call {
    let mut args = vec![activity.version.to_string(), placement.order_no.to_string()];
    args.extend(placement.lines.iter().map(|line| line.sku.to_string()));
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).read(), args)
}

pub(in crate::adapters::redis) fn parse(bucket: Bucket, reply: &Reply) -> Result<Look, BadReply> {
    let (outcome, rest) = reply.outcome()?;
    let texts = rest.texts()?;
    let [limited, record, free @ ..] = &texts[..] else {
        return Err(BadReply::Unexpected);
    };
    let record = (!record.is_empty()).then(|| Record::parse(record)).transpose();
    // A bucket whose record of this order cannot be read has nothing to offer.
    let usable = record.is_ok() && outcome == "free";
    let free =
        free.iter().map(|units| units.parse().map_err(|_| BadReply::Unexpected)).collect::<Result<Vec<_>, _>>()?;
    Ok(Look {
        bucket,
        free: if usable { free } else { Vec::new() },
        record: record.ok().flatten(),
        limited: *limited == "1",
    })
}
