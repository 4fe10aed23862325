//! Twin of `lua/read_bucket.lua`.

use std::{
    collections::{BTreeMap, BTreeSet},
    str::FromStr,
    sync::LazyLock,
};

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
    let fields: BTreeMap<&str, &str> = pairs.iter().map(|[field, value]| (*field, *value)).collect();
    let configuration = fields.contains_key("@version").then(|| number(&fields, "@version")).transpose()?;
    let skus: BTreeSet<&str> = fields.keys().filter_map(|field| field.split_once(':')).map(|(_, sku)| sku).collect();
    let skus = skus.into_iter().map(|sku| sku_state(&fields, sku)).collect::<Result<_, _>>()?;
    Ok(BucketState { present, configuration, skus })
}

fn sku_state(fields: &BTreeMap<&str, &str>, sku: &str) -> Result<SkuState, BadReply> {
    let field = |name: &str| format!("{name}:{sku}");
    Ok(SkuState {
        sku: Sku::parse(sku).map_err(|_| BadReply::BadData)?,
        stock: number(fields, &field("free"))?,
        sold: number(fields, &field("sold"))?,
        allotted: number(fields, &field("allotted"))?,
        version: number(fields, &field("version"))?,
        on_sale: match fields.get(field("on_sale").as_str()) {
            Some(&"1") => true,
            Some(&"0") => false,
            _ => return Err(BadReply::BadData),
        },
    })
}

fn number<T: FromStr>(fields: &BTreeMap<&str, &str>, field: &str) -> Result<T, BadReply> {
    fields.get(field).and_then(|value| value.parse().ok()).ok_or(BadReply::BadData)
}
