//! The small sale: one unit in each of eight buckets, and buyers who all have the same home. Seven of
//! the units are elsewhere, so each of them shows that an empty bucket is not "sold out".

use std::sync::Arc;

use holdfast::domain::ids::{BucketCount, BuyerId};
use tokio::task::JoinSet;

use super::book::buyer_name;
use super::buyer::Crowd;
use super::opening::Opening;
use super::plan::{Ask, Want};
use crate::checks::Check;
use crate::stores::snapshot::Snapshot;

pub const BUCKETS: u16 = 8;
pub const UNITS: u64 = 8;
/// More than units, so that some are told "sold out".
pub const BUYERS: usize = 24;
/// The home of all buyers.
pub const HOME: u16 = 3;
/// Rounds of those who were told "sold out" while two others stood in each other's way.
const ROUNDS_MAX: usize = 5;

/// Opens the sale and lets all buyers ask at once; those who are refused ask again while units are left.
///
/// # Errors
/// When the activity cannot be opened.
pub async fn play(crowd: Arc<Crowd>, opening: Opening) -> Result<(), String> {
    let opens = Arc::clone(&crowd).open(opening).await?;
    tokio::time::sleep_until(opens).await;
    let mut buyers = buyers()?;
    for _ in 0..ROUNDS_MAX {
        let mut asking = JoinSet::new();
        for buyer in buyers {
            let crowd = Arc::clone(&crowd);
            asking.spawn(async move { crowd.buy_once(Ask::plain(buyer, Want::PHONE)).await });
        }
        while asking.join_next().await.is_some() {}
        if u64::try_from(crowd.book.accepted()).unwrap_or(u64::MAX) >= UNITS {
            return Ok(());
        }
        buyers = crowd.book.without(Want::PHONE.skus()[0]);
    }
    Ok(())
}

/// The first buyers whose home is [`HOME`].
fn buyers() -> Result<Vec<u32>, String> {
    let buckets = BucketCount::new(BUCKETS).map_err(|error| error.to_string())?;
    let at_home = |buyer: &u32| BuyerId::parse(&buyer_name(*buyer)).is_ok_and(|id| id.home(buckets).get() == HOME);
    Ok((0..u32::MAX).filter(at_home).take(BUYERS).collect())
}

/// Sold to the last unit, each from its own bucket, all to buyers of one home.
pub(super) fn sold_out(snapshot: &Snapshot) -> Check {
    let mut violations: Vec<String> = Vec::new();
    for ((sku, bucket), item) in snapshot.stock.iter().filter(|(_, item)| item.available != 0) {
        violations.push(format!("{} {sku} left in bucket {bucket}", item.available));
    }
    for (order_no, order) in snapshot.committed().filter(|(_, order)| order.home != Some(HOME)) {
        violations.push(format!("{order_no} has its home in {:?}", order.home));
    }
    let sold: u64 = snapshot.live_units().values().sum();
    let numbers = format!("{sold} of {UNITS} units in {BUCKETS} buckets sold to buyers of bucket {HOME}");
    Check::new("one home", "buyers of one bucket get the stock of all", numbers, violations)
}
