//! A buyer's token rate.

use holdfast::{adapters::redis::keys, domain::ids::BuyerId, ports::TokenGate};
use redis::cmd;

use super::support::{Sale, World, bucket};

pub async fn tokens_are_counted_per_minute(world: &World) {
    let sale = Sale::new(4, &[("a", 1)]);
    let (alice, bob) = (BuyerId::parse("}|alice").unwrap(), BuyerId::parse("bob").unwrap());
    let allow = async |buyer: &BuyerId| world.gate.allow_token(&sale.activity.id, bucket(3), buyer, 3).await.unwrap();
    for _ in 0..3 {
        assert_eq!(allow(&alice).await, Ok(()));
    }
    let key = keys::tokens(&sale.activity.id, bucket(3), &alice);
    let wait = allow(&alice).await.unwrap_err();
    assert!((50..=60).contains(&wait), "{wait}");
    assert_eq!(allow(&bob).await, Ok(()));
    let counted: u32 = world.raw(cmd("GET").arg(&key)).await;
    assert_eq!(counted, 3, "a refusal does not count");
    world.raw::<()>(cmd("PEXPIRE").arg(&key).arg(1)).await;
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while world.raw::<u32>(cmd("EXISTS").arg(&key)).await == 1 {
        assert!(std::time::Instant::now() < deadline, "the window does not end");
    }
    assert_eq!(allow(&alice).await, Ok(()));
    // What is no counter is no refusal either.
    world.raw::<()>(cmd("SET").arg(&key).arg("many")).await;
    assert!(world.gate.allow_token(&sale.activity.id, bucket(3), &alice, 3).await.is_err());
    world.del(&key).await;
    world.raw::<()>(cmd("RPUSH").arg(&key).arg("x")).await;
    assert!(world.gate.allow_token(&sale.activity.id, bucket(3), &alice, 3).await.is_err());
}

pub async fn a_counter_without_an_end_gets_one(world: &World) {
    let sale = Sale::new(1, &[("a", 1)]);
    let alice = BuyerId::parse("alice").unwrap();
    let key = keys::tokens(&sale.activity.id, bucket(0), &alice);
    for counted in [1, 9] {
        world.raw::<()>(cmd("SET").arg(&key).arg(counted)).await;
        let _ = world.gate.allow_token(&sale.activity.id, bucket(0), &alice, 3).await.unwrap();
        assert!(world.expires_at(&key).await > 0);
    }
}
