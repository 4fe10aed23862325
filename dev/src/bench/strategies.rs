//! One hot SKU: Redis in front of the database, beside the database alone.

use std::time::Duration;

use serde_json::json;

use super::load::{Crowd, Got, Until, ask};
use super::ratio::{Aim, Row, median};
use super::shop::Shop;
use super::{Options, Section};
use crate::sale::Clients;
use crate::sale::client::Client;
use crate::stack::{Stack, StartError};

const BUCKETS: u16 = 8;
/// Buyers who want each unit.
const BUYERS_PER_UNIT: u32 = 10;
/// Units in proportion to those of the sale to the last unit.
const PART_OF_UNITS: u32 = 10;
/// Buyers who ask at once.
const AT_ONCE: usize = 64;
const CONNECTIONS: usize = 2 * AT_ONCE;
const LIMIT: Duration = Duration::from_mins(3);
const STRATEGIES: [&str; 2] = ["prededuct", "cas"];

/// Orders a second of one strategy, per round.
#[derive(Default)]
struct Rates {
    answered: Vec<f64>,
    sold: Vec<f64>,
}

pub async fn measure(stack: &Stack, clients: &Clients, options: &Options) -> Result<Section, StartError> {
    let units = (options.units / PART_OF_UNITS).max(10);
    let buyers = units * BUYERS_PER_UNIT;
    let mut rates = [Rates::default(), Rates::default()];
    for round in 0..options.rounds {
        for turn in 0..STRATEGIES.len() {
            // Turn about.
            let index = (turn + usize::try_from(round)?) % STRATEGIES.len();
            let (strategy, rates) = (STRATEGIES[index], &mut rates[index]);
            let fields = json!({ "buckets": BUCKETS, "strategy": strategy });
            let scarce = Shop::open(stack, &format!("hot-{strategy}-{round}"), u64::from(units), &fields).await?;
            let crowd = Crowd { at_once: AT_ONCE, until: Until::Asked(buyers), limit: LIMIT };
            let got: Got = clients.run(ask(Client::new(stack.address(), CONNECTIONS), scarce, crowd)).await??;
            rates.answered.push(f64::from(buyers) / got.took.as_secs_f64());
            let ample = Shop::open(stack, &format!("ample-{strategy}-{round}"), u64::from(buyers), &fields).await?;
            let crowd = Crowd { until: Until::Asked(units), ..crowd };
            let got: Got = clients.run(ask(Client::new(stack.address(), CONNECTIONS), ample, crowd)).await??;
            rates.sold.push(f64::from(units) / got.took.as_secs_f64());
        }
    }
    let [prededuct, cas] = rates;
    let beside = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one / other).collect();
    let hot = format!("prededuct / cas, one hot SKU, {BUYERS_PER_UNIT} buyers a unit, answers a second");
    let each = |rates: &[f64]| median(rates).unwrap_or(f64::NAN);
    Ok(Section {
        rows: vec![
            Row::new(&hot, beside(&prededuct.answered, &cas.answered), Aim::AtLeast(3.0))?,
            Row::new("prededuct / cas, stock for everybody", beside(&prededuct.sold, &cas.sold), Aim::Nothing)?,
        ],
        notes: vec![format!(
            "{buyers} buyers, {AT_ONCE} at once, {units} units in {BUCKETS} buckets, {} ms added to each database call: \
             {:.0} and {:.0} answers a second; with stock for everybody {:.0} and {:.0}",
            options.latency.as_millis(),
            each(&prededuct.answered),
            each(&cas.answered),
            each(&prededuct.sold),
            each(&cas.sold),
        )],
    })
}
