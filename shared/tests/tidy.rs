//! The house rules that no compiler checks: direction of dependencies, twins of scripts, lengths.

#![allow(clippy::panic, clippy::unwrap_used)] // a test's own files are there

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use holdfast::telemetry::Metric;

const FILE_LINES_MAX: usize = 400;
const MAIN_LINES_MAX: usize = 40;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Every file under these folders with this ending.
fn files(folders: &[&str], ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut queue: Vec<PathBuf> = folders.iter().map(|folder| root().join(folder)).collect();
    while let Some(folder) = queue.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.unwrap().path();
            if path.is_dir() {
                queue.push(path);
            } else if path.to_str().unwrap().ends_with(ending) {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found.sort();
    assert!(!found.is_empty(), "nothing under {folders:?} ends with {ending}");
    found
}

/// Code without comments: prose may name what code must not.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn dependencies_point_one_way() {
    let outside = ["aws_", "redis::", "lambda_", "std::env", "crate::adapters", "crate::lambda", "crate::config"];
    let layers: [(&str, &[&str]); 3] = [
        ("shared/src/domain", &["crate::app", "crate::ports", "crate::telemetry", "tokio"]),
        ("shared/src/ports", &["crate::app", "crate::telemetry", "tokio"]),
        ("shared/src/app", &[]),
    ];
    for (folder, more) in layers {
        for (name, text) in files(&[folder], ".rs") {
            for forbidden in outside.iter().chain(more) {
                assert!(!code(&text).contains(forbidden), "{name} names {forbidden}");
            }
        }
    }
}

#[test]
fn only_the_configuration_reads_the_environment() {
    for (name, text) in files(&["shared/src", "functions"], ".rs") {
        let allowed = name == "shared/src/config.rs" || name.contains("/tests/");
        assert!(allowed || !code(&text).contains("env::var"), "{name} reads the environment");
    }
}

#[test]
fn every_script_has_its_twin_and_its_header() {
    let scripts = files(&["lua"], ".lua");
    let twins = files(&["shared/src/adapters/redis/scripts"], ".rs");
    for (name, text) in &scripts {
        if name.contains("/include/") {
            continue;
        }
        assert!(text.starts_with("#!lua"), "{name}: without it a full memory stops a script half way");
        for part in ["KEYS", "ARGV"] {
            assert!(text.contains(part), "{name}: the header does not tell its {part}");
        }
        let twin =
            format!("shared/src/adapters/redis/scripts/{}.rs", Path::new(name).file_stem().unwrap().to_str().unwrap());
        assert!(twins.iter().any(|(twin_name, _)| *twin_name == twin), "{name} has no {twin}");
    }
    for (twin, _) in twins.iter().filter(|(name, _)| !name.ends_with("mod.rs")) {
        let script = format!("lua/{}.lua", Path::new(twin).file_stem().unwrap().to_str().unwrap());
        assert!(scripts.iter().any(|(name, _)| *name == script), "{twin} has no {script}");
    }
}

#[test]
fn files_stay_readable() {
    for (name, text) in files(&["shared", "functions", "dev"], ".rs") {
        let lines = text.lines().count();
        let max =
            if name.starts_with("functions/") && name.ends_with("/main.rs") { MAIN_LINES_MAX } else { FILE_LINES_MAX };
        assert!(lines <= max, "{name} has {lines} lines, {max} are allowed");
    }
}

#[test]
fn every_function_has_events_and_every_event_its_expected_answer() {
    for function in fs::read_dir(root().join("functions")).unwrap() {
        let name = function.unwrap().file_name().into_string().unwrap();
        let events = files(&[&format!("events/{name}")], ".json");
        for (event, _) in events.iter().filter(|(event, _)| !event.ends_with(".expected.json")) {
            let expected = event.replace(".json", ".expected.json");
            assert!(events.iter().any(|(other, _)| *other == expected), "{event} has no {expected}");
        }
    }
}

#[test]
fn every_metric_is_told_of_and_counted() {
    let guide = fs::read_to_string(root().join("docs/operations.md")).unwrap();
    let table = guide.split("\n## Metrics\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<[String; 3]> = table
        .lines()
        .filter_map(|row| row.strip_prefix("| `")?.strip_suffix(" |"))
        .map(|row| {
            let cells: Vec<&str> = row.split(" | ").map(str::trim).collect();
            [cells[0].trim_end_matches('`'), cells[1], cells[2]].map(str::to_owned)
        })
        .collect();
    let of = |metric: Metric| if metric.is_by_activity() { "`Stack`; `Stack`, `Activity`" } else { "`Stack`" };
    let told = |metric: &Metric| [metric.name(), metric.unit().as_str(), of(*metric)].map(str::to_owned);
    assert_eq!(rows, Metric::ALL.iter().map(told).collect::<Vec<_>>());
    let sources = files(&["shared/src", "functions"], ".rs");
    for metric in Metric::ALL {
        let used = format!("Metric::{}", metric.name());
        let counts =
            |(name, text): &(String, String)| !name.starts_with("shared/src/telemetry") && text.contains(&used);
        assert!(sources.iter().any(counts), "nothing counts {used}");
    }
}

#[test]
fn the_list_of_others_failures_and_the_tests_name_each_other() {
    let names = |text: &str, before: &str| -> BTreeSet<String> {
        let numbered = |name: &str| {
            let digits = name.strip_prefix('f')?.find('_')?;
            name[1..=digits].bytes().all(|byte| byte.is_ascii_digit()).then(|| name.to_owned())
        };
        let word = |rest: &str| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().map(str::to_owned);
        text.split(before).skip(1).filter_map(|rest| numbered(&word(rest)?)).collect()
    };
    let tests: BTreeSet<String> =
        files(&["shared", "functions", "dev"], ".rs").iter().flat_map(|(_, text)| names(text, "fn ")).collect();
    let list = fs::read_to_string(root().join("docs/failures-of-others.md")).unwrap();
    assert!(tests.len() > 30, "{tests:?}");
    assert_eq!(names(&list, "`"), tests);
    for number in 1..=32 {
        assert!(list.contains(&format!("| F{number} |")), "F{number}");
    }
}
