//! The circuit breaker: after two calls in a row that found no usable server, calls fail at once until a
//! single probe finds one. A state machine without a clock of its own; see
//! docs/decisions/0005-a-breaker-of-our-own.md.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use redis::cluster_routing::Slot;
use tokio::time::Instant;

use crate::telemetry::{self, Metric};

/// Failures in a row that open it.
const FAILURES_MAX: u32 = 2;
/// How long it stays open before the first probe, at most; each failed probe doubles it.
const INTERVAL: Duration = Duration::from_millis(250);
/// Longest that it stays open between two probes.
const INTERVAL_MAX: Duration = Duration::from_secs(5);
/// How long a probe may be out. One that never came back must not be the last.
const PROBE_MAX: Duration = Duration::from_secs(5);

/// What a call may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Pass,
    /// Pass, and decide by the outcome whether others may.
    Probe,
    Refused,
}

/// What changed, told once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Opened,
    Closed,
}

/// One circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Breaker {
    Closed {
        failures: u32,
    },
    Open {
        /// When the next probe may go.
        until: Instant,
        interval: Duration,
        /// When the probe that is out is given up.
        probing: Option<Instant>,
    },
}

impl Breaker {
    fn admit(&mut self, now: Instant) -> Admission {
        match self {
            Self::Closed { .. } => Admission::Pass,
            Self::Open { until, probing, .. } if now < probing.unwrap_or(*until) => Admission::Refused,
            Self::Open { probing, .. } => {
                *probing = Some(now + PROBE_MAX);
                Admission::Probe
            }
        }
    }

    /// A usable server answered.
    fn answered(&mut self) -> Option<Change> {
        let was_open = matches!(self, Self::Open { .. });
        *self = Self::Closed { failures: 0 };
        was_open.then_some(Change::Closed)
    }

    /// `jitter` from 0 to 1: it stays open for half the interval up to all of it, so that processes
    /// which opened together do not probe together.
    fn failed(&mut self, admitted: Admission, now: Instant, jitter: f64) -> Option<Change> {
        let open = |interval: Duration| Self::Open {
            until: now + interval.mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0),
            interval,
            probing: None,
        };
        match *self {
            Self::Closed { failures } if failures + 1 < FAILURES_MAX => {
                *self = Self::Closed { failures: failures + 1 };
                None
            }
            Self::Closed { .. } => {
                *self = open(INTERVAL);
                Some(Change::Opened)
            }
            Self::Open { interval, .. } if admitted == Admission::Probe => {
                *self = open((interval * 2).min(INTERVAL_MAX));
                None
            }
            // Sent before it opened: nothing new.
            Self::Open { .. } => None,
        }
    }

    /// The probe ended without telling anything: its caller went away. The next call probes.
    fn abandoned(&mut self) {
        if let Self::Open { probing, .. } = self {
            *probing = None;
        }
    }
}

/// What fails together: a server, or one hash slot of a cluster, which is on one node at a time.
pub(super) type Circuit = Option<Slot>;

/// The circuits that are not well; at most one per hash slot. Those that are not named are closed.
#[derive(Debug, Default)]
pub(super) struct Breakers(Mutex<HashMap<Circuit, Breaker>>);

impl Breakers {
    /// # Errors
    /// When the circuit is open and a probe is out or not due yet.
    pub fn admit(&self, circuit: Circuit, now: Instant) -> Result<Permit<'_>, Open> {
        let admitted = self.unwell().get_mut(&circuit).map_or(Admission::Pass, |breaker| breaker.admit(now));
        match admitted {
            Admission::Refused => Err(Open),
            Admission::Pass | Admission::Probe => Ok(Permit { breakers: self, circuit, admitted, told: false }),
        }
    }

    fn unwell(&self) -> MutexGuard<'_, HashMap<Circuit, Breaker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The circuit is open: nothing is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open;

/// A call that may be sent. Dropped without a word, it counts for nothing.
#[derive(Debug)]
pub(super) struct Permit<'a> {
    breakers: &'a Breakers,
    circuit: Circuit,
    admitted: Admission,
    told: bool,
}

impl Permit<'_> {
    /// A probe is not repeated: one is enough to know.
    pub fn is_probe(&self) -> bool {
        self.admitted == Admission::Probe
    }

    pub fn answered(mut self) {
        self.told = true;
        let closed = self.breakers.unwell().remove(&self.circuit).and_then(|mut breaker| breaker.answered());
        if closed == Some(Change::Closed) {
            tracing::warn!(slot = ?self.circuit, "breaker_closed");
        }
    }

    pub fn failed(mut self, now: Instant) {
        self.told = true;
        let mut unwell = self.breakers.unwell();
        let breaker = unwell.entry(self.circuit).or_insert(Breaker::Closed { failures: 0 });
        let change = breaker.failed(self.admitted, now, fastrand::f64());
        drop(unwell);
        if change == Some(Change::Opened) {
            telemetry::count(Metric::BreakerOpened, 1);
            tracing::error!(slot = ?self.circuit, "breaker_open");
        }
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.told
            && self.is_probe()
            && let Some(breaker) = self.breakers.unwell().get_mut(&self.circuit)
        {
            breaker.abandoned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(now: Instant) -> Breaker {
        let mut breaker = Breaker::Closed { failures: 0 };
        assert_eq!(breaker.failed(Admission::Pass, now, 1.0), None);
        assert_eq!(breaker.admit(now), Admission::Pass);
        assert_eq!(breaker.failed(Admission::Pass, now, 1.0), Some(Change::Opened));
        breaker
    }

    #[test]
    fn the_second_failure_in_a_row_opens_it_and_an_answer_in_between_does_not() {
        let now = Instant::now();
        let mut breaker = Breaker::Closed { failures: 0 };
        for _ in 0..5 {
            assert_eq!(breaker.failed(Admission::Pass, now, 0.5), None);
            assert_eq!(breaker.answered(), None);
        }
        let mut breaker = opened(now);
        assert_eq!(breaker.admit(now), Admission::Refused);
        // What was sent before it opened and fails now neither opens it again nor puts the probe off.
        let before = breaker;
        assert_eq!(breaker.failed(Admission::Pass, now + INTERVAL, 1.0), None);
        assert_eq!(breaker, before);
    }

    #[test]
    fn one_probe_at_a_time_decides() {
        let now = Instant::now();
        let mut breaker = opened(now);
        let later = now + INTERVAL;
        assert_eq!(breaker.admit(later), Admission::Probe);
        for _ in 0..3 {
            assert_eq!(breaker.admit(later + INTERVAL), Admission::Refused);
        }
        assert_eq!(breaker.failed(Admission::Probe, later, 1.0), None, "it was open and stays so");
        assert_eq!(breaker.admit(later + INTERVAL), Admission::Refused, "for twice as long");
        assert_eq!(breaker.admit(later + INTERVAL * 2), Admission::Probe);
        assert_eq!(breaker.answered(), Some(Change::Closed));
        assert_eq!(breaker.admit(later), Admission::Pass);
        assert_eq!(breaker.failed(Admission::Pass, later, 1.0), None, "and counts from the beginning");
    }

    #[test]
    fn the_interval_doubles_up_to_its_bound_and_is_jittered() {
        let mut now = Instant::now();
        let mut breaker = opened(now);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let Breaker::Open { until, .. } = breaker else { panic!("closed") };
            waits.push(u64::try_from((until - now).as_millis()).unwrap());
            now = until;
            assert_eq!(breaker.admit(now), Admission::Probe);
            breaker.failed(Admission::Probe, now, 1.0);
        }
        assert_eq!(waits, [250, 500, 1_000, 2_000, 4_000, 5_000, 5_000, 5_000]);
        let mut shortest = Breaker::Closed { failures: 1 };
        shortest.failed(Admission::Pass, now, 0.0);
        assert_eq!(shortest.admit(now + INTERVAL / 2), Admission::Probe);
    }

    #[test]
    fn circuits_are_apart_and_an_abandoned_probe_makes_room_for_the_next() {
        let (breakers, now) = (Breakers::default(), Instant::now());
        let (sick, well) = (Some(Slot::for_key("{a:0}")), Some(Slot::for_key("{a:1}")));
        assert_ne!(sick, well);
        for _ in 0..2 {
            breakers.admit(sick, now).unwrap().failed(now);
        }
        assert_eq!(breakers.admit(sick, now).err(), Some(Open));
        assert!(breakers.admit(well, now).is_ok_and(|permit| !permit.is_probe()));
        let now = now + INTERVAL;
        let probe = breakers.admit(sick, now).unwrap();
        assert!(probe.is_probe());
        assert_eq!(breakers.admit(sick, now).err(), Some(Open));
        drop(probe);
        let probe = breakers.admit(sick, now).unwrap();
        assert!(probe.is_probe());
        // One whose process was frozen for long is not waited for.
        let now = now + PROBE_MAX;
        let other = breakers.admit(sick, now).unwrap();
        assert!(other.is_probe());
        other.answered();
        assert!(breakers.unwell().is_empty(), "what is well is not remembered");
        drop(probe);
        assert!(breakers.admit(sick, now).is_ok());
    }
}
