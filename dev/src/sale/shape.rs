//! How many requests of each kind a sale has.

use serde::Serialize;

/// Units of the small SKUs: five in each of eight buckets, one, and two of those that come in carts.
pub const SMALL_STOCK: [u64; 6] = [40, 8, 16, 16, 16, 16];
/// Proportions of the sale that this one is modelled on.
const MODEL_REQUESTS: u64 = 126_000;
const MODEL_BUYERS: u64 = 50_000;
const MODEL_UNITS: u64 = 8_000;
/// Fewest requests that can show the shape.
pub const REQUESTS_MIN: u64 = 1_000;
/// Most requests, so that the plan fits into memory.
pub const REQUESTS_MAX: u64 = 5_000_000;
/// Queries per order: 2.3.
const QUERIES_PER_TEN_ORDERS: u64 = 23;
/// Garbage in a hundred requests.
const GARBAGE_PERCENT: u64 = 2;
/// Buyers in a hundred who click twice, and whose first reply is lost.
const DOUBLE_CLICK_PERCENT: u64 = 3;
const LOST_REPLY_PERCENT: u64 = 2;

/// The requests of a sale by kind. Their sum is exactly what was asked for; requests that a 429 or 503
/// asked to repeat, and those of the last wave, come on top and are counted apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    pub requests: u64,
    /// Different buyers, all of whom ask for a token and an order.
    pub buyers: u64,
    /// Units of the main SKU.
    pub units: u64,
    /// Token requests: one per buyer, and one more per double click.
    pub tokens: u64,
    /// First orders: one per buyer.
    pub orders: u64,
    /// Buyers who send two orders with two tokens at the same time.
    pub double_clicks: u64,
    /// Orders whose client hangs up before the reply and sends the same token again.
    pub lost_replies: u64,
    /// Orders sent again with the same token after their answer.
    pub replays: u64,
    /// Queries: 2.3 for each order that can succeed.
    pub queries: u64,
    pub garbage: u64,
}

impl Shape {
    /// Splits so many requests. What is not given has the proportions of 126,000 requests from 50,000
    /// buyers for 8,000 units.
    ///
    /// # Errors
    /// When the requests do not suffice for a token and an order of each buyer beside queries and
    /// garbage; the text says how many would.
    pub fn of(requests: u64, buyers: Option<u64>, units: Option<u64>) -> Result<Self, String> {
        if !(REQUESTS_MIN..=REQUESTS_MAX).contains(&requests) {
            return Err(format!("--requests must be {REQUESTS_MIN} to {REQUESTS_MAX}"));
        }
        let scaled = |model: u64| (requests * model / MODEL_REQUESTS).max(1);
        let units = units.unwrap_or_else(|| scaled(MODEL_UNITS));
        if buyers == Some(0) || units == 0 {
            return Err("--buyers and --units must be at least 1".to_owned());
        }
        let garbage = requests * GARBAGE_PERCENT / 100;
        let queries_of = |orders: u64| orders * QUERIES_PER_TEN_ORDERS / 10;
        let on_sale = units + SMALL_STOCK.iter().sum::<u64>();
        // A small sale has relatively more units of the small SKUs, and so fewer buyers find room.
        let room = requests.saturating_sub(garbage + queries_of(on_sale)) * 100 / 209;
        let buyers = buyers.unwrap_or_else(|| scaled(MODEL_BUYERS).min(room).max(1));
        let queries = queries_of(on_sale.min(buyers));
        let needed = 2 * buyers + queries + garbage;
        // What is left goes to double clicks, lost replies and, whatever remains, to replays.
        let Some(spare) = requests.checked_sub(needed) else {
            return Err(format!(
                "{requests} requests are too few: {buyers} buyers need {needed}; fewer --buyers, or more --requests"
            ));
        };
        let double_clicks = (buyers * DOUBLE_CLICK_PERCENT / 100).min(spare / 4);
        let lost_replies = (buyers * LOST_REPLY_PERCENT / 100).min(spare / 4);
        let replays = spare - 2 * double_clicks - lost_replies;
        let tokens = buyers + double_clicks;
        Ok(Self {
            requests,
            buyers,
            units,
            tokens,
            orders: buyers,
            double_clicks,
            lost_replies,
            replays,
            queries,
            garbage,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_add_up_to_what_was_asked_for() {
        for (requests, buyers, units) in [
            (126_000, None, None),
            (126_000, Some(50_000), Some(8_000)),
            (20_000, None, None),
            (1_000, None, None),
            (5_000, Some(100), Some(1_000)),
        ] {
            let shape = Shape::of(requests, buyers, units).unwrap();
            let Shape { tokens, orders, double_clicks, lost_replies, replays, queries, garbage, .. } = shape;
            assert_eq!(
                tokens + orders + double_clicks + lost_replies + replays + queries + garbage,
                requests,
                "{shape:?}"
            );
            assert_eq!(garbage, requests / 50);
        }
        let model = Shape::of(126_000, None, None).unwrap();
        assert_eq!((model.buyers, model.units, model.queries), (50_000, 8_000, 18_657));
        assert!(Shape::of(126_000, Some(100_000), None).is_err());
        assert!(Shape::of(10, None, None).is_err());
    }
}
