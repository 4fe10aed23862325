//! Twin of `lua/place_order.lua`.

use std::sync::LazyLock;

use super::{placement_text, push_charges, push_units, switch};
use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply, Texts},
        keys::BucketKeys,
        script::{Script, script},
    },
    domain::{limit::PLACEMENTS_MAX, order_no::OrderNo, record::Record},
    ports::{GateRefusal, PlaceAnswer, PlaceCall},
};

static SCRIPT: LazyLock<Script> = script!("place_order");

pub(in crate::adapters::redis) fn call(place: PlaceCall<'_>) -> Call {
    let PlaceCall { activity, placement, look } = place;
    let mut args = vec![
        activity.version.to_string(),
        activity.window.starts_at.get().to_string(),
        placement.order_no.to_string(),
        switch(look),
        placement.lines_hash.as_str().to_owned(),
        placement_text(placement),
        activity.limit.max.to_string(),
        PLACEMENTS_MAX.to_string(),
    ];
    push_units(&mut args, placement.lines.iter().map(|line| (&line.sku, line.quantity.get())));
    push_charges(&mut args, placement, placement.home);
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, placement.home).all(), args)
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<PlaceAnswer, BadReply> {
    let (outcome, rest) = reply.outcome()?;
    Ok(match outcome {
        "memory_lost" => PlaceAnswer::MemoryLost,
        "configuration_changed" => PlaceAnswer::ConfigurationChanged,
        "bad_data" => PlaceAnswer::BadData,
        "replayed" => replayed(rest)?,
        "mismatch" => PlaceAnswer::Mismatch,
        "given_back" => PlaceAnswer::GivenBack,
        "not_started" => PlaceAnswer::Refused(GateRefusal::NotStarted),
        "ended" => PlaceAnswer::Refused(GateRefusal::Ended),
        "frozen" => PlaceAnswer::Refused(GateRefusal::Frozen),
        "limited" => PlaceAnswer::Refused(GateRefusal::Limited),
        "limit_reached" => {
            let orders: Result<_, _> = rest.texts()?.into_iter().map(OrderNo::parse).collect();
            // The mark names something that is no order number.
            orders.map_or(PlaceAnswer::BadData, |orders| PlaceAnswer::Refused(GateRefusal::LimitReached(orders)))
        }
        "short" => PlaceAnswer::Short(rest.parsed()?),
        "admitted" => PlaceAnswer::Admitted(rest.parsed()?),
        _ => return Err(BadReply::Unexpected),
    })
}

/// The script reads a record but for its placement, which is read here.
fn replayed(rest: Texts<'_>) -> Result<PlaceAnswer, BadReply> {
    Ok(match Record::parse(rest.one()?) {
        Ok(record) if record.placement.is_some() => PlaceAnswer::Replayed(Box::new(record)),
        _ => PlaceAnswer::BadData,
    })
}
