//! The twins of the Lua scripts: each builds the keys and arguments of one, and reads its outcomes.

pub(super) mod count_token;
pub(super) mod deduct_part;
pub(super) mod look_bucket;
pub(super) mod mark_bucket;
pub(super) mod place_order;
pub(super) mod preheat_bucket;
pub(super) mod read_bucket;
pub(super) mod release_lock;
pub(super) mod renew_lock;
pub(super) mod restock_order;
pub(super) mod restore_order;
pub(super) mod sum_bucket;
pub(super) mod sync_allotment;
pub(super) mod sync_control;
pub(super) mod undo_part;

use super::keys::mark_field;
use crate::domain::{
    activity::Activity,
    ids::{Bucket, Sku},
    order::Placement,
    stock::Allotment,
    time::UnixMillis,
};

/// The placement as it travels in a record.
pub(in crate::adapters::redis) fn placement_text(placement: &Placement) -> String {
    // A placement has nothing that could fail to be written; an empty one would be refused as bad data.
    serde_json::to_string(placement).unwrap_or_default()
}

/// The fields of the buyer's marks that this order counts in, where this bucket is the buyer's home.
pub(in crate::adapters::redis) fn mark_fields(placement: &Placement, bucket: Bucket) -> Vec<String> {
    if placement.home == bucket {
        placement.charges.iter().map(|charge| mark_field(&charge.scope, &placement.buyer)).collect()
    } else {
        Vec::new()
    }
}

/// The same fields, each followed by the units charged there.
fn push_charges(args: &mut Vec<String>, placement: &Placement, bucket: Bucket) {
    for (field, charge) in mark_fields(placement, bucket).into_iter().zip(&placement.charges) {
        args.extend([field, charge.units.to_string()]);
    }
}

/// The number of SKUs, then each with its units.
fn push_units<'a>(args: &mut Vec<String>, units: impl ExactSizeIterator<Item = (&'a Sku, u32)>) {
    args.push(units.len().to_string());
    for (sku, units) in units {
        args.extend([sku.to_string(), units.to_string()]);
    }
}

fn push_allotments(args: &mut Vec<String>, allotments: &[Allotment]) {
    for allotment in allotments {
        args.extend([
            allotment.sku.to_string(),
            allotment.allotted.to_string(),
            allotment.version.to_string(),
            switch(allotment.on_sale),
        ]);
    }
}

/// Version, window and rate of a configuration, and until when the keys must live.
fn control_args(activity: &Activity, now: UnixMillis) -> Vec<String> {
    vec![
        activity.version.to_string(),
        activity.window.starts_at.get().to_string(),
        activity.window.ends_at.get().to_string(),
        activity.bucket_rate.to_string(),
        activity.stock_keys_expire_at().get().to_string(),
        activity.marks_expire_at(now).get().to_string(),
    ]
}

fn switch(on: bool) -> String {
    if on { "1" } else { "0" }.to_owned()
}
