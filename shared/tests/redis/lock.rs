//! The distributed lock.

use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use holdfast::{
    adapters::redis::keys,
    app::lease::{Locked, Locking},
    domain::lease::{Lease, LockName, LockOwner},
    ports::{Acquired, LockGate, Still},
};
use redis::cmd;
use tokio::{task::JoinSet, time::Instant};

use super::support::World;

static NEXT: AtomicU32 = AtomicU32::new(0);

fn name() -> LockName {
    LockName::parse(&format!("lock#{}", NEXT.fetch_add(1, Ordering::Relaxed))).unwrap()
}

fn owner(number: u8) -> LockOwner {
    LockOwner::from_bytes([number; 16])
}

fn long() -> Lease {
    Lease::new(Duration::from_mins(1))
}

async fn holder(world: &World, name: &LockName) -> Option<String> {
    world.raw(cmd("GET").arg(keys::lock(name))).await
}

pub async fn of_many_owners_one_gets_the_lock(world: &World) {
    let name = name();
    let mut racing = JoinSet::new();
    for number in 0..32 {
        let (gate, name) = (world.gate.clone(), name.clone());
        racing.spawn(async move { (number, gate.acquire(&name, &owner(number), long()).await.unwrap()) });
    }
    let all = racing.join_all().await;
    let held: Vec<u8> = all.iter().filter(|(_, got)| *got == Acquired::Held).map(|(number, _)| *number).collect();
    let [winner] = held[..] else { panic!("{held:?} hold it") };
    assert_eq!(holder(world, &name).await.as_deref(), Some(owner(winner).as_str()));
    // The same call again, because its answer was lost: it is its own lock that it meets.
    assert_eq!(world.gate.acquire(&name, &owner(winner), long()).await.unwrap(), Acquired::Held);
}

pub async fn nobody_releases_or_renews_what_is_anothers(world: &World) {
    let (name, mine, theirs) = (name(), owner(1), owner(2));
    assert_eq!(world.gate.acquire(&name, &theirs, long()).await.unwrap(), Acquired::Held);
    let until = world.expires_at(&keys::lock(&name)).await;
    assert_eq!(world.gate.release(&name, &mine).await.unwrap(), Still::Lost);
    assert_eq!(world.gate.renew(&name, &mine, Lease::new(Duration::from_mins(2))).await.unwrap(), Still::Lost);
    assert_eq!(holder(world, &name).await.as_deref(), Some(theirs.as_str()));
    assert_eq!(world.expires_at(&keys::lock(&name)).await, until);
    assert_eq!(world.gate.release(&name, &theirs).await.unwrap(), Still::Own);
    assert_eq!(world.gate.release(&name, &theirs).await.unwrap(), Still::Lost, "a second release is no error");
    assert_eq!(holder(world, &name).await, None);
}

pub async fn f10_a_lease_that_ran_out_is_lost_to_the_next_owner(world: &World) {
    let (name, slow, next) = (name(), owner(1), owner(2));
    assert_eq!(world.gate.acquire(&name, &slow, Lease::new(Duration::ZERO)).await.unwrap(), Acquired::Held);
    let deadline = Instant::now() + Duration::from_secs(20);
    while world.gate.acquire(&name, &next, long()).await.unwrap() == Acquired::Busy {
        assert!(Instant::now() < deadline, "the lease does not run out");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Late: neither lengthens nor ends what the next one holds.
    assert_eq!(world.gate.renew(&name, &slow, long()).await.unwrap(), Still::Lost);
    assert_eq!(world.gate.release(&name, &slow).await.unwrap(), Still::Lost);
    assert_eq!(holder(world, &name).await.as_deref(), Some(next.as_str()));
}

pub async fn a_lock_that_redis_forgot_is_lost_and_free(world: &World) {
    let (name, first, second) = (name(), owner(1), owner(2));
    assert_eq!(world.gate.acquire(&name, &first, long()).await.unwrap(), Acquired::Held);
    world.del(&keys::lock(&name)).await;
    assert_eq!(world.gate.renew(&name, &first, long()).await.unwrap(), Still::Lost);
    assert_eq!(holder(world, &name).await, None, "a renewal makes no lock");
    assert_eq!(world.gate.acquire(&name, &second, long()).await.unwrap(), Acquired::Held);
    assert_eq!(world.gate.release(&name, &first).await.unwrap(), Still::Lost);
    assert_eq!(holder(world, &name).await.as_deref(), Some(second.as_str()));
}

pub async fn f32_a_lease_is_in_milliseconds(world: &World) {
    let name = name();
    let lease = Lease::new(Duration::from_secs(30));
    assert_eq!(world.gate.acquire(&name, &owner(1), lease).await.unwrap(), Acquired::Held);
    let left: i64 = world.raw(cmd("PTTL").arg(keys::lock(&name))).await;
    assert!(left > 0 && left <= 30_000, "{left} ms");
    assert_eq!(world.gate.renew(&name, &owner(1), long()).await.unwrap(), Still::Own);
    let left: i64 = world.raw(cmd("PTTL").arg(keys::lock(&name))).await;
    assert!(left > 30_000 && left <= 60_000, "{left} ms");
}

pub async fn work_longer_than_its_lease_keeps_others_out(world: &World) {
    let lease = Lease::new(Duration::ZERO);
    let locking = Locking { gate: &world.gate, name: name(), lease, renewals_max: 1_000 };
    let work = async {
        let end = Instant::now() + lease.duration() * 3;
        let mut asked = 0;
        while Instant::now() < end {
            let other = Locking { gate: &world.gate, name: locking.name.clone(), lease, renewals_max: 0 };
            assert_eq!(other.run(async {}).await.unwrap(), Locked::Busy);
            asked += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        asked
    };
    let Locked::Done(asked) = locking.run(work).await.unwrap() else { panic!("nobody else has it") };
    assert!(asked > 3, "{asked}");
    assert_eq!(holder(world, &locking.name).await, None, "released");
}
