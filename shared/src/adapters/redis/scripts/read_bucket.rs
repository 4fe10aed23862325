//! Twin of `lua/read_bucket.lua`.

use std::sync::LazyLock;

use crate::{
    adapters::redis::{
        call::{BadReply, Call, Reply},
        keys::{ADMITTED, BucketKeys, CONTROL},
        script::{Script, script},
    },
    domain::{
        activity::Activity,
        ids::{Bucket, Sku},
    },
    ports::{BucketState, SkuState},
};

static SCRIPT: LazyLock<Script> = script!("read_bucket");

pub(in crate::adapters::redis) fn call(activity: &Activity, bucket: Bucket) -> Call {
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).read(), Vec::new())
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<BucketState, BadReply> {
    let (outcome, rest) = reply.outcome()?;
    let present = match outcome {
        "present" => true,
        "gone" => false,
        "bad_data" => return Err(BadReply::BadData),
        _ => return Err(BadReply::Unexpected),
    };
    let texts = rest.texts()?;
    let (pairs, []) = texts.as_chunks::<2>() else {
        return Err(BadReply::Unexpected);
    };
    let mut state = BucketState { present, ..BucketState::default() };
    for [field, text] in pairs {
        match *field {
            CONTROL => {
                let version = text.split('|').next().unwrap_or_default();
                state.configuration = Some(version.parse().map_err(|_| BadReply::BadData)?);
            }
            ADMITTED => {}
            sku => state.skus.push(sku_state(sku, text).ok_or(BadReply::BadData)?),
        }
    }
    state.skus.sort_by(|a, b| a.sku.cmp(&b.sku));
    Ok(state)
}

/// `free|sold|on sale|allotted|version`.
fn sku_state(sku: &str, text: &str) -> Option<SkuState> {
    let fields: Vec<&str> = text.split('|').collect();
    let [free, sold, on_sale, allotted, version] = fields[..] else {
        return None;
    };
    Some(SkuState {
        sku: Sku::parse(sku).ok()?,
        stock: free.parse().ok()?,
        sold: sold.parse().ok()?,
        allotted: allotted.parse().ok()?,
        version: version.parse().ok()?,
        on_sale: match on_sale {
            "1" => true,
            "0" => false,
            _ => return None,
        },
    })
}
