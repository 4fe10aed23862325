//! Ratios to aim for. Times of a machine say little about another one, and little about itself an hour later: so
//! two things are measured in turn, within one run, and only what one is beside the other is judged.

mod last_unit;
mod load;
mod ratio;
mod refusals;
mod scripts;
mod second_wave;
pub mod shop;
pub mod start;
mod strategies;

use std::time::Duration;

use self::ratio::{Row, heading};
use crate::sale::Clients;
use crate::stack::{Stack, StackOptions, StartError};

/// The scheduled functions do not run meanwhile.
const NEVER: Duration = Duration::from_hours(24);
/// How long one call of Redis may take, in milliseconds, as in a local sale.
const REDIS_DEADLINE_MS: u64 = 1_000;

/// How much is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only parts whose name contains this.
    pub filter: String,
    /// How often each thing is measured.
    pub rounds: u32,
    /// Orders a second of the second wave.
    pub order_rate: u32,
    /// How long they come, with and without queries beside them.
    pub phase: Duration,
    /// Units of the sale to the last unit; at least 10.
    pub units: u32,
    /// Calls of one script, and of the handler, in each round.
    pub calls: u32,
    /// Added to every call of the local `DynamoDB`.
    pub latency: Duration,
}

/// Ratios that were measured together, and what else is to be known of them.
#[derive(Clone, Debug)]
pub struct Section {
    rows: Vec<Row>,
    notes: Vec<String>,
}

/// What can be measured, in this order.
#[derive(Clone, Copy, Debug)]
enum Part {
    SecondWave,
    LastUnit,
    Scripts,
    Refusals,
    Strategies,
}

impl Part {
    const ALL: [Self; 5] = [Self::SecondWave, Self::LastUnit, Self::Scripts, Self::Refusals, Self::Strategies];

    const fn name(self) -> &'static str {
        match self {
            Self::SecondWave => "second-wave",
            Self::LastUnit => "last-unit",
            Self::Scripts => "scripts",
            Self::Refusals => "refusals",
            Self::Strategies => "strategies",
        }
    }

    async fn measure(self, options: &Options) -> Result<Section, StartError> {
        match self {
            Self::Scripts => return scripts::measure(options).await,
            Self::Refusals => return refusals::measure(options).await,
            Self::SecondWave | Self::LastUnit | Self::Strategies => {}
        }
        let stack = Stack::start(StackOptions {
            port: 0,
            latency: options.latency,
            redis_url: None,
            redis_deadline_ms: REDIS_DEADLINE_MS,
            reconcile_every: NEVER,
            fulfil: true,
        })
        .await?;
        let clients = Clients::start()?;
        let measured = match self {
            Self::LastUnit => last_unit::measure(&stack, &clients, options).await,
            Self::Strategies => strategies::measure(&stack, &clients, options).await,
            _ => second_wave::measure(&stack, &clients, options).await,
        };
        stack.stop().await;
        measured
    }
}

/// What became of every part.
#[derive(Debug)]
pub struct Measured(Vec<(Part, Result<Section, String>)>);

/// Measures part by part; one that fails does not keep the others from being measured. Tells on stderr how far it is.
///
/// # Errors
/// When no part is chosen.
pub async fn run(options: &Options) -> Result<Measured, StartError> {
    let chosen: Vec<Part> = Part::ALL.into_iter().filter(|part| part.name().contains(&options.filter)).collect();
    if chosen.is_empty() {
        let names = Part::ALL.map(Part::name).join(", ");
        return Err(format!("no part is called {}: there are {names}", options.filter).into());
    }
    let mut measured = Vec::new();
    for (index, part) in chosen.iter().enumerate() {
        eprintln!("{} of {}: {}", index + 1, chosen.len(), part.name());
        let section = Box::pin(part.measure(options)).await.map_err(|error| error.to_string());
        measured.push((*part, section));
    }
    Ok(Measured(measured))
}

impl Measured {
    /// Whether everything could be measured. What an aim makes of it is another matter.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.0.iter().all(|(_, section)| section.is_ok())
    }

    /// For people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec![format!("Ratios within this run: medians of the rounds ({})", machine()), heading()];
        for (part, section) in &self.0 {
            match section {
                Ok(section) => lines.extend(section.rows.iter().map(Row::line)),
                Err(why) => lines.push(format!("  {}: NOT MEASURED: {why}", part.name())),
            }
        }
        for (part, section) in self.0.iter().filter_map(|(part, section)| Some((part, section.as_ref().ok()?))) {
            lines.push(format!("  {}", part.name()));
            lines.extend(section.notes.iter().map(|note| format!("    {note}")));
        }
        lines.push(self.verdict());
        lines.join("\n")
    }

    fn verdict(&self) -> String {
        let rows = self.0.iter().filter_map(|(_, section)| section.as_ref().ok()).flat_map(|section| &section.rows);
        let judged: Vec<bool> = rows.filter_map(|row| row.aim.is_met(row.ratio())).collect();
        let missed = judged.iter().filter(|met| !**met).count();
        let failed = self.0.iter().filter(|(_, section)| section.is_err()).count();
        let verdict = match missed {
            0 if judged.is_empty() => "  No aim was judged.".to_owned(),
            0 => format!("  All {} aims were met.", judged.len()),
            _ => format!("  {missed} OF {} AIMS WERE MISSED.", judged.len()),
        };
        if failed == 0 { verdict } else { format!("{verdict} {failed} PARTS WERE NOT MEASURED.") }
    }
}

/// Processors, and how busy they are: a ratio from a busy machine is worth less.
fn machine() -> String {
    let processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').nth(1).unwrap_or("?").to_owned();
    format!("{processors} processors, {load} at work in the last 5 minutes, this run included")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::ratio::Aim;

    fn section(ratio: f64) -> Section {
        Section { rows: vec![Row::new("a / b", vec![ratio], Aim::AtMost(1.2)).unwrap()], notes: vec!["c".to_owned()] }
    }

    #[test]
    fn a_missed_aim_is_told_loudly_and_is_no_failure() {
        let measured = Measured(vec![(Part::Scripts, Ok(section(1.0))), (Part::Refusals, Ok(section(1.3)))]);
        let text = measured.text();
        assert!(measured.is_complete());
        assert!(text.contains("MISSED\n") && text.ends_with("1 OF 2 AIMS WERE MISSED."), "{text}");
        assert!(Measured(vec![(Part::Scripts, Ok(section(1.2)))]).text().ends_with("All 1 aims were met."));
    }

    #[test]
    fn what_could_not_be_measured_is_a_failure_beside_what_was() {
        let measured = Measured(vec![(Part::Scripts, Ok(section(1.0))), (Part::Refusals, Err("gone".to_owned()))]);
        let text = measured.text();
        assert!(!measured.is_complete());
        assert!(text.contains("refusals: NOT MEASURED: gone") && text.contains("1.00"), "{text}");
        assert!(text.ends_with("1 PARTS WERE NOT MEASURED."), "{text}");
    }
}
