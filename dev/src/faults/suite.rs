//! Plays the suite and reports: a line per case, everything as JSON, and the table of docs/faults.md.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::cases;
use super::scene::Outcome;
use crate::stack::StartError;

/// Where the table begins and ends in the document.
const TABLE: (&str, &str) = ("<!-- table: begin -->\n", "<!-- table: end -->");

const HEADER: &str = "| case | fault | what orders were answered | what reconciliation repaired | agreed after |\n\
                      | -- | -- | -- | -- | -- |\n";

/// What is played and where results go.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only cases whose group or name contains this.
    pub filter: String,
    pub seed: u64,
    /// The runner itself.
    pub program: PathBuf,
    /// Directory of `faults.json`.
    pub report: PathBuf,
    /// The document whose table is replaced.
    pub document: Option<PathBuf>,
}

/// Plays the chosen cases one after another; answers whether all held.
///
/// # Errors
/// When none is chosen or a file cannot be written.
pub async fn run(options: &Options) -> Result<bool, StartError> {
    let chosen = |case: &super::FaultCase| case.name.contains(&options.filter) || case.group.name() == options.filter;
    let mut outcomes = Vec::new();
    for case in cases::all().into_iter().filter(chosen) {
        let outcome = case.run(options.seed, &options.program).await;
        println!("{}", line(&outcome));
        for detail in failures(&outcome) {
            println!("      {detail}");
        }
        outcomes.push(outcome);
    }
    if outcomes.is_empty() {
        return Err(format!("no case is called {:?}", options.filter).into());
    }
    fs::create_dir_all(&options.report)?;
    fs::write(options.report.join("faults.json"), serde_json::to_vec_pretty(&outcomes)?)?;
    if let Some(document) = &options.document {
        write_table(document, &outcomes)?;
    }
    let failed = outcomes.iter().filter(|outcome| !outcome.holds()).count();
    let seconds: f64 = outcomes.iter().map(|outcome| outcome.seconds).sum();
    println!("{} cases in {seconds:.0} s with seed {}; {failed} failed", outcomes.len(), options.seed);
    Ok(failed == 0)
}

/// One line for a terminal.
#[must_use]
pub fn line(outcome: &Outcome) -> String {
    let verdict = if outcome.holds() { "ok  " } else { "FAIL" };
    let mut line = format!(
        "{verdict} {:<10} {:<28} {:>5.1} s  {:>5} strikes  {} | {} | agreed after {:.1} s",
        outcome.group,
        outcome.name,
        outcome.seconds,
        outcome.strikes,
        saw(outcome),
        repaired(outcome),
        outcome.agreed_after_s
    );
    for (name, value) in &outcome.figures {
        let _ = write!(line, " | {name}: {value}");
    }
    line
}

/// What did not hold, and how to see it again.
#[must_use]
pub fn failures(outcome: &Outcome) -> Vec<String> {
    let mut failures = Vec::new();
    if let Some(error) = &outcome.error {
        failures.push(format!("not played to its end: {error}"));
    }
    for check in outcome.checks.iter().filter(|check| !check.holds()) {
        failures.push(format!("{} {} ({}): {} violations", check.id, check.name, check.numbers, check.count));
        failures.extend(check.violations.iter().map(|violation| format!("  {violation}")));
    }
    if !failures.is_empty() {
        failures.push(match outcome.group.as_str() {
            "soak" => format!("again: make soak ARGS=\"--round {}\"", outcome.seed),
            _ => format!("again: make faults ARGS=\"{} --seed {}\"", outcome.name, outcome.seed),
        });
    }
    failures
}

fn saw(outcome: &Outcome) -> String {
    let saw: Vec<String> = outcome.saw.iter().map(|(name, count)| format!("{name} × {count}")).collect();
    saw.join(", ")
}

fn repaired(outcome: &Outcome) -> String {
    let repaired = outcome.repaired.iter().filter(|(_, repaired)| repaired.found > 0);
    let repaired: Vec<String> =
        repaired.map(|(finding, repaired)| format!("{finding} {} of {}", repaired.repaired, repaired.found)).collect();
    if repaired.is_empty() { "nothing to repair".to_owned() } else { repaired.join(", ") }
}

/// Replaces the rows of the cases that were played, and drops those of cases that are no more.
///
/// # Errors
/// When the document has no place for the table.
fn write_table(document: &Path, outcomes: &[Outcome]) -> Result<(), StartError> {
    let text = fs::read_to_string(document)?;
    let (head, rest) = text.split_once(TABLE.0).ok_or("the document has no place for the table")?;
    let (old, tail) = rest.split_once(TABLE.1).ok_or("the document's table has no end")?;
    let mut rows: BTreeMap<String, String> =
        old.lines().filter_map(|row| Some((name_of(row)?, row.to_owned()))).collect();
    rows.extend(outcomes.iter().map(|outcome| (format!("{}/{}", outcome.group, outcome.name), row(outcome))));
    let names = cases::all().into_iter().map(|case| format!("{}/{}", case.group.name(), case.name));
    let rows: Vec<String> = names.filter_map(|name| rows.remove(&name)).collect();
    fs::write(document, format!("{head}{}{HEADER}{}\n{}{tail}", TABLE.0, rows.join("\n"), TABLE.1))?;
    Ok(())
}

/// One row of the document's table.
fn row(outcome: &Outcome) -> String {
    let figures: Vec<String> = outcome.figures.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    let figures = if figures.is_empty() { String::new() } else { format!(" ({})", figures.join("; ")) };
    format!(
        "| `{}/{}` | {} | {} | {}{figures} | {:.1} s |",
        outcome.group,
        outcome.name,
        outcome.what,
        saw(outcome),
        repaired(outcome),
        outcome.agreed_after_s
    )
}

/// `group/name` of a row.
fn name_of(row: &str) -> Option<String> {
    Some(row.strip_prefix("| `")?.split_once('`')?.0.to_owned())
}

/// The cases that a document lists, `group/name`, in its order.
#[must_use]
pub fn listed(document: &str) -> Vec<String> {
    let table =
        document.split_once(TABLE.0).and_then(|(_, rest)| rest.split_once(TABLE.1)).map_or("", |(table, _)| table);
    table.lines().filter_map(name_of).collect()
}
