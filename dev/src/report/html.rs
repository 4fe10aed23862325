//! The report as one HTML file that needs nothing else.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use super::Report;
use super::charts::{Series, bars, columns};
use crate::checks::Check;

/// The file's name in the report's directory.
pub const FILE: &str = "sale.html";

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fff; --soft: #6b7686; --line: #d9dee5;
  --a: #2a78d6; --b: #e08a1e; --c: #c9483f; --d: #8a97a8; --good: #1f8a4c; --bad: #c9302c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --paper: #14181e; --soft: #98a3b3;
  --line: #333b46; --a: #5b9cf0; --b: #f0a840; --c: #e8736a; --d: #7d8a9b; --good: #4cc27e; --bad: #f0706a; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; padding: 0; list-style: none; }
.figures li { flex: 1 1 8rem; border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
.figures b { display: block; font-size: 1.6rem; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.n, th.n { text-align: right; } .good { color: var(--good); } .bad { color: var(--bad); }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; margin-bottom: .4rem; }
svg { width: 100%; height: auto; } svg text { font: 11px system-ui, sans-serif; fill: var(--ink); }
svg .axis { fill: var(--soft); } svg .grid { stroke: var(--line); }
.a { fill: var(--a); background: var(--a); } .b { fill: var(--b); background: var(--b); }
.c { fill: var(--c); background: var(--c); } .d { fill: var(--d); background: var(--d); }
.key { margin-right: 1rem; color: var(--soft); } .key i { display: inline-block; width: .7rem; height: .7rem;
  border-radius: .15rem; margin-right: .35rem; } small { color: var(--soft); }
.wide { overflow-x: auto; }
";

/// Writes the file; answers where it is.
///
/// # Errors
/// When the directory cannot be made or written to.
pub fn save(report: &Report) -> io::Result<PathBuf> {
    std::fs::create_dir_all(&report.settings.directory)?;
    let path = report.settings.directory.join(FILE);
    std::fs::write(&path, render(report))?;
    Ok(path)
}

/// The whole page.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write(&mut page, report);
    page
}

/// Text as it may stand in an element or an attribute.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn write(page: &mut String, report: &Report) -> std::fmt::Result {
    let (settings, shape) = (&report.settings, &report.shape);
    let title = format!("{} units, {} requests", shape.units, shape.requests);
    write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Sale: {title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>Sale: {title}</h1>\n"
    )?;
    let (class, verdict) =
        if report.holds() { ("good", "Everything holds.") } else { ("bad", "Not everything holds.") };
    writeln!(
        page,
        "<p><strong class=\"{class}\">{verdict}</strong> {} buyers, {} buckets, strategy {}, seed {}, {} ms added to \
         every call of DynamoDB, {} connections.</p>",
        shape.buyers,
        settings.buckets,
        escape(&settings.strategy),
        settings.seed,
        settings.latency_ms,
        settings.connections
    )?;
    figures(page, report)?;
    traffic(page, report)?;
    stock(page, report)?;
    checks(page, "Invariants", &report.checks)?;
    for small in &report.small {
        checks(page, &format!("Small sale: {}", small.title), &small.checks)?;
    }
    settled(page, report)?;
    page.push_str("</body>\n</html>\n");
    Ok(())
}

fn figures(page: &mut String, report: &Report) -> std::fmt::Result {
    let figures = &report.figures;
    page.push_str("<ul class=\"figures\">");
    for (name, value, must_be_zero) in [
        ("units sold", figures.sold, false),
        ("oversold", figures.oversold, true),
        ("unsold while asked", figures.unsold_while_asked, true),
        ("doubled", figures.doubled, true),
        ("lost", figures.lost, true),
    ] {
        let class = match (must_be_zero, value) {
            (false, _) => "",
            (true, 0) => "good",
            (true, _) => "bad",
        };
        write!(page, "<li><b class=\"{class}\">{value}</b>{name}</li>")?;
    }
    page.push_str("</ul>\n");
    Ok(())
}

fn traffic(page: &mut String, report: &Report) -> std::fmt::Result {
    let measured = &report.measured;
    write!(
        page,
        "<h2>Requests</h2>\n<p>{} requests in {:.1} s: {:.0} a second, {} in the fullest 100 ms.</p>\n<table>",
        measured.requests,
        measured.lasted_s,
        report.throughput(),
        measured.peak_per_100_ms
    )?;
    for (name, count) in report.split() {
        write!(page, "<tr><td>{name}</td><td class=\"n\">{count}</td></tr>")?;
    }
    write!(page, "<tr><td><b>planned</b></td><td class=\"n\"><b>{}</b></td></tr>", report.shape.requests)?;
    for (why, count) in &measured.extra {
        write!(page, "<tr><td>on top: {why}</td><td class=\"n\">{count}</td></tr>")?;
    }
    page.push_str("</table>\n");
    let seconds: Vec<Vec<f64>> = measured
        .seconds
        .iter()
        .map(|second| [second.accepted, second.come_back, second.refused, second.others].map(f64::from).to_vec())
        .collect();
    let series = [
        Series { name: "orders accepted", class: "a" },
        Series { name: "asked to come back", class: "b" },
        Series { name: "orders refused", class: "c" },
        Series { name: "tokens, queries, garbage", class: "d" },
    ];
    page.push_str(&columns("Answers per second", "per second", &series, &seconds));
    let latencies: Vec<(String, Vec<f64>)> = measured
        .latencies
        .iter()
        .map(|row| (format!("{} ({})", row.kind.name(), row.count), vec![row.p50_ms, row.p99_ms, row.p999_ms]))
        .collect();
    let series =
        [Series { name: "P50", class: "a" }, Series { name: "P99", class: "b" }, Series { name: "P99.9", class: "c" }];
    page.push_str(&bars("Latency by call (logarithmic)", "ms", &series, &latencies, true));
    let mut outcomes: Vec<(String, Vec<f64>)> = measured
        .outcomes
        .iter()
        .map(|(kind, outcome, count)| {
            #[expect(clippy::cast_precision_loss, reason = "a count of requests")]
            let count = *count as f64;
            (format!("{}: {outcome}", kind.name()), vec![count])
        })
        .collect();
    outcomes.sort_by(|a, b| b.1[0].total_cmp(&a.1[0]));
    let series = [Series { name: "requests", class: "a" }];
    page.push_str(&bars("Outcomes by code (logarithmic)", "", &series, &outcomes, true));
    Ok(())
}

fn stock(page: &mut String, report: &Report) -> std::fmt::Result {
    page.push_str("<h2>Stock per bucket</h2>\n");
    let series = [
        Series { name: "DynamoDB: units in live orders", class: "a" },
        Series { name: "Redis: units deducted", class: "b" },
    ];
    let rows: Vec<(String, Vec<f64>)> = report
        .stock
        .iter()
        .map(|row| {
            #[expect(clippy::cast_precision_loss, reason = "a count of units")]
            let (live, held) = (row.live as f64, row.gate.map_or(0.0, |(_, held)| held as f64));
            (format!("{} in bucket {} of {}", row.sku, row.bucket, row.allotted), vec![live, held])
        })
        .collect();
    page.push_str(&bars("Units sold per bucket, by both stores (logarithmic)", "", &series, &rows, true));
    page.push_str(
        "<div class=\"wide\"><table><tr><th>SKU</th><th class=\"n\">bucket</th><th class=\"n\">allotted</th>\
         <th class=\"n\">DynamoDB available</th><th class=\"n\">in live orders</th><th class=\"n\">Redis free</th>\
         <th class=\"n\">deducted</th></tr>",
    );
    for row in &report.stock {
        let (free, held) =
            row.gate.map_or(("–".to_owned(), "–".to_owned()), |(f, h)| (f.to_string(), h.to_string()));
        write!(
            page,
            "<tr><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{free}</td><td class=\"n\">{held}</td></tr>",
            escape(&row.sku),
            row.bucket,
            row.allotted,
            row.available,
            row.live
        )?;
    }
    page.push_str("</table></div>\n");
    Ok(())
}

fn checks(page: &mut String, title: &str, checks: &[Check]) -> std::fmt::Result {
    write!(page, "<h2>{}</h2>\n<table>", escape(title))?;
    for check in checks {
        let (class, word) = if check.holds() { ("good", "holds") } else { ("bad", "FAILS") };
        write!(
            page,
            "<tr><td>{}</td><td><b class=\"{class}\">{word}</b></td><td>{}<br><small>{}</small>",
            check.id,
            check.name,
            escape(&check.numbers)
        )?;
        for violation in &check.violations {
            write!(page, "<br><span class=\"bad\">{}</span>", escape(violation))?;
        }
        if check.count > check.violations.len() {
            write!(page, "<br><span class=\"bad\">{} more</span>", check.count - check.violations.len())?;
        }
        page.push_str("</td></tr>");
    }
    page.push_str("</table>\n");
    Ok(())
}

fn settled(page: &mut String, report: &Report) -> std::fmt::Result {
    let settled = &report.settled;
    write!(
        page,
        "<h2>Afterwards</h2>\n<p>Queues and stream were empty after {:.1} s: {} stream records ({} calls failed), {} \
         roll-back messages. The stores differed in {} places before the reconciliations.</p>\n<table>",
        settled.drained_s,
        settled.stream_records,
        settled.stream_failures,
        settled.roll_backs,
        settled.differences_before
    )?;
    for (name, count) in &report.database_calls {
        write!(page, "<tr><td>{} calls of DynamoDB</td><td class=\"n\">{count}</td><td></td></tr>", escape(name))?;
    }
    for (index, run) in settled.reconciliations.iter().enumerate() {
        write!(
            page,
            "<tr><td>Reconciliation {}</td><td class=\"n\">{} compared</td><td>{}</td></tr>",
            index + 1,
            run["compared"],
            escape(&run["findings"].to_string())
        )?;
    }
    page.push_str("</table>\n");
    Ok(())
}
