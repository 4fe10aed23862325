//! The distributed lock: [`LockGate`] on Redis.

use super::{
    Gate,
    call::{Call, Reply},
    keys,
    scripts::{release_lock, renew_lock},
};
use crate::{
    domain::lease::{Lease, LockName, LockOwner},
    ports::{Acquired, Fault, LockGate, Still},
};

impl LockGate for Gate {
    async fn acquire(&self, name: &LockName, owner: &LockOwner, lease: Lease) -> Result<Acquired, Fault> {
        let mut command = redis::cmd("SET");
        command.arg(keys::lock(name)).arg(owner.as_str()).arg("NX").arg("PX").arg(lease.as_ms().to_string());
        // With GET it answers who holds it: a call that is sent again because its answer was lost finds
        // itself there.
        command.arg("GET");
        let holder = |reply: &Reply| match reply.items()?.first() {
            None | Some(None) => Ok(Acquired::Held),
            Some(Some(holder)) if holder == owner.as_str() => Ok(Acquired::Held),
            Some(Some(_)) => Ok(Acquired::Busy),
        };
        self.ask(Call::command("acquire_lock", command), holder).await
    }

    async fn renew(&self, name: &LockName, owner: &LockOwner, lease: Lease) -> Result<Still, Fault> {
        self.ask(renew_lock::call(name, owner, lease), renew_lock::parse).await
    }

    async fn release(&self, name: &LockName, owner: &LockOwner) -> Result<Still, Fault> {
        self.ask(release_lock::call(name, owner), release_lock::parse).await
    }
}
