//! The scripts as Redis knows them: by the hash of their text.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::stack::StartError;

const RECORDS: &str = include_str!("../../../../lua/include/records.lua");

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("../../../../lua/", $name, ".lua")))),*]
    };
}

/// Text by name, with what several share put in its place.
static SCRIPTS: LazyLock<BTreeMap<&'static str, String>> = LazyLock::new(|| {
    let scripts = scripts![
        "count_token",
        "deduct_part",
        "look_bucket",
        "place_order",
        "preheat_bucket",
        "restock_order",
        "restore_order",
        "sum_bucket",
        "sync_allotment",
        "sync_control",
        "undo_part",
    ];
    scripts.into_iter().map(|(name, text)| (name, text.replacen("-- include: records\n", RECORDS, 1))).collect()
});

/// The whole text of a script.
///
/// # Errors
/// When there is none of this name.
pub(super) fn text_of(name: &str) -> Result<&'static str, StartError> {
    SCRIPTS.get(name).map(String::as_str).ok_or_else(|| format!("there is no script {name}").into())
}

/// The hash by which it is called.
///
/// # Errors
/// When there is none of this name.
pub(super) fn hash_of(name: &str) -> Result<String, StartError> {
    Ok(::redis::Script::new(text_of(name)?).get_hash().to_owned())
}
