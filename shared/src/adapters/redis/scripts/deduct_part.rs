//! Twin of `lua/deduct_part.lua`.

use std::sync::LazyLock;

use super::{placement_text, push_charges, push_units};
use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        script::{Script, script},
    },
    domain::{
        activity::Activity,
        ids::{Bucket, Sku},
        order::Placement,
    },
    ports::Deducted,
};

static SCRIPT: LazyLock<Script> = script!("deduct_part");

pub(in crate::adapters::redis) fn call(
    activity: &Activity,
    placement: &Placement,
    bucket: Bucket,
    units: &[(Sku, u32)],
) -> Call {
    let mut args = vec![
        activity.version.to_string(),
        placement.order_no.to_string(),
        placement.lines_hash.as_str().to_owned(),
        placement_text(placement),
    ];
    push_units(&mut args, units.iter().map(|(sku, units)| (sku, *units)));
    push_charges(&mut args, placement, bucket);
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).all(), args)
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Deducted, BadReply> {
    let (outcome, rest) = reply.outcome()?;
    Ok(match outcome {
        "done" => Deducted::Done,
        "short" => Deducted::Short(rest.parsed()?),
        "given_back" => Deducted::GivenBack,
        "frozen" => Deducted::Frozen,
        "limited" => Deducted::Limited,
        "unusable" => Deducted::Unusable,
        "bad_data" => Deducted::BadData,
        _ => return Err(BadReply::Unexpected),
    })
}
