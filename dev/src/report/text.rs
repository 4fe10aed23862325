//! The report for a terminal.

use std::fmt::Write as _;

use super::Report;
use crate::checks::Check;

/// The whole report as text.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut text, report);
    text
}

fn write(out: &mut String, report: &Report) -> std::fmt::Result {
    let (settings, shape, measured) = (&report.settings, &report.shape, &report.measured);
    writeln!(
        out,
        "\nSale of {} units over {} buckets, strategy {}, seed {}: {} requests from {} buyers",
        shape.units, settings.buckets, settings.strategy, settings.seed, shape.requests, shape.buyers
    )?;
    let split: Vec<String> = report.split().iter().map(|(name, count)| format!("{count} {name}")).collect();
    writeln!(out, "  planned: {}", split.join(", "))?;
    let extra: Vec<String> = measured.extra.iter().map(|(why, count)| format!("{count} {why}")).collect();
    writeln!(out, "  on top, because an answer asked for it: {} requests ({})", report.extra(), extra.join("; "))?;
    writeln!(
        out,
        "  {} requests in {:.1} s: {:.0} a second, {} in the fullest 100 ms",
        measured.requests,
        measured.lasted_s,
        report.throughput(),
        measured.peak_per_100_ms
    )?;
    writeln!(
        out,
        "\n  {:<12} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "call", "count", "P50 ms", "P99 ms", "P99.9 ms", "max ms"
    )?;
    for row in &measured.latencies {
        writeln!(
            out,
            "  {:<12} {:>8} {:>9.1} {:>9.1} {:>9.1} {:>9.1}",
            row.kind.name(),
            row.count,
            row.p50_ms,
            row.p99_ms,
            row.p999_ms,
            row.max_ms
        )?;
    }
    writeln!(out, "\n  {:<12} {:<32} {:>8}", "call", "outcome", "count")?;
    for (kind, outcome, count) in &measured.outcomes {
        writeln!(out, "  {:<12} {outcome:<32} {count:>8}", kind.name())?;
    }
    let afterwards: Vec<String> =
        report.afterwards.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
    writeln!(out, "\n  afterwards, of the accepted orders: {}", afterwards.join(", "))?;
    stock(out, report)?;
    settled(out, report)?;
    checks(out, "Invariants", &report.checks)?;
    for small in &report.small {
        checks(out, &format!("Small sale: {}", small.title), &small.checks)?;
    }
    let figures = &report.figures;
    writeln!(
        out,
        "\n  {} sold, {} oversold, {} unsold while asked, {} doubled, {} lost",
        figures.sold, figures.oversold, figures.unsold_while_asked, figures.doubled, figures.lost
    )?;
    writeln!(out, "  {}", if report.holds() { "Everything holds." } else { "NOT EVERYTHING HOLDS: see above." })
}

fn stock(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(
        out,
        "\n  {:<8} {:>6} {:>9} | {:>9} {:>6} | {:>6} {:>9}",
        "SKU", "bucket", "allotted", "available", "live", "free", "deducted"
    )?;
    for row in &report.stock {
        let gate =
            row.gate.map_or_else(|| "       -         -".to_owned(), |(free, held)| format!(" {free:>6} {held:>9}"));
        writeln!(
            out,
            "  {:<8} {:>6} {:>9} | {:>9} {:>6} |{gate}",
            row.sku, row.bucket, row.allotted, row.available, row.live
        )?;
    }
    writeln!(out, "  (available and live from DynamoDB, free and deducted from Redis)")
}

fn settled(out: &mut String, report: &Report) -> std::fmt::Result {
    let settled = &report.settled;
    writeln!(
        out,
        "\n  settled: {:.1} s until queues and stream were empty; {} stream records ({} calls failed), {} roll-back messages",
        settled.drained_s, settled.stream_records, settled.stream_failures, settled.roll_backs
    )?;
    let calls: Vec<String> = report.database_calls.iter().map(|(name, count)| format!("{count} {name}")).collect();
    writeln!(out, "  calls of DynamoDB, refused ones included: {}", calls.join(", "))?;
    let runs: Vec<String> = settled.reconciliations.iter().map(|run| run["findings"].to_string()).collect();
    writeln!(
        out,
        "  {} differences before {} reconciliations{}, which found {}",
        settled.differences_before,
        runs.len(),
        if settled.waited_for_grace { " (with a pause for the grace)" } else { "" },
        runs.join(", ")
    )
}

fn checks(out: &mut String, title: &str, checks: &[Check]) -> std::fmt::Result {
    writeln!(out, "\n  {title}")?;
    for check in checks {
        let mark = if check.holds() { "ok  " } else { "FAIL" };
        writeln!(out, "  {mark} {:<8} {}: {}", check.id, check.name, check.numbers)?;
        for violation in &check.violations {
            writeln!(out, "         - {violation}")?;
        }
        if check.count > check.violations.len() {
            writeln!(out, "         - {} more", check.count - check.violations.len())?;
        }
    }
    Ok(())
}
