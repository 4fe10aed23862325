//! The quick set of the focused models, and the mistakes that they find.

#![allow(clippy::unwrap_used)] // a test may

use std::num::NonZeroUsize;

use model::{
    check::explore,
    models::{Size, all, lost_over_midnight, named},
    scenario::Bug,
};

/// Every planted mistake, the model that finds it, and the invariant that it violates there: by the
/// first digit of its property, 0 for what must be impossible.
const MISTAKES: [(Bug, &str, char); 22] = [];

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
    for (bug, name, invariant) in MISTAKES {
        let summary = explore(named(name, Size::Quick).unwrap().with_bug(bug), NonZeroUsize::MIN);
        let Some(violation) = summary.violation else { panic!("{name} does not find {bug:?}") };
        println!("{bug:?}, by \"{name}\" in {} steps: {}", violation.steps.len(), violation.property);
        assert!(violation.property.starts_with(invariant), "{bug:?}: {}", violation.trace());
        assert!(violation.steps.len() <= STEPS_MAX, "{bug:?}: {}", violation.trace());
    }
}

#[test]
fn the_list_of_mistakes_is_whole() {
    for bug in Bug::ALL {
        assert_eq!(MISTAKES.iter().filter(|(planted, ..)| *planted == bug).count(), 1, "{bug:?}");
    }
}

/// A gap that docs/protocol.md tells of. When it is closed, this model belongs to the ones that hold.
#[test]
fn an_order_lost_over_midnight_is_a_known_gap() {
    let violation = explore(lost_over_midnight(), NonZeroUsize::MIN).violation.unwrap();
    assert!(violation.unsettled.as_ref().unwrap().contains("mark"), "{}", violation.trace());
}
