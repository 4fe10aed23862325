//! The report: whole, valid as far as a parser of tags can tell, and in need of nothing else.

use std::time::Duration;

use dev::checks::{Check, figures};
use dev::report::{Report, Settings, SmallSale, html, stock_rows, text};
use dev::sale::client::{NoReply, Reply};
use dev::sale::measure::{Kind, Measures};
use dev::sale::settle::Settled;
use dev::sale::shape::Shape;
use serde_json::json;

use crate::snapshots::world;

fn report() -> Report {
    let world = world();
    let measures = Measures::start().unwrap();
    let reply = |status, code: &str, ms| {
        Ok(Reply { status, body: json!({ "code": code }), retry_after_s: None, latency: Duration::from_millis(ms) })
    };
    for ms in 1..=100 {
        measures.note(Kind::Order, &reply(201, "", ms));
    }
    measures.note(Kind::Order, &reply(409, "sold_out", 2));
    measures.note(Kind::Order, &reply(429, "<limited> & \"more\"", 2));
    measures.note(Kind::Token, &Err(NoReply));
    measures.hung_up(Kind::Order);
    measures.extra("order again");
    let mut checks = world.checks();
    checks.push(Check::new("answers", "made up", "none", vec!["<script>alert(1)</script>".to_owned(); 12]));
    Report {
        settings: Settings {
            seed: 1,
            strategy: "prededuct".to_owned(),
            buckets: 3,
            bucket_rate: 80,
            latency_ms: 5,
            connections: 96,
            suffix: String::new(),
            directory: "report".into(),
        },
        shape: Shape::of(1_000, None, None).unwrap(),
        measured: measures.finish(),
        took_s: 1.0,
        stock: stock_rows(&world.snapshot),
        figures: figures(&world.snapshot, &world.told, &std::collections::BTreeSet::new()),
        checks,
        small: vec![SmallSale { title: "made up".to_owned(), checks: Vec::new() }],
        afterwards: dev::sale::afterwards::Afterwards::default(),
        settled: Settled { reconciliations: vec![json!({ "findings": {}, "compared": 3 })], ..Settled::default() },
        database_calls: [("TransactWriteItems".to_owned(), 3)].into(),
    }
}

/// Every element that was opened is closed, in order, and nothing else is.
fn check_tags(page: &str) {
    const VOID: [&str; 4] = ["!DOCTYPE", "meta", "br", "line"];
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page;
    while let Some((_, after)) = rest.split_once('<') {
        let (tag, after) = after.split_once('>').expect("a tag ends");
        assert!(!tag.contains('<'), "a bare < before {tag}");
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "in {tag}");
        } else if !VOID.contains(&name) && !tag.ends_with('/') {
            assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
            open.push(name);
        }
        rest = after;
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    let page = html::render(&report());
    check_tags(&page);
    for foreign in ["http:", "https:", "//", "<script", "<link", "<img", "url(", "@import", "src=", "href="] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    assert_eq!(page.matches("<svg").count(), 4, "throughput, latency, outcomes, stock");
    assert!(page.contains("&lt;script&gt;") && page.contains("2 more"));
    assert!(page.contains("Not everything holds."));
    assert!(!page.contains("NaN") && !page.contains("inf"));
}

#[test]
fn the_text_has_every_number_and_the_verdict() {
    let mut report = report();
    let text = text::render(&report);
    for part in [
        "P99.9 ms",
        "409 sold_out",
        "hung up before the reply",
        "3 sold, 0 oversold, 0 unsold while asked, 0 doubled, 0 lost",
        "FAIL answers",
        "ok   1 ",
        "NOT EVERYTHING HOLDS",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!report.holds());
    report.checks.pop();
    assert!(report.holds());
    assert!(text::render(&report).contains("Everything holds."));
}

#[test]
fn latencies_are_told_to_the_percentile() {
    let report = report();
    let order = report.measured.latencies.iter().find(|row| row.kind == Kind::Order).unwrap();
    assert_eq!(order.count, 102);
    assert!((48.0..=52.0).contains(&order.p50_ms) && (98.0..=101.0).contains(&order.p99_ms), "{order:?}");
    assert!((order.max_ms - 100.0).abs() < 1.0);
}

#[test]
fn a_report_without_traffic_or_stock_is_a_page_too() {
    let mut empty = report();
    empty.measured = Measures::start().unwrap().finish();
    empty.stock.clear();
    check_tags(&html::render(&empty));
    assert!(!text::render(&empty).is_empty());
}
