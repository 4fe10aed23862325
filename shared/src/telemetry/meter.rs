//! The numbers of one process, until they are told.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::Metric;
use crate::domain::{ids::ActivityId, time::UnixMillis};

/// Most activities that a process tells apart; the others together are [`OTHER`].
pub const ACTIVITIES_MAX: usize = 20;
/// No activity's id: those do not begin with a lower dash.
pub const OTHER: &str = "_other";
/// How long numbers may wait that may, in milliseconds.
pub const HOLD_MS: i64 = 10_000;
/// So many values of one metric are told at once: as many as one line may have.
pub const VALUES_MAX: usize = 100;
/// Most values of one metric that are kept at all. An invocation that notes more tells these.
const KEPT_MAX: usize = 10 * VALUES_MAX;

/// Which part of the deployment numbers are of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    Whole,
    /// An activity's id, or [`OTHER`].
    Activity(String),
}

/// What was counted, or noted.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Sum(u64),
    Each(Vec<f64>),
}

/// Numbers that are due.
#[derive(Debug, PartialEq)]
pub struct Held {
    /// When the last of them was noted.
    pub at: UnixMillis,
    pub values: BTreeMap<Label, BTreeMap<Metric, Value>>,
}

#[derive(Default)]
struct State {
    activities: BTreeSet<ActivityId>,
    values: BTreeMap<Label, BTreeMap<Metric, Value>>,
    /// When the first and the last value came that are held.
    between: Option<(UnixMillis, UnixMillis)>,
    at_once: bool,
}

/// Gathers the numbers of one process. Bounded, whatever is counted.
#[derive(Default)]
pub struct Meter(Mutex<State>);

impl Meter {
    pub fn count(&self, activity: Option<&ActivityId>, metric: Metric, n: u64, now: UnixMillis) {
        self.note(activity, metric, now, Value::Sum(0), |value| {
            if let Value::Sum(sum) = value {
                *sum = sum.saturating_add(n);
            }
        });
    }

    /// A value that is not finite is none.
    pub fn record(&self, activity: Option<&ActivityId>, metric: Metric, value: f64, now: UnixMillis) {
        self.note(activity, metric, now, Value::Each(Vec::new()), |noted| {
            if let Value::Each(values) = noted
                && values.len() < KEPT_MAX
                && value.is_finite()
            {
                values.push(value);
            }
        });
    }

    fn note(
        &self,
        activity: Option<&ActivityId>,
        metric: Metric,
        now: UnixMillis,
        empty: Value,
        add: impl FnOnce(&mut Value),
    ) {
        let mut state = self.state();
        let label = state.label(activity.filter(|_| metric.is_by_activity()));
        add(state.values.entry(label).or_default().entry(metric).or_insert(empty));
        state.between = Some((state.between.map_or(now, |(first, _)| first), now));
        state.at_once |= !metric.may_wait();
    }

    /// What is held, if it is time to tell it.
    pub fn take_due(&self, now: UnixMillis) -> Option<Held> {
        let mut state = self.state();
        let (first, last) = state.between?;
        // A clock that went back must not hold them for ever.
        let waited = !(0..HOLD_MS).contains(&now.since_ms(first));
        if !(state.at_once || waited || state.is_full()) {
            return None;
        }
        state.between = None;
        state.at_once = false;
        Some(Held { at: last, values: std::mem::take(&mut state.values) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn label(&mut self, activity: Option<&ActivityId>) -> Label {
        let Some(activity) = activity else { return Label::Whole };
        if self.activities.len() < ACTIVITIES_MAX && !self.activities.contains(activity) {
            self.activities.insert(activity.clone());
        }
        let known = self.activities.contains(activity);
        Label::Activity(if known { activity.to_string() } else { OTHER.to_owned() })
    }

    fn is_full(&self) -> bool {
        let full = |value: &Value| matches!(value, Value::Each(values) if values.len() >= VALUES_MAX);
        self.values.values().flat_map(BTreeMap::values).any(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: i64) -> UnixMillis {
        UnixMillis::new(1_000_000 + ms)
    }

    fn activity(number: usize) -> ActivityId {
        ActivityId::parse(&format!("sale-{number}")).unwrap()
    }

    #[test]
    fn refusals_wait_for_each_other_and_everything_else_is_told_at_once() {
        let meter = Meter::default();
        assert_eq!(meter.take_due(at(0)), None);
        meter.count(None, Metric::OrdersSoldOut, 1, at(0));
        meter.count(None, Metric::OrdersSoldOut, 2, at(5));
        assert_eq!(meter.take_due(at(HOLD_MS - 1)), None);
        let held = meter.take_due(at(HOLD_MS)).unwrap();
        assert_eq!((held.at, &held.values[&Label::Whole][&Metric::OrdersSoldOut]), (at(5), &Value::Sum(3)));
        assert_eq!(meter.take_due(at(2 * HOLD_MS)), None, "told once");

        meter.count(None, Metric::OrdersSoldOut, 1, at(0));
        meter.count(None, Metric::PastRedis, 1, at(1));
        assert_eq!(meter.take_due(at(1)).unwrap().values[&Label::Whole].len(), 2, "what waits goes along");
        meter.count(None, Metric::OrdersSoldOut, 1, at(0));
        assert!(meter.take_due(at(-1)).is_some(), "the clock went back");
    }

    #[test]
    fn a_line_full_of_values_is_told_and_values_are_bounded() {
        let meter = Meter::default();
        for value in 1..VALUES_MAX {
            meter.record(None, Metric::AdmitScriptTime, f64::from(u32::try_from(value).unwrap()), at(0));
        }
        meter.record(None, Metric::AdmitScriptTime, f64::NAN, at(0));
        assert_eq!(meter.take_due(at(0)), None);
        for _ in 0..2 * KEPT_MAX {
            meter.record(None, Metric::AdmitScriptTime, 1.0, at(0));
        }
        let held = meter.take_due(at(0)).unwrap();
        let Value::Each(values) = &held.values[&Label::Whole][&Metric::AdmitScriptTime] else { panic!() };
        assert_eq!(values.len(), KEPT_MAX);
    }

    #[test]
    fn activities_are_told_apart_up_to_a_bound_for_as_long_as_the_process_lives() {
        let meter = Meter::default();
        for number in 0..2 * ACTIVITIES_MAX {
            meter.count(Some(&activity(number)), Metric::OrdersCreated, 1, at(0));
            meter.count(Some(&activity(number)), Metric::PastRedis, 1, at(0));
        }
        let held = meter.take_due(at(0)).unwrap();
        assert_eq!(held.values.len(), ACTIVITIES_MAX + 2, "these, the others, and the whole");
        let of = |label: &str| held.values[&Label::Activity(label.to_owned())][&Metric::OrdersCreated].clone();
        assert_eq!((of("sale-19"), of(OTHER)), (Value::Sum(1), Value::Sum(20)));
        // It has no dimension for them.
        assert_eq!(held.values[&Label::Whole][&Metric::PastRedis], Value::Sum(40));
        meter.count(Some(&activity(39)), Metric::OrdersCreated, 1, at(0));
        assert_eq!(meter.take_due(at(0)).unwrap().values.keys().next(), Some(&Label::Activity(OTHER.to_owned())));
    }
}
