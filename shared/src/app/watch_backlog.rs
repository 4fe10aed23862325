//! Limits admission while the rollback queue is too long, and ends that by itself. What is waiting
//! there holds stock that nobody can buy: more of it would only make it longer.

use std::sync::{Mutex, PoisonError};

use crate::{
    domain::time::UnixMillis,
    ports::{Admission, AdmissionStore, Backlog, Clock, Fault, Limiting},
    telemetry::{self, Metric},
};

/// How long a measurement limits admission, in milliseconds: over two runs of the schedule, so that one
/// that does not run ends nothing, and all of them not running does.
pub const HOLD_MS: i64 = 660_000;
/// A limit that is still true is written anew when so much of it is left.
const RENEW_MS: i64 = HOLD_MS - 240_000;
/// A process measures at most this often.
pub const MEASURE_EVERY_MS: i64 = 10_000;

/// What a measurement came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Watched {
    /// Measured lately: not this time.
    Skipped,
    Free,
    /// It was not limited before, or no longer.
    Limited,
    StillLimited,
    Lifted,
}

pub struct WatchBacklog<S, B, C> {
    pub store: S,
    pub queue: B,
    pub clock: C,
    /// Messages from which on admission is limited; it ends below half of that.
    pub max: u64,
    /// Which function this is, for the stored item and the log.
    pub by: &'static str,
    pub measured_at: Mutex<Option<UnixMillis>>,
}

impl<S: AdmissionStore, B: Backlog, C: Clock> WatchBacklog<S, B, C> {
    pub const fn new(store: S, queue: B, clock: C, max: u64, by: &'static str) -> Self {
        Self { store, queue, clock, max, by, measured_at: Mutex::new(None) }
    }

    /// Measures and limits or frees admission.
    ///
    /// # Errors
    /// When queue or database did not answer: admission stays as it is until that runs out.
    pub async fn run(&self) -> Result<Watched, Fault> {
        let now = self.clock.now();
        if !self.is_due(now) {
            return Ok(Watched::Skipped);
        }
        let backlog = self.queue.roll_back_backlog().await?;
        let stored = self.store.admission().await?;
        let (watched, until) = judge(&stored, backlog, self.max, now);
        if let Some(until) = until {
            let max = self.max;
            let reason = match watched {
                Watched::Lifted => format!("{backlog} messages in the roll-back queue, under half of {max}"),
                _ => format!("{backlog} messages in the roll-back queue, more than {max} allow"),
            };
            let by = format!("system:{}", self.by);
            self.store.limit_admission(&Limiting { until, by, reason, backlog }).await?;
        }
        telemetry::record(Metric::RollBackBacklog, u32::try_from(backlog).unwrap_or(u32::MAX).into());
        let limited = matches!(watched, Watched::Limited | Watched::StillLimited);
        telemetry::record(Metric::AdmissionLimited, if limited { 1.0 } else { 0.0 });
        match watched {
            Watched::Limited => tracing::error!(backlog, max = self.max, by = self.by, %now, "admission_limited"),
            Watched::Lifted => tracing::warn!(backlog, max = self.max, by = self.by, %now, "admission_freed"),
            _ => {}
        }
        Ok(watched)
    }

    fn is_due(&self, now: UnixMillis) -> bool {
        let mut measured_at = self.measured_at.lock().unwrap_or_else(PoisonError::into_inner);
        let due = measured_at.is_none_or(|at| !(0..MEASURE_EVERY_MS).contains(&now.since_ms(at)));
        if due {
            *measured_at = Some(now);
        }
        due
    }
}

/// What to do, and until when to limit, if something is to be written. Above the threshold admission is
/// limited; what is limited stays so until the queue is half as long, so that it does not flap.
fn judge(stored: &Admission, backlog: u64, max: u64, now: UnixMillis) -> (Watched, Option<UnixMillis>) {
    let limited = stored.is_limited(now);
    if backlog > max && !limited {
        return (Watched::Limited, Some(now.plus_ms(HOLD_MS)));
    }
    if !limited {
        return (Watched::Free, None);
    }
    if backlog <= max / 2 {
        return (Watched::Lifted, Some(now));
    }
    let left_ms = stored.limited_until.map_or(0, |until| until.since_ms(now));
    (Watched::StillLimited, (left_ms < RENEW_MS).then(|| now.plus_ms(HOLD_MS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_limits_above_the_threshold_and_frees_under_half_of_it() {
        let now = UnixMillis::new(1_000_000_000);
        let limited_for = |ms| Admission { limited_until: Some(now.plus_ms(ms)), ..Admission::default() };
        let hold = Some(now.plus_ms(HOLD_MS));
        let rows = [
            (Admission::default(), 100, Watched::Free, None),
            (Admission::default(), 101, Watched::Limited, hold),
            // It had run out by itself.
            (limited_for(0), 101, Watched::Limited, hold),
            (limited_for(-1), 100, Watched::Free, None),
            // Between half and the whole it stays as it is.
            (limited_for(HOLD_MS), 101, Watched::StillLimited, None),
            (limited_for(HOLD_MS), 51, Watched::StillLimited, None),
            (limited_for(RENEW_MS - 1), 51, Watched::StillLimited, hold),
            (limited_for(HOLD_MS), 50, Watched::Lifted, Some(now)),
            (limited_for(HOLD_MS), 0, Watched::Lifted, Some(now)),
        ];
        for (stored, backlog, watched, until) in rows {
            assert_eq!(judge(&stored, backlog, 100, now), (watched, until), "{backlog} {stored:?}");
        }
    }
}
