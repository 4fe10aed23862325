//! From full to the last unit: the sale does not get slow while its buckets run empty.

use std::time::Duration;

use serde_json::json;

use super::load::{Crowd, Got, Until, ask};
use super::ratio::{Aim, Row, TENTHS, beside_the_first, median, tenths};
use super::shop::Shop;
use super::{Options, Section};
use crate::sale::Clients;
use crate::sale::client::Client;
use crate::stack::{Stack, StartError};

/// As many as there are buyers at once. A stock item takes one transaction at a time, so what a sale can do falls
/// with the buckets that are not empty; with fewer of them this would show that, and not what looking for another one
/// costs.
const BUCKETS: u16 = 32;
const AT_ONCE: usize = 32;
/// Those who come back need connections too.
const CONNECTIONS: usize = 2 * AT_ONCE;
const LIMIT: Duration = Duration::from_mins(3);
/// A fifth under the first tenths.
const AIM: Aim = Aim::AtLeast(0.8);

pub async fn measure(stack: &Stack, clients: &Clients, options: &Options) -> Result<Section, StartError> {
    let mut rounds: Vec<[f64; TENTHS]> = Vec::new();
    let (mut first, mut refused, mut again, mut last) = (Vec::new(), 0, 0, Vec::new());
    for round in 0..options.rounds {
        let name = format!("last-unit-{round}");
        let shop = Shop::open(stack, &name, u64::from(options.units), &json!({ "buckets": BUCKETS })).await?;
        let until = Until::Sold(usize::try_from(options.units)?);
        let crowd = Crowd { at_once: AT_ONCE, until, limit: LIMIT };
        let client = Client::new(stack.address(), CONNECTIONS);
        let got: Got = clients.run(ask(client, shop, crowd)).await??;
        let rates = tenths(&got.sold_at).ok_or("too few units to see a rate")?;
        rounds.push(beside_the_first(&rates));
        first.push(rates[0]);
        last.push(last_hundredth(&got.sold_at));
        refused += got.refused;
        again += got.again;
    }
    let of = |tenth: usize| -> Vec<f64> { rounds.iter().map(|round| round[tenth]).collect() };
    let medians: Vec<f64> = (0..TENTHS).filter_map(|tenth| median(&of(tenth))).collect();
    let slowest = (0..TENTHS).min_by(|one, other| medians[*one].total_cmp(&medians[*other])).unwrap_or(0);
    let name = format!("orders a second, slowest tenth of the stock ({}.) / first half", slowest + 1);
    let shown: Vec<String> = medians.iter().map(|median| format!("{median:.2}")).collect();
    Ok(Section {
        rows: vec![Row::new(&name, of(slowest), AIM)?],
        notes: vec![
            format!("each tenth beside the median of the first five, medians of the rounds: {}", shown.join(" ")),
            format!(
                "the last hundredth of the units took {:.0} % of the time, median of the rounds",
                100.0 * median(&last).unwrap_or(f64::NAN)
            ),
            format!(
                "{} units in {BUCKETS} buckets, {AT_ONCE} buyers at once, {:.0} orders a second in the first tenth; {} \
                 refused and {} sent again in all rounds; {} ms added to each database call",
                options.units,
                median(&first).unwrap_or(f64::NAN),
                refused,
                again,
                options.latency.as_millis(),
            ),
        ],
    })
}

/// The part of the time in which the last hundredth of the units was sold: a hundredth, if nothing holds it up.
fn last_hundredth(sold_at: &[Duration]) -> f64 {
    let mut sorted = sold_at.to_vec();
    sorted.sort_unstable();
    let before = sorted.len().checked_sub(sorted.len().div_ceil(100) + 1).and_then(|index| sorted.get(index));
    match (before, sorted.last()) {
        (Some(before), Some(last)) => 1.0 - before.div_duration_f64(*last),
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hundredth_has_its_part_of_the_time() {
        let mut sold_at: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert!((last_hundredth(&sold_at) - 0.01).abs() < 1e-9);
        // The very last one comes when as much time again has passed.
        sold_at[199] = Duration::from_millis(396);
        assert!((last_hundredth(&sold_at) - 0.5).abs() < 1e-9);
        assert!((last_hundredth(&[]) - 1.0).abs() < 1e-9);
    }
}
