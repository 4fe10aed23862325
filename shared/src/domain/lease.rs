//! Leases of the distributed lock: how long, who, what. A duration has its unit in its type, so that
//! seconds cannot be passed for milliseconds.

use std::time::Duration;

use super::Invalid;

/// Shortest lease: below that a renewal at a third of it could not be on time.
pub const LEASE_MIN: Duration = Duration::from_millis(300);
/// Longest lease. A dead owner blocks the others for so long; a job that needs longer renews, or is cut
/// into smaller batches.
pub const LEASE_MAX: Duration = Duration::from_mins(2);
/// Longest name, in characters.
const NAME_MAX_CHARS: usize = 128;

/// How long a lock is held unless it is renewed, within [`LEASE_MIN`] and [`LEASE_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease(Duration);

impl Lease {
    /// Durations outside of the bounds are pulled to them: a lease of hours can only be a mistake of units.
    #[must_use]
    pub const fn new(duration: Duration) -> Self {
        if duration.as_millis() < LEASE_MIN.as_millis() {
            Self(LEASE_MIN)
        } else if duration.as_millis() > LEASE_MAX.as_millis() {
            Self(LEASE_MAX)
        } else {
            Self(duration)
        }
    }

    #[must_use]
    pub const fn duration(self) -> Duration {
        self.0
    }

    /// Whole milliseconds, as Redis's `PX` counts.
    #[must_use]
    pub const fn as_ms(self) -> u128 {
        self.0.as_millis()
    }

    /// When to renew: at a third, so that one failed renewal leaves time for another one.
    #[must_use]
    pub fn renew_every(self) -> Duration {
        self.0 / 3
    }
}

/// What is locked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LockName(String);

impl LockName {
    /// # Errors
    /// When it is empty, longer than 128 characters, or has others than `A-Z a-z 0-9 _ . # -`: a brace
    /// would move the key to another slot.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.#-".contains(c);
        if text.is_empty() || text.len() > NAME_MAX_CHARS || !text.chars().all(allowed) {
            return Err(Invalid::new("lock", "must be 1 to 128 of A-Z a-z 0-9 _ . # -"));
        }
        Ok(Self(text.to_owned()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who holds a lock: different for every acquisition, so that an owner can tell its own lock from one
/// that somebody took after the lease ran out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockOwner(String);

impl LockOwner {
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(data_encoding::HEXLOWER.encode(&bytes))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Number of a holder's turn: every later holder has a greater one, also when Redis forgot who held the
/// lock. What the lock protects refuses writes with a smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence(u64);

impl Fence {
    /// Before any holder.
    pub const NONE: Self = Self(0);

    #[must_use]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f32_a_lease_has_its_unit_in_its_type_and_a_mistaken_one_is_no_lock_for_hours() {
        assert_eq!(Lease::new(Duration::from_secs(30)).as_ms(), 30_000);
        // `EX 30000` for `PX 30000`: the mistake that held a lock for 500 minutes.
        assert_eq!(Lease::new(Duration::from_mins(500)).duration(), LEASE_MAX);
        assert_eq!(Lease::new(Duration::ZERO).duration(), LEASE_MIN);
        assert_eq!(Lease::new(Duration::from_secs(30)).renew_every(), Duration::from_secs(10));
    }

    #[test]
    fn names_keep_to_one_slot() {
        for good in ["reconcile#sale-1", "a", &"x".repeat(128)] {
            assert_eq!(LockName::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a{b}", "a:b", "a b", "ü", &"x".repeat(129)] {
            assert!(LockName::parse(bad).is_err(), "{bad}");
        }
    }
}
