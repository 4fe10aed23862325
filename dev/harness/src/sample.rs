//! Activities for tests and the runner.

use holdfast::{
    domain::time::UnixMillis,
    ports::{Clock as _, SystemClock},
};
use serde_json::{Value, json};

/// The body of a `PUT` of an activity that runs from a minute ago for an hour: one SKU of this stock,
/// and the rest as most tests want it. Change fields with [`with`].
#[must_use]
pub fn activity(sku: &str, stock: u64) -> Value {
    json!({
        "name": "Test sale", "starts_at": minutes_from_now(-1), "ends_at": minutes_from_now(59),
        "time_zone": "Europe/Berlin", "strategy": "prededuct", "buckets": 4, "bucket_rate": 500,
        "limit": {"scope": "activity", "max": 1}, "on_cancel": "release", "payment_minutes": 15, "currency": "EUR",
        "skus": [{"sku": sku, "stock": stock, "price": 49_900}]
    })
}

/// The same body with these top-level fields instead.
#[must_use]
pub fn with(mut body: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().into_iter().flatten() {
        body[name] = value.clone();
    }
    body
}

/// RFC 3339.
#[must_use]
pub fn minutes_from_now(minutes: i64) -> String {
    let now: UnixMillis = SystemClock.now();
    now.plus_ms(minutes * 60_000).to_string()
}
