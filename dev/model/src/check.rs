//! Explores one focused model.

use std::{
    fmt::Write as _,
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use stateright::{Checker, HasDiscoveries, Model as _};

use crate::{
    protocol::{Action, Protocol},
    scenario::{Reached, Scenario},
    state::State,
};

/// A property that does not hold, and the shortest way there.
#[derive(Clone, Debug)]
pub struct Violation {
    pub property: &'static str,
    pub steps: Vec<Action>,
    /// The state in which it does not hold.
    pub state: State,
    /// What is off after two reconciliations, if that is what was violated.
    pub unsettled: Option<String>,
}

/// What exploring one model came to.
#[derive(Clone, Debug)]
pub struct Summary {
    pub name: &'static str,
    pub states: usize,
    pub unique: usize,
    pub depth: usize,
    /// Pairs of stores that two reconciliations were run on.
    pub settled: usize,
    pub took: Duration,
    pub violation: Option<Violation>,
    /// What the model is about and never came across; nothing after a violation.
    pub missed: Vec<Reached>,
}

impl Summary {
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.violation.is_none() && self.missed.is_empty()
    }
}

/// Explores every state, until a property is violated or none is left. With one thread the way to a
/// violation is a shortest one.
#[must_use]
pub fn explore(scenario: Scenario, threads: NonZeroUsize) -> Summary {
    let began = Instant::now();
    let name = scenario.name;
    let checker = Protocol::new(scenario)
        .checker()
        .threads(threads.get())
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let model = checker.model();
    let violation = checker.discoveries().into_iter().min_by_key(|(property, _)| *property).map(|(property, path)| {
        let state = path.last_state().clone();
        let unsettled = if property.starts_with('5') { model.why_unsettled(&state) } else { None };
        Violation { property, steps: path.into_actions(), state, unsettled }
    });
    Summary {
        name,
        states: checker.state_count(),
        unique: checker.unique_state_count(),
        depth: checker.max_depth(),
        settled: model.settled.len(),
        took: began.elapsed(),
        missed: if violation.is_none() { model.missed() } else { Vec::new() },
        violation,
    }
}

impl Violation {
    /// The way there, one step a line.
    #[must_use]
    pub fn trace(&self) -> String {
        let mut text = format!("violated after {} steps: {}\n", self.steps.len(), self.property);
        if let Some(unsettled) = &self.unsettled {
            let _ = writeln!(text, "  {unsettled}");
        }
        for (number, step) in self.steps.iter().enumerate() {
            let _ = writeln!(text, "  {:2} {step:?}", number + 1);
        }
        text
    }
}
