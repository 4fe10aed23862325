//! Work under the distributed lock: acquire, work while the lease is renewed, release. The lock only
//! keeps others from doing the same work meanwhile; what is right is kept right by the fence and by
//! repairs that may be repeated. So nothing here fails because a lock did.

use std::{future::Future, pin::pin};

use tokio::time::Instant;

use crate::{
    domain::lease::{Lease, LockName, LockOwner},
    ports::{Acquired, Fault, LockGate, Still},
    telemetry::{self, Metric},
};

/// A lock that somebody wants to work under.
pub struct Locking<'a, G> {
    pub gate: &'a G,
    pub name: LockName,
    pub lease: Lease,
    /// Most renewals in all: a job that hangs must not hold its lock for ever.
    pub renewals_max: u32,
}

/// What working under a lock comes to.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Locked<T> {
    Done(T),
    /// Somebody else is at it: nothing was done.
    Busy,
}

impl<G: LockGate> Locking<'_, G> {
    /// Does the work, unless somebody else holds the lock. When the lock cannot be reached the work is
    /// done without it.
    ///
    /// # Errors
    /// When no randomness is to be had for the owner's name.
    pub async fn run<T>(&self, work: impl Future<Output = T> + Send) -> Result<Locked<T>, Fault> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| Fault::not_applied("name a lock's owner", error))?;
        let owner = LockOwner::from_bytes(bytes);
        let asked_at = Instant::now();
        let acquired = self.gate.acquire(&self.name, &owner, self.lease).await;
        telemetry::record_since(Metric::LockWait, asked_at);
        match acquired {
            Ok(Acquired::Busy) => return Ok(Locked::Busy),
            Ok(Acquired::Held) => {}
            Err(fault) => {
                tracing::warn!(lock = self.name.as_str(), fault = fault.chain(), "lock_unavailable");
            }
        }
        let (work, renewing) = (pin!(work), pin!(self.keep_renewing(&owner)));
        // Renewing is a part of this future and of nothing else: it ends with the work.
        let done = tokio::select! {
            biased;
            done = work => done,
            never = renewing => match never {},
        };
        match self.gate.release(&self.name, &owner).await {
            Ok(Still::Own) => {}
            Ok(Still::Lost) => self.tell_lost(),
            Err(fault) => tracing::warn!(lock = self.name.as_str(), fault = fault.chain(), "lock_not_released"),
        }
        Ok(Locked::Done(done))
    }

    fn tell_lost(&self) {
        telemetry::count(Metric::LocksLost, 1);
        tracing::warn!(lock = self.name.as_str(), "lock_lost");
    }

    async fn keep_renewing(&self, owner: &LockOwner) -> std::convert::Infallible {
        for _ in 0..self.renewals_max {
            tokio::time::sleep(self.lease.renew_every()).await;
            match self.gate.renew(&self.name, owner, self.lease).await {
                Ok(Still::Own) => {}
                Ok(Still::Lost) => {
                    self.tell_lost();
                    break;
                }
                // Two thirds of the lease are left for the next try.
                Err(fault) => tracing::warn!(lock = self.name.as_str(), fault = fault.chain(), "lock_not_renewed"),
            }
        }
        std::future::pending().await
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Mutex, time::Duration};

    use super::*;

    /// The shortest one, so that the tests are short.
    const LEASE: Lease = Lease::new(Duration::ZERO);

    /// What a server does not do on demand: a lock that answers as told, and keeps what it was asked.
    #[derive(Default)]
    struct Script {
        asked: Mutex<Vec<&'static str>>,
        broken: bool,
        busy: bool,
        lost: bool,
    }

    impl Script {
        fn answer<T>(&self, asked: &'static str, good: T) -> Result<T, Fault> {
            self.asked.lock().unwrap().push(asked);
            if self.broken { Err(Fault::not_applied(asked, "gone")) } else { Ok(good) }
        }

        fn asked(&self) -> Vec<&'static str> {
            self.asked.lock().unwrap().clone()
        }

        async fn run<T>(&self, renewals_max: u32, work: impl Future<Output = T> + Send) -> Locked<T> {
            let name = LockName::parse("job").unwrap();
            Locking { gate: self, name, lease: LEASE, renewals_max }.run(work).await.unwrap()
        }

        fn renewals(&self) -> usize {
            self.asked().iter().filter(|asked| **asked == "renew").count()
        }

        /// Work that lasts until so many renewals were tried, and some renewals longer.
        async fn work(&self, renewals: usize, longer: u32) {
            while self.renewals() < renewals {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            tokio::time::sleep(LEASE.renew_every() * longer).await;
        }
    }

    impl LockGate for Script {
        async fn acquire(&self, _: &LockName, _: &LockOwner, _: Lease) -> Result<Acquired, Fault> {
            self.answer("acquire", if self.busy { Acquired::Busy } else { Acquired::Held })
        }

        async fn renew(&self, _: &LockName, _: &LockOwner, _: Lease) -> Result<Still, Fault> {
            self.answer("renew", if self.lost { Still::Lost } else { Still::Own })
        }

        async fn release(&self, _: &LockName, _: &LockOwner) -> Result<Still, Fault> {
            self.answer("release", if self.lost { Still::Lost } else { Still::Own })
        }
    }

    #[tokio::test]
    async fn f10_renewal_goes_on_while_the_work_does_and_ends_with_the_lock() {
        let script = Script::default();
        assert_eq!(script.run(10, script.work(3, 0)).await, Locked::Done(()));
        assert_eq!(script.asked(), ["acquire", "renew", "renew", "renew", "release"]);
        tokio::time::sleep(LEASE.renew_every() * 3).await;
        assert_eq!(script.asked().len(), 5, "nothing renews what was released");
    }

    #[tokio::test]
    async fn f31_renewals_are_bounded() {
        let script = Script::default();
        assert_eq!(script.run(2, script.work(2, 3)).await, Locked::Done(()));
        assert_eq!(script.renewals(), 2);
    }

    #[tokio::test]
    async fn a_lost_lock_is_a_warning_and_is_not_renewed() {
        let script = Script { lost: true, ..Script::default() };
        assert_eq!(script.run(10, script.work(1, 3)).await, Locked::Done(()));
        assert_eq!(script.asked(), ["acquire", "renew", "release"]);
    }

    #[tokio::test]
    async fn nothing_breaks_when_the_lock_does() {
        let script = Script { broken: true, ..Script::default() };
        assert_eq!(script.run(10, script.work(2, 0)).await, Locked::Done(()));
        let busy = Script { busy: true, ..Script::default() };
        assert_eq!(busy.run(10, async { unreachable!("somebody else is at it") }).await, Locked::<()>::Busy);
        assert_eq!(busy.asked(), ["acquire"]);
    }
}
