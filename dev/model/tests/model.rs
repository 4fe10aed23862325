//! The quick set of the focused models, and the mistakes that they find.

#![allow(clippy::unwrap_used)] // a test may

use std::num::NonZeroUsize;

use model::{
    check::explore,
    models::{Size, all, named},
    scenario::Bug,
};

/// Every planted mistake, the model that finds it, and the number of the property that it violates there.
const MISTAKES: [(Bug, &str, char); 26] = [
    (Bug::RefusalWithoutClaim, "late payment", '6'),
    (Bug::UnknownIsRefused, "lost replies", '5'),
    (Bug::RestockIgnoresRank, "plain", '3'),
    (Bug::RestoreOverwritesHigher, "two reconcilers", '5'),
    (Bug::AbsenceFromListing, "degraded mode", '5'),
    (Bug::OrderReadBeforeRecord, "two reconcilers", '8'),
    (Bug::PreheatSubtractsLive, "flush and rebuild", '3'),
    (Bug::RestockBeforeClaim, "plain", '5'),
    (Bug::UnitsFromMessage, "flush and rebuild", '3'),
    (Bug::MarkRemovedByCount, "late payment", '5'),
    (Bug::LatePaymentSameTake, "late payment", '4'),
    (Bug::LatePaymentIgnoresGuard, "late payment", '2'),
    (Bug::RestockBeforeCancel, "late payment", '5'),
    (Bug::SyncByDifference, "moves", '3'),
    (Bug::MoveWithoutId, "moves", '1'),
    (Bug::BatchDropsLoser, "queued", '5'),
    (Bug::BatchJudgesAlone, "queued", '2'),
    (Bug::DegradedWithoutExists, "degraded mode", '6'),
    (Bug::ReplayDeductsAgain, "plain", '4'),
    (Bug::ReplayOfToday, "day scope", '8'),
    (Bug::QuotaBackToday, "day scope", '2'),
    (Bug::SumWithoutVersion, "database sum", '3'),
    (Bug::TombstoneForgotten, "late requests", '5'),
    (Bug::MarkOfAnyDay, "lost over midnight", '5'),
    (Bug::RestoreLeavesMarks, "lost over midnight", '5'),
    (Bug::UndoOfOwnDay, "parts over midnight", '5'),
];

/// Longest way to a mistake that is still read with pleasure.
const STEPS_MAX: usize = 25;

fn two() -> NonZeroUsize {
    NonZeroUsize::new(2).unwrap()
}

#[test]
fn every_invariant_holds_in_every_state_of_the_quick_models() {
    for scenario in all(Size::Quick) {
        let summary = explore(scenario, two());
        println!("{:<18} {:>9} states, {:>8} unique", summary.name, summary.states, summary.unique);
        if let Some(violation) = &summary.violation {
            panic!("{}: {}", summary.name, violation.trace());
        }
        assert!(summary.missed.is_empty(), "{} never reached {:?}", summary.name, summary.missed);
    }
}

#[test]
fn every_planted_mistake_is_found_by_a_short_way() {
    let mut wrong = Vec::new();
    for (bug, name, invariant) in MISTAKES {
        let summary = explore(named(name, Size::Quick).unwrap().with_bug(bug), NonZeroUsize::MIN);
        let Some(violation) = summary.violation else {
            wrong.push(format!("{name} does not find {bug:?}"));
            continue;
        };
        println!("{bug:?}, by \"{name}\" in {} steps: {}", violation.steps.len(), violation.property);
        if !violation.property.starts_with(invariant) || violation.steps.len() > STEPS_MAX {
            wrong.push(format!("{bug:?} by {name}: {}", violation.trace()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_list_of_mistakes_is_whole() {
    for bug in Bug::ALL {
        assert_eq!(MISTAKES.iter().filter(|(planted, ..)| *planted == bug).count(), 1, "{bug:?}");
    }
}
