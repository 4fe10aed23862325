//! The distributed lock. It saves work, it does not keep anything right: what it protects checks the
//! fence, so whoever cannot reach the lock may go on without it.

use std::future::Future;

use super::Fault;
use crate::domain::lease::{Lease, LockName, LockOwner};

/// What acquiring answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Acquired {
    /// Held by this owner until the lease runs out: by this call, or by an earlier one of the same owner
    /// whose answer was lost.
    Held,
    /// Somebody else holds it.
    Busy,
}

/// What renewing and releasing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Still {
    /// It was this owner's until now.
    Own,
    /// It was not this owner's any more: nothing was changed.
    Lost,
}

/// Locks with a lease.
pub trait LockGate: Send + Sync {
    /// MUST be one atomic step that sets both owner and lease, and MUST NOT take a lock from anybody.
    fn acquire(
        &self,
        name: &LockName,
        owner: &LockOwner,
        lease: Lease,
    ) -> impl Future<Output = Result<Acquired, Fault>> + Send;

    /// Lets the lease begin anew. MUST check the owner in the same step.
    fn renew(
        &self,
        name: &LockName,
        owner: &LockOwner,
        lease: Lease,
    ) -> impl Future<Output = Result<Still, Fault>> + Send;

    /// Gives the lock up. MUST check the owner in the same step: never another owner's lock.
    fn release(&self, name: &LockName, owner: &LockOwner) -> impl Future<Output = Result<Still, Fault>> + Send;
}
