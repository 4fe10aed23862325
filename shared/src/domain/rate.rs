//! A rate that many processes keep together without talking to each other: each takes an equal share.

use super::time::UnixMillis;

/// A share that was not asked for so long begins anew: the processes have been idle, and their credits
/// must not add up to a burst.
const IDLE_MS: i64 = 60_000;
/// A process may save up what its share gives in this time, and one order at least.
const BURST_MS: i64 = 100;

/// So many a second, over all processes together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRate {
    pub per_second: u32,
    /// Most processes that there may be: those that are not there leave their share unused.
    pub processes: u32,
}

/// One process's share: a bucket of credit that fills steadily.
///
/// The first credit has a random phase. A thousand fresh processes that each began with a whole credit
/// would let through a thousand at once; with half a credit each, all of them at the same moment.
#[derive(Clone, Debug)]
pub struct Share {
    /// Credit earned per millisecond.
    per_ms: i64,
    capacity: i64,
    credit: i64,
    asked_at: Option<UnixMillis>,
}

/// Credit that one admission costs. Whole numbers, so that a share adds up exactly.
const COST: i64 = 1_000_000_000;

impl Share {
    #[must_use]
    pub fn new(rate: SharedRate) -> Self {
        let per_ms = i64::from(rate.per_second) * (COST / 1_000) / i64::from(rate.processes.max(1));
        Self { per_ms, capacity: (per_ms * BURST_MS).max(COST), credit: 0, asked_at: None }
    }

    /// Whether one more may pass now. `phase` is random, from 0 to below 1.
    pub fn take(&mut self, now: UnixMillis, phase: f64) -> bool {
        match self.asked_at.map(|asked_at| now.since_ms(asked_at)) {
            // A clock that was set back gives nothing.
            Some(passed_ms) if passed_ms < IDLE_MS => {
                self.credit = (self.credit + passed_ms.max(0) * self.per_ms).min(self.capacity);
            }
            #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)] // a random number
            _ => self.credit = (phase * self.capacity as f64) as i64,
        }
        self.asked_at = Some(now);
        let passes = self.credit >= COST;
        if passes {
            self.credit -= COST;
        }
        passes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Admissions of so many fresh processes that are all asked every `every_ms`.
    fn admitted(rate: SharedRate, processes: u32, seconds: i64, every_ms: i64, seed: u64) -> u32 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut shares: Vec<Share> = (0..processes).map(|_| Share::new(rate)).collect();
        let mut passed = 0;
        for at in (0..seconds * 1_000).step_by(usize::try_from(every_ms).unwrap()) {
            for share in &mut shares {
                passed += u32::from(share.take(UnixMillis::new(at), rng.f64()));
            }
        }
        passed
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// However many there are and however short the time: the rate, and a small constant. (The sum
        /// of N random phases spreads by √N ÷ 3.5: six times that.)
        #[test]
        fn processes_keep_a_rate_together(
            per_second in 10_u32..400, processes in prop::sample::select(vec![1_u32, 10, 1_000]), seconds in 1_i64..20,
            every_ms in prop::sample::select(vec![7_i64, 50, 900]), seed: u64,
        ) {
            let passed = f64::from(admitted(SharedRate { per_second, processes }, processes, seconds, every_ms, seed));
            #[allow(clippy::cast_precision_loss)]
            let allowed = f64::from(per_second) * seconds as f64;
            let burst = 1.0 + f64::from(per_second) / 10.0;
            let spread = 6.0 * f64::from(processes).sqrt() / 3.5;
            prop_assert!(passed <= allowed + burst + spread, "{passed} of {allowed}");
        }
    }

    #[test]
    fn a_share_is_used_up_to_the_full() {
        for processes in [1, 10, 1_000] {
            let passed = admitted(SharedRate { per_second: 100, processes }, processes, 100, 10, 1);
            assert!((9_900..=10_040).contains(&passed), "{processes}: {passed}");
        }
    }

    #[test]
    fn a_thousand_processes_do_not_each_let_one_through_at_once() {
        let rate = SharedRate { per_second: 100, processes: 1_000 };
        // The first moment, and the first after an hour in which nobody asked.
        let mut rng = fastrand::Rng::with_seed(7);
        let mut shares: Vec<Share> = (0..1_000).map(|_| Share::new(rate)).collect();
        for at in [0, 3_600_000] {
            let passed = shares.iter_mut().filter_map(|share| share.take(UnixMillis::new(at), rng.f64()).then_some(()));
            assert_eq!(passed.count(), 0);
        }
        // Nobody is starved for ever either: each gets its order within ten seconds.
        let mut waiting = shares;
        for at in 0..1_000 {
            waiting.retain_mut(|share| !share.take(UnixMillis::new(3_600_000 + at * 10), 0.0));
        }
        assert!(waiting.len() <= 10, "{}", waiting.len());
    }

    #[test]
    fn a_clock_that_jumps_gives_no_burst() {
        let mut share = Share::new(SharedRate { per_second: 1, processes: 1 });
        assert!(!share.take(UnixMillis::new(10_000), 0.5));
        assert!(!share.take(UnixMillis::new(5_000), 0.5), "back");
        assert!(share.take(UnixMillis::new(6_000), 0.5));
        assert!(share.take(UnixMillis::new(64_000), 0.5));
        assert!(!share.take(UnixMillis::new(64_000), 0.5), "a minute's credit is not saved up");
        assert!(!share.take(UnixMillis::new(9_000_000_000), 0.5), "forth");
    }
}
