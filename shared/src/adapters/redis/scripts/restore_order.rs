//! Twin of `lua/restore_order.lua`.

use std::sync::LazyLock;

use super::{mark_fields, placement_text, push_charges, push_units};
use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::BucketKeys,
        known::Known,
        script::{Script, script},
    },
    domain::{
        activity::Activity,
        ids::{Bucket, Sku},
        order::{Part, Placement, Take},
    },
    ports::Restored,
};

static SCRIPT: LazyLock<Script> = script!("restore_order");

pub(in crate::adapters::redis) fn call(
    activity: &Activity,
    placement: &Placement,
    bucket: Bucket,
    take: Take,
    parts: &[Part],
    known: Known,
) -> Call {
    let units = held(placement, bucket, parts);
    let mut args = vec![
        placement.order_no.to_string(),
        take.get().to_string(),
        placement.lines_hash.as_str().to_owned(),
        placement_text(placement),
        known.placement,
    ];
    let own = mark_fields(placement, bucket);
    let others: Vec<_> = known.marks.into_iter().filter(|mark| !own.contains(mark)).collect();
    args.push(others.len().to_string());
    args.extend(others);
    push_units(&mut args, units.iter().map(|(sku, units)| (*sku, *units)));
    push_charges(&mut args, placement, bucket);
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).all(), args)
}

/// Units per SKU in this bucket: of every line at home, 0 included; elsewhere of what is held only.
fn held<'a>(placement: &'a Placement, bucket: Bucket, parts: &'a [Part]) -> Vec<(&'a Sku, u32)> {
    let mut units = std::collections::BTreeMap::new();
    if bucket == placement.home {
        units.extend(placement.lines.iter().map(|line| (&line.sku, 0)));
    }
    for part in parts.iter().filter(|part| part.bucket == bucket) {
        *units.entry(&part.sku).or_default() += part.units;
    }
    units.into_iter().collect()
}

/// `None`: the record's placement is neither this one nor what was known.
pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Option<Restored>, BadReply> {
    let (outcome, rest) = reply.outcome()?;
    Ok(Some(match outcome {
        "done" => Restored::Done { delta: rest.number()? },
        "already" => Restored::Already,
        "no_stock" => Restored::NoStock,
        "bad_data" => Restored::BadData,
        "changed" => return Ok(None),
        _ => return Err(BadReply::Unexpected),
    }))
}
