//! Bounded retries of what was certainly not applied: conflicts between transactions, and throttling.

use std::time::Duration;

/// How often something is tried, and how long to wait in between.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// Tries, the first one included.
    pub tries: u32,
    /// Longest pause after the first try; it doubles with every further one.
    pub base: Duration,
    /// Longest pause at all.
    pub cap: Duration,
}

/// For what a buyer waits for: some two seconds at most in all, because coming back later costs a buyer seconds, in which the
/// unit is held for nobody. The pauses stay short, because the last units of a sale are those that met others often:
/// with pauses of up to 200 ms they lay idle while everybody else was told "sold out".
pub const BUYER: Patience = Patience { tries: 40, base: Duration::from_millis(8), cap: Duration::from_millis(50) };

/// For what must get through while a sale runs and its transactions hold the item nearly all the
/// time: an operator's freeze, a claim, a repair.
pub const STEADY: Patience = Patience { tries: 20, base: Duration::from_millis(8), cap: Duration::from_millis(100) };

impl Patience {
    /// Waits before try number `tried` (from 0; the first one does not wait): any time up to the
    /// bound, so that those who collided do not meet again.
    pub async fn pause(&self, tried: u32) {
        let bound = self.bound(tried);
        if !bound.is_zero() {
            tokio::time::sleep(bound.mul_f64(fastrand::f64())).await;
        }
    }

    fn bound(&self, tried: u32) -> Duration {
        let Some(doublings) = tried.checked_sub(1) else { return Duration::ZERO };
        self.base.saturating_mul(1 << doublings.min(16)).min(self.cap)
    }
}

/// Whether this error code, of a call or of one action of a transaction, says that nothing was
/// applied and that trying again may help.
pub fn may_pass(code: &str) -> bool {
    matches!(
        code,
        "TransactionConflict"
            | "TransactionConflictException"
            | "TransactionInProgressException"
            | "ProvisionedThroughputExceeded"
            | "ProvisionedThroughputExceededException"
            | "ThrottlingError"
            | "ThrottlingException"
            | "RequestLimitExceeded"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_cap() {
        let bounds: Vec<u128> = (0..8).map(|tried| BUYER.bound(tried).as_millis()).collect();
        assert_eq!(bounds, [0, 8, 16, 32, 50, 50, 50, 50]);
        assert_eq!(BUYER.bound(u32::MAX), BUYER.cap);
    }
}
