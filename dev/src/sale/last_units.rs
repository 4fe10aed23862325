//! The last wave: as long as stock is left and buyers without an order remain, they ask.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::buyer::Crowd;
use super::plan::{Ask, SKUS, Want};
use crate::stores::Stores;

/// Most rounds, and how long all of them may take.
const ROUNDS_MAX: u32 = 60;
const TIME_MAX: Duration = Duration::from_mins(3);
/// Buyers who ask for each unit that is left, and most of them in one round.
const BUYERS_PER_UNIT: usize = 2;
const BUYERS_MAX: usize = 600;
/// Between two rounds: units of an unknown outcome come back after some seconds.
const PAUSE: Duration = Duration::from_secs(1);

/// Lets buyers ask until nothing is left or nobody wants it.
///
/// # Errors
/// When the stores cannot be read.
pub async fn sell(crowd: Arc<Crowd>, stores: Stores) -> Result<(), String> {
    let ends = Instant::now() + TIME_MAX;
    // Different buyers each round, as far as there are any.
    let mut turn = 0;
    for _ in 0..ROUNDS_MAX {
        let mut asking = JoinSet::new();
        let available = stores.available(&crowd.activity).await?;
        for (index, sku) in SKUS.iter().enumerate() {
            let left: i64 = available.iter().filter(|((of, _), _)| of == sku).map(|(_, units)| units).sum();
            let mut buyers = crowd.book.without(sku);
            if buyers.is_empty() {
                continue;
            }
            let count = usize::try_from(left).unwrap_or(0).saturating_mul(BUYERS_PER_UNIT).min(BUYERS_MAX);
            let from = turn % buyers.len();
            buyers.rotate_left(from);
            for buyer in buyers.into_iter().take(count) {
                turn += 1;
                crowd.measures.extra("last wave: a token and an order each");
                let crowd = Arc::clone(&crowd);
                asking.spawn(async move { crowd.buy_once(Ask::plain(buyer, Want::only(index))).await });
            }
        }
        if asking.is_empty() || Instant::now() > ends {
            return Ok(());
        }
        while asking.join_next().await.is_some() {}
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}
