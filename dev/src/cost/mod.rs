//! What an order costs: calls, units and bytes as they are measured on a stack, and dollars by the price file.

mod meter;
mod outcomes;
pub(crate) mod prices;
mod tally;

use std::time::Duration;

pub use meter::{LogBytes, Meter};
pub use outcomes::{Outcome, Outcomes, measure};
pub use tally::{Bill, Tally};

use crate::stack::{Stack, StackOptions, StartError};
use prices::Prices;

/// Schedules are not part of what is measured.
const NEVER: Duration = Duration::from_hours(24);
const HOURS_A_MONTH: f64 = 730.0;
/// The template's defaults: three shards with a replica each; two interface endpoints in two zones.
const REDIS_NODES: f64 = 6.0;
const ENDPOINTS: f64 = 4.0;

/// Whole lives: what a buyer does from the first call to the last.
const LIVES: [(&str, &[Outcome]); 5] = [
    ("a paid order: token, placed, paid", &[Outcome::Token, Outcome::Placed, Outcome::Paid]),
    ("an expired order: token, placed, expired", &[Outcome::Token, Outcome::Placed, Outcome::Expired]),
    ("a cancelled order: token, placed, cancelled", &[Outcome::Token, Outcome::Placed, Outcome::Cancelled]),
    ("a refusal, sold out: token, refused", &[Outcome::Token, Outcome::SoldOut]),
    ("the same with a token that was used before", &[Outcome::SoldOut]),
];

/// Measures and tells.
///
/// # Errors
/// When the stack does not start, or something is answered in another way than it should be.
pub async fn run(times: u32, latency: Duration) -> Result<String, StartError> {
    let (prices, sources) = prices::read()?;
    let stack = Stack::start(StackOptions {
        port: 0,
        latency,
        redis_url: None,
        redis_deadline_ms: 1_000,
        reconcile_every: NEVER,
        fulfil: true,
    })
    .await?;
    let measured = async {
        let meter = Meter::start(&stack, LogBytes::start()).await?;
        Ok::<_, StartError>([measure(&stack, &meter, times, 1).await?, measure(&stack, &meter, times, 64).await?])
    };
    let measured = measured.await;
    stack.stop().await;
    let [one, many] = measured?;
    let mut lines = table(&one, &prices);
    lines.push(String::new());
    lines.extend(lives(&one, &prices));
    lines.push(flat(&one, &many));
    lines.push(format!(
        "Whatever is sold, a month: {:.0} $ for {REDIS_NODES} nodes of Redis, {:.0} $ for {ENDPOINTS} endpoints of the network.",
        REDIS_NODES * HOURS_A_MONTH * prices.redis_node_hour,
        ENDPOINTS * HOURS_A_MONTH * prices.endpoint_hour,
    ));
    lines.push(String::new());
    lines.extend(sources);
    Ok(lines.join("\n"))
}

/// Bytes as gigabytes, for people.
#[must_use]
pub fn gigabytes(bytes: u64) -> f64 {
    tally::as_f64(bytes) / 1e9
}

fn table(outcomes: &Outcomes, prices: &Prices) -> Vec<String> {
    let mut lines = vec![
        "What one of each uses, and dollars for a million of them (one bucket)".to_owned(),
        format!(
            "{:<20}{:>6}{:>8}{:>9}{:>7}{:>8}{:>8}{:>7}{:>9}{:>9}",
            "", "HTTP", "scripts", "db calls", "reads", "writes", "events", "log B", "ms here", "$/million"
        ),
    ];
    for (outcome, used) in outcomes {
        lines.push(format!(
            "{:<20}{:>6.1}{:>8.1}{:>9.1}{:>7.1}{:>8.1}{:>8.1}{:>7.0}{:>9.1}{:>9.2}",
            outcome.name(),
            used.http_calls,
            used.script_calls,
            used.read_calls + used.write_calls,
            used.read_units,
            used.write_units,
            used.messages_sent,
            used.log_bytes,
            used.seconds * 1_000.0,
            used.price(prices).sum(),
        ));
    }
    lines
}

fn lives(outcomes: &Outcomes, prices: &Prices) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<46}{:>9}{:>7}{:>10}{:>10}{:>8}{:>7}{:>8}",
        "Dollars for a million whole lives", "$", "API", "functions", "database", "queues", "logs", "traces"
    )];
    for (name, parts) in LIVES {
        let used = parts.iter().fold(Tally::default(), |sum, part| sum + of(outcomes, *part));
        let Bill { api, functions, database, queues, logs, traces } = used.price(prices);
        let sum = used.price(prices).sum();
        lines.push(format!(
            "{name:<46}{sum:>9.2}{api:>7.2}{functions:>10.2}{database:>10.2}{queues:>8.2}{logs:>7.2}{traces:>8.2}"
        ));
    }
    lines
}

/// What one of these used; nothing if it was not measured.
#[must_use]
pub fn of(outcomes: &Outcomes, which: Outcome) -> Tally {
    outcomes.iter().find(|(outcome, _)| *outcome == which).map(|(_, used)| *used).unwrap_or_default()
}

fn flat(one: &Outcomes, many: &Outcomes) -> String {
    let (one, many) = (of(one, Outcome::Placed), of(many, Outcome::Placed));
    format!(
        "An order in one bucket and in one of 64: {} and {} scripts, {} and {} calls that write, {} and {} write units.",
        one.script_calls, many.script_calls, one.write_calls, many.write_calls, one.write_units, many.write_units
    )
}
