//! A quick part of the fault suite, that the suite can fail, and that its document is complete. All of
//! it: `make faults`.

#![allow(clippy::unwrap_used)]

use std::{collections::BTreeSet, fs, path::Path};

use dev::faults::{FaultCase, Group, cases, suite};

/// One case of each kind of trouble that differs most from the others.
const QUICK: [&str; 8] = [
    "flushall",
    "failover-lagging",
    "throttled",
    "early",
    "place-transaction-after",
    "roll-back-claim-after",
    "freeze-half-way",
    "keys-torn",
];
const SEED: u64 = 1;

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_dev"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quick_part_of_the_suite_holds() {
    let mut played = BTreeSet::new();
    for case in cases::all().into_iter().filter(|case| QUICK.contains(&case.name.as_str())) {
        let outcome = case.run(SEED, program()).await;
        println!("{}", suite::line(&outcome));
        assert!(outcome.holds(), "{}: {:#?}", case.name, suite::failures(&outcome));
        played.insert(case.name);
    }
    assert_eq!(played.len(), QUICK.len(), "{played:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_case_whose_fault_never_strikes_fails() {
    let nothing = FaultCase::new(Group::Redis, "nothing", "nothing at all", |scene| {
        Box::pin(async move { scene.under_way().await })
    });
    let outcome = nothing.run(SEED, program()).await;
    assert_eq!(outcome.error, None);
    let broken: Vec<&str> = outcome.checks.iter().filter(|check| !check.holds()).map(|check| check.name).collect();
    assert_eq!(broken, ["the fault struck"]);
}

#[test]
fn the_document_lists_exactly_the_cases_of_the_suite() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/faults.md");
    let listed = suite::listed(&fs::read_to_string(path).unwrap());
    let cases: Vec<String> =
        cases::all().into_iter().map(|case| format!("{}/{}", case.group.name(), case.name)).collect();
    assert_eq!(listed, cases, "write it anew: make faults ARGS=\"--document docs/faults.md\"");
    assert_eq!(cases.iter().collect::<BTreeSet<_>>().len(), cases.len(), "names are unique within a group");
    assert!(cases.len() >= 40);
}
