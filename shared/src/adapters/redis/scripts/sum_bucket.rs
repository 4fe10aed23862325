//! Twin of `lua/sum_bucket.lua`.

use std::sync::LazyLock;

use super::switch;
use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        script::{Script, script},
    },
    domain::{
        activity::Activity,
        ids::{Bucket, Sku},
    },
    ports::SumCheck,
};

static SCRIPT: LazyLock<Script> = script!("sum_bucket");

pub(in crate::adapters::redis) fn call(activity: &Activity, bucket: Bucket, repair: bool) -> Call {
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).all(), vec![switch(repair)]).slow()
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Vec<SumCheck>, BadReply> {
    let rest = match reply.outcome()? {
        ("sums", rest) => rest,
        ("bad_data", _) => return Err(BadReply::BadData),
        _ => return Err(BadReply::Unexpected),
    };
    let texts = rest.texts()?;
    let (rows, []) = texts.as_chunks::<4>() else {
        return Err(BadReply::Unexpected);
    };
    let number = |text: &str| text.parse().map_err(|_| BadReply::Unexpected);
    rows.iter()
        .map(|[sku, deducted, allotted, stock]| {
            Ok(SumCheck {
                sku: Sku::parse(sku).map_err(|_| BadReply::BadData)?,
                deducted: number(deducted)?,
                allotted: number(allotted)?,
                stock: number(stock)?,
            })
        })
        .collect()
}
