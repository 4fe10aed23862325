//! What an operator does before a sale, over HTTP.

use std::sync::Arc;
use std::time::Duration;

use hyper::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::buyer::Crowd;
use super::client::Call;
use super::plan::{COUPONS, DISCOUNT, SKUS};
use super::shape::{SMALL_STOCK, Shape};
use super::{midnight, one_home};
use crate::report::Settings;

/// From the end of preheating to the start.
const LEAD: Duration = Duration::from_secs(2);
/// Preheating is asked for so often until it is complete.
const PREHEATS_MAX: u32 = 10;
/// A buyer of whom nothing else is heard.
const PROBE: u32 = 2_000_000_000;
/// Of one unit of each SKU.
pub const PRICES: [u64; 7] = [49_900, 1_900, 500, 900, 2_400, 1_200, 1_500];
/// Time to pay.
pub const PAYMENT_MINUTES: i64 = 60;

/// An activity to be opened.
pub struct Opening {
    body: Value,
    /// How many coupons are issued for it.
    coupons: u16,
    /// How far the clock of its functions is ahead of this machine's, in milliseconds.
    ahead_ms: i64,
}

impl Opening {
    /// The sale itself: one unit of each SKU per buyer.
    #[must_use]
    pub fn sale(settings: &Settings, shape: &Shape) -> Self {
        let stock = std::iter::once(shape.units).chain(SMALL_STOCK);
        let skus = SKUS.iter().zip(stock).zip(PRICES);
        let skus: Vec<Value> =
            skus.map(|((sku, stock), price)| json!({ "sku": sku, "stock": stock, "price": price })).collect();
        let limit = json!({ "scope": "sku", "max": 1 });
        Self { coupons: COUPONS, ..Self::new(settings, settings.buckets, &limit, &json!(skus)) }
    }

    /// Two units per buyer and day, by functions whose clock comes to midnight while it runs.
    #[must_use]
    pub fn midnight(settings: &Settings, ahead_ms: i64) -> Self {
        let skus = json!([{ "sku": SKUS[0], "stock": midnight::UNITS, "price": PRICES[0] }]);
        let limit = json!({ "scope": "day", "max": midnight::PER_DAY });
        let mut opening = Self::new(settings, midnight::BUCKETS, &limit, &skus);
        opening.body["time_zone"] = json!(midnight::ZONE);
        Self { ahead_ms, ..opening }
    }

    /// One unit in each of eight buckets.
    #[must_use]
    pub fn one_home(settings: &Settings) -> Self {
        let skus = json!([{ "sku": SKUS[0], "stock": one_home::UNITS, "price": PRICES[0] }]);
        Self::new(settings, one_home::BUCKETS, &json!({ "scope": "sku", "max": 1 }), &skus)
    }

    fn new(settings: &Settings, buckets: u16, limit: &Value, skus: &Value) -> Self {
        Self {
            body: json!({
                "name": "Local sale", "time_zone": "Europe/Berlin", "strategy": settings.strategy,
                "buckets": buckets, "bucket_rate": settings.bucket_rate, "limit": limit,
                "on_cancel": "release", "payment_minutes": PAYMENT_MINUTES, "currency": "EUR", "skus": skus,
            }),
            coupons: 0,
            ahead_ms: 0,
        }
    }
}

impl Crowd {
    /// Creates and preheats the activity, and takes one token; answers when it starts.
    ///
    /// # Errors
    /// The answer that was not expected.
    pub async fn open(self: Arc<Self>, opening: Opening) -> Result<Instant, String> {
        let now = Timestamp::now();
        let groups = ["operator".to_owned()];
        let operator = self.authorizer.login("operator", &groups, now.as_second());
        let path = format!("/v1/admin/activities/{}", self.activity);
        let mut body = opening.body;
        // Rounded to milliseconds, as the activity keeps it.
        let starts_ms = now.as_millisecond() + i64::try_from(LEAD.as_millis()).unwrap_or(0);
        let time = |ms| Timestamp::from_millisecond(ms).map(|time| time.to_string()).map_err(|error| error.to_string());
        body["starts_at"] = json!(time(starts_ms)?);
        body["ends_at"] = json!(time(starts_ms + opening.ahead_ms + 4 * 3_600_000)?);
        let create = Call {
            method: Method::PUT,
            header: Some(("if-none-match", "*".to_owned())),
            ..Call::post(path.clone(), &operator, body.to_string())
        };
        self.expect(&create, 201).await?;
        self.issue_coupons(opening.coupons, &operator).await?;
        let preheat = Call::post(format!("{path}/preheat"), &operator, "{}".to_owned());
        for _ in 0..PREHEATS_MAX {
            if self.expect(&preheat, 200).await?["complete"] == true {
                self.probe(now).await?;
                let left_ms = starts_ms - Timestamp::now().as_millisecond();
                return Ok(Instant::now() + Duration::from_millis(u64::try_from(left_ms).unwrap_or(0)));
            }
        }
        Err("preheating did not complete".to_owned())
    }

    async fn issue_coupons(&self, count: u16, operator: &str) -> Result<(), String> {
        if count == 0 {
            return Ok(());
        }
        let body = json!({ "count": count, "discount": DISCOUNT }).to_string();
        let call = Call::post(format!("/v1/admin/activities/{}/coupons", self.activity), operator, body);
        let issued = self.expect(&call, 201).await?;
        let codes = issued["coupons"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        self.coupons.set(codes.collect()).map_err(|_| "coupons were issued twice".to_owned())
    }

    /// One token, so that there is one from the first garbage on.
    async fn probe(&self, now: Timestamp) -> Result<(), String> {
        let access_token = self.authorizer.login(&super::book::buyer_name(PROBE), &[], now.as_second());
        let call = Call::post(format!("/v1/activities/{}/tokens", self.activity), &access_token, "{}".to_owned());
        let token = self.expect(&call, 201).await?["token"].as_str().unwrap_or_default().to_owned();
        *self.last_token.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = (PROBE, token);
        Ok(())
    }

    async fn expect(&self, call: &Call, status: u16) -> Result<Value, String> {
        let what = format!("{} {}", call.method, call.path);
        let reply = self.client.call(call).await.map_err(|_| format!("{what} was not answered"))?;
        if reply.status == status { Ok(reply.body) } else { Err(format!("{what}: {} {}", reply.status, reply.body)) }
    }
}
