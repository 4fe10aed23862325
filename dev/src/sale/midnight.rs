//! The small sale over midnight: two units per buyer and day, sold by functions whose clock comes to midnight, in a
//! time zone of quarter hours, while everybody orders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use holdfast::domain::time::{UnixMillis, Zone};
use holdfast::ports::{Clock as _, SystemClock};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::buyer::Crowd;
use super::opening::Opening;
use super::plan::{Ask, Want};
use crate::checks::{Answer, Check};
use crate::stores::snapshot::Snapshot;

pub const ZONE: &str = "Asia/Kathmandu";
pub const BUCKETS: u16 = 4;
pub const BUYERS: u32 = 40;
pub const PER_DAY: u64 = 2;
/// Fewer than all buyers may have on two days, so that it sells out on the second.
pub const UNITS: u64 = 150;
/// From now to the functions' midnight: preheating, the time before the start, and some of the old day.
const UNTIL_MIDNIGHT: Duration = Duration::from_secs(9);
/// Orders of the old day are sent until so long before midnight, and one of each buyer about as near to it.
const NEAR: Duration = Duration::from_millis(500);
/// How long orders of one day are spread over.
const SPREAD_MS: u64 = 3_000;
/// Midnights nearer than this are left out: the clock would have to go back for them.
const NEXT_DAY_MS: i64 = 60_000;
const DAY_MS: i64 = 86_400_000;
/// Rounds in which buyers who may have more ask for what is left.
const ROUNDS_MAX: usize = 5;

/// How far ahead the functions' clock has to be, and when it is midnight there.
///
/// # Errors
/// Never: the zone is one that exists.
pub fn ahead() -> Result<(i64, Instant), String> {
    let zone = Zone::parse(ZONE).map_err(|error| error.to_string())?;
    let wait_ms = i64::try_from(UNTIL_MIDNIGHT.as_millis()).unwrap_or(0);
    let (now, starts) = (SystemClock.now(), Instant::now());
    let earliest = now.plus_ms(wait_ms + NEXT_DAY_MS);
    let new_day = |at: UnixMillis| zone.business_date(at) != zone.business_date(earliest);
    // A day has no more than so many seconds, and midnight is a whole one.
    let seconds = (0..2 * DAY_MS / 1_000).map(|second| earliest.plus_ms(second * 1_000 - earliest.get() % 1_000));
    let midnight = seconds.into_iter().find(|at| new_day(*at)).ok_or("no midnight")?;
    Ok((midnight.since_ms(now) - wait_ms, starts + UNTIL_MIDNIGHT))
}

/// Opens the sale; everybody takes what the old day allows, tries once more about midnight, and takes what the new
/// day allows.
///
/// # Errors
/// When the activity cannot be opened.
pub async fn play(crowd: Arc<Crowd>, opening: Opening, midnight: Instant) -> Result<(), String> {
    let opens = Arc::clone(&crowd).open(opening).await?;
    let mut buying = JoinSet::new();
    for buyer in 0..BUYERS {
        buying.spawn(buy(Arc::clone(&crowd), buyer, opens, midnight));
    }
    while buying.join_next().await.is_some() {}
    for _ in 0..ROUNDS_MAX {
        let mut asking = JoinSet::new();
        for buyer in 0..BUYERS {
            let crowd = Arc::clone(&crowd);
            asking.spawn(async move { crowd.buy_once(Ask::plain(buyer, Want::PHONE)).await });
        }
        let mut refused_all = true;
        while let Some(answer) = asking.join_next().await {
            refused_all &= matches!(answer, Ok(Answer::Refused(_)));
        }
        if refused_all {
            break;
        }
    }
    Ok(())
}

async fn buy(crowd: Arc<Crowd>, buyer: u32, opens: Instant, midnight: Instant) {
    let ask = Ask::plain(buyer, Want::PHONE);
    let mut random = fastrand::Rng::with_seed(u64::from(buyer));
    let mut some_ms = |most: u64| Duration::from_millis(random.u64(..most));
    let mut first = None;
    for _ in 0..PER_DAY {
        tokio::time::sleep_until((opens + some_ms(SPREAD_MS)).min(midnight - NEAR)).await;
        let Some(token) = crowd.take_token(buyer).await else { return };
        crowd.submit(ask, &token).await;
        first = first.or(Some(token));
    }
    // On either side of midnight, as it comes: the day is the one in which it is admitted.
    tokio::time::sleep_until(midnight - NEAR + some_ms(1_000)).await;
    crowd.buy_once(ask).await;
    tokio::time::sleep_until(midnight + NEAR + some_ms(SPREAD_MS)).await;
    // The same submission again is the order of yesterday.
    if let Some(token) = &first {
        crowd.submit(ask, token).await;
    }
    for _ in 0..PER_DAY {
        crowd.buy_once(ask).await;
    }
}

/// Sold to the last unit on two days, or everybody has what the second day allows.
pub(super) fn two_days(snapshot: &Snapshot) -> Check {
    let mut days: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for order in snapshot.orders.values().filter(|order| order.is_live()) {
        for (scope, units) in &order.charges {
            let buyer = order.buyer.as_deref().unwrap_or_default();
            *days.entry(scope).or_default().entry(buyer).or_default() += u64::from(*units);
        }
    }
    let mut violations: Vec<String> = Vec::new();
    if days.len() != 2 {
        violations.push(format!("{} days were sold on, not 2", days.len()));
    }
    let left: i64 = snapshot.stock.values().map(|item| item.available).sum();
    if let Some((day, buyers)) = days.last_key_value()
        && left > 0
        && buyers.values().sum::<u64>() < PER_DAY * u64::from(BUYERS)
    {
        violations.push(format!("{left} units are left, and not everybody has {PER_DAY} of {day}"));
    }
    let of_day = |(day, buyers): (&&str, &BTreeMap<&str, u64>)| {
        let most = buyers.values().max().copied().unwrap_or(0);
        format!("{} units on {day} to {} buyers, at most {most} each", buyers.values().sum::<u64>(), buyers.len())
    };
    let numbers = days.iter().map(of_day).collect::<Vec<_>>().join("; ");
    Check::new("midnight", "a limit per day begins anew at midnight and not before", numbers, violations)
}
