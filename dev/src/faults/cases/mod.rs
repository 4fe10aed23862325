//! The cases by group.

mod redis;

use super::FaultCase;

/// A case of a group: its name, the fault in a few words, and the function that plays it.
macro_rules! case {
    ($group:ident, $name:expr, $what:expr, $play:path) => {
        $crate::faults::FaultCase::new($crate::faults::Group::$group, $name, $what, |scene| Box::pin($play(scene)))
    };
}
use case;

/// All cases of the suite, in the order in which they are played and listed.
#[must_use]
pub fn all() -> Vec<FaultCase> {
    [redis::cases()].into_iter().flatten().collect()
}
