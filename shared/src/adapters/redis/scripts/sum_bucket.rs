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

/// Fields that one call reads, about: a few milliseconds of Redis's time.
pub(in crate::adapters::redis) const PAGE_FIELDS: usize = 2_000;

/// How far adding up has come, as the script told it and takes it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::adapters::redis) struct SoFar(Vec<String>);

impl SoFar {
    pub fn begin() -> Self {
        Self(["0", "", "0", "0"].map(str::to_owned).to_vec())
    }
}

/// What one page comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::adapters::redis) enum Page {
    Next(SoFar),
    /// A record changed since the first page.
    Moved,
    Sums(Vec<SumCheck>),
}

pub(in crate::adapters::redis) fn call(
    activity: &Activity,
    bucket: Bucket,
    repair: bool,
    page_fields: usize,
    so_far: SoFar,
) -> Call {
    let mut args = vec![switch(repair), page_fields.to_string()];
    args.extend(so_far.0);
    Call::script(&SCRIPT, BucketKeys::new(&activity.id, bucket).all(), args).slow()
}

pub(in crate::adapters::redis) fn parse(reply: &Reply) -> Result<Page, BadReply> {
    match reply.outcome()? {
        ("page", rest) => Ok(Page::Next(SoFar(rest.texts()?.into_iter().map(str::to_owned).collect()))),
        ("moved", _) => Ok(Page::Moved),
        ("sums", rest) => sums(&rest.texts()?).map(Page::Sums),
        ("bad_data", _) => Err(BadReply::BadData),
        _ => Err(BadReply::Unexpected),
    }
}

fn sums(texts: &[&str]) -> Result<Vec<SumCheck>, BadReply> {
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
