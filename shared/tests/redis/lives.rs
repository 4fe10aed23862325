//! How long keys live.

use std::time::Duration;

use holdfast::{
    adapters::redis::keys,
    domain::{
        lease::{Lease, LockName, LockOwner},
        order::{Placement, Take},
    },
    ports::{Acquired, LockGate, OrderGate, PlaceAnswer, Restocked, Restored, StockGate, TokenGate, Undone},
};
use redis::cmd;
use tokio::time::Instant;

use super::support::{HOUR_MS, Sale, World, allotment, bucket, now, units};

pub async fn every_key_has_a_life_and_marks_outlive_stock(world: &World) {
    let sale = world.sale(1, &[("a", 5)]).await;
    let keys = sale.keys(0);
    let placement = sale.placement("alice", 1, &[("a", 1)]);
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![1]));
    // The last record goes: a hash that is emptied would lose its life.
    assert_eq!(world.gate.undo(&sale.activity, &placement, bucket(0)).await.unwrap(), Undone::Done);
    // A ledger that went missing comes back with a life.
    world.del(&keys.ledger).await;
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![1]));
    assert!(world.gate.allow_token(&sale.activity.id, bucket(0), &placement.buyer, 9).await.unwrap().is_ok());
    let now = now().get();
    let stock = world.expires_at(&keys.bucket).await - now;
    assert_eq!(world.expires_at(&keys.bucket).await, sale.activity.stock_keys_expire_at().get());
    for key in [&keys.orders, &keys.ledger] {
        let life = world.expires_at(key).await - now;
        assert!(life >= 2 * stock - 60_000, "{key}: {life} ms, stock {stock} ms");
    }
    let tokens = world.expires_at(&keys::tokens(&sale.activity.id, bucket(0), &placement.buyer)).await - now;
    assert!((0..=61_000).contains(&tokens), "{tokens}");
}

pub async fn keys_made_on_a_flushed_bucket_have_a_life(world: &World) {
    let sale = world.sale(1, &[("a", 5)]).await;
    let keys = sale.keys(0);
    let placement = sale.placement("alice", 1, &[("a", 1)]);
    world.flush(&sale, 0).await;
    let _ = world.gate.restock(&sale.activity, &placement.order_no, bucket(0), Take::FIRST, false, None).await.unwrap();
    let expected = sale.activity.marks_expire_at(now()).get();
    for key in [&keys.orders, &keys.ledger] {
        assert!((world.expires_at(key).await - expected).abs() < 60_000, "{key}");
    }
    assert_eq!(world.expires_at(&keys.bucket).await, -2, "no stock key was made");
}

/// Every key of this sale and of its lock.
async fn keys_of(world: &World, sale: &Sale) -> Vec<String> {
    let mut keys: Vec<String> = world.raw(cmd("KEYS").arg(format!("hf:{{{}:*", sale.activity.id))).await;
    keys.extend(world.raw::<Vec<String>>(cmd("KEYS").arg(format!("hf:lock:{{{}}}", sale.activity.id))).await);
    keys
}

async fn wait_until_gone(world: &World, key: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while world.raw::<bool>(cmd("EXISTS").arg(key)).await {
        assert!(Instant::now() < deadline, "{key} does not expire");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A whole life with everything that writes, then all lives shortened alike, a day to a second: what goes
/// first, and what is done to a bucket in between. On a single server, so that every key can be listed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_expire_in_the_order_in_which_they_are_needed() {
    let world = World::single().await;
    let sale = world.sale(1, &[("a", 50)]).await;
    let (keys, gate, activity) = (sale.keys(0), &world.gate, &sale.activity);
    let orders: Vec<Placement> = (1..=4).map(|token| sale.placement("alice", token, &[("a", 1)])).collect();
    for order in &orders {
        assert_eq!(world.place(&sale, order).await, PlaceAnswer::Admitted(vec![1]));
    }
    let part = [super::support::part(0, "a", 2)];
    assert_eq!(gate.undo(activity, &orders[0], bucket(0)).await.unwrap(), Undone::Done);
    let restocked = gate.restock(activity, &orders[1].order_no, bucket(0), Take::FIRST, false, None).await.unwrap();
    assert_eq!(restocked, Restocked::Done { units: 1 });
    let _ = gate.restore(activity, &orders[1], bucket(0), Take::SECOND, &part).await.unwrap();
    let _ = gate.deduct(activity, &orders[2], bucket(0), &units(&[("a", 3)])).await.unwrap();
    gate.sync_allotment(&activity.id, bucket(0), &[allotment("a", 60, 9, true)]).await.unwrap();
    let mut longer = activity.clone();
    longer.version += 1;
    longer.window.ends_at = longer.window.ends_at.plus_ms(HOUR_MS);
    assert!(gate.sync_control(&longer, bucket(0), now()).await.unwrap());
    world.set_sku(&sale, 0, "a", "free", "7").await;
    assert_eq!(gate.sum_bucket(activity, bucket(0), true).await.unwrap().len(), 1);
    assert!(gate.allow_token(&activity.id, bucket(0), &orders[0].buyer, 9).await.unwrap().is_ok());
    let lock = LockName::parse(activity.id.as_str()).unwrap();
    let owner = LockOwner::from_bytes([1; 16]);
    assert_eq!(gate.acquire(&lock, &owner, Lease::new(Duration::from_mins(1))).await.unwrap(), Acquired::Held);

    let written = keys_of(&world, &sale).await;
    assert_eq!(written.len(), 5, "bucket, orders, ledger, tokens, lock: {written:?}");
    for key in &written {
        let left: i64 = world.raw(cmd("PTTL").arg(key)).await;
        assert!(left > 0, "{key} lives for ever");
        world.raw::<()>(cmd("PEXPIRE").arg(key).arg(left / 43_200)).await;
    }
    let life = async |key: &str| world.expires_at(key).await;
    let begun = now().get();
    let stock = life(&keys.bucket).await - begun;
    for key in [&keys.orders, &keys.ledger] {
        assert!(life(key).await - begun >= 2 * stock - 1_000, "{key} outlives the stock twice");
    }
    // The stock is gone, the records are there: nothing is sold, and what comes late is still single.
    wait_until_gone(&world, &keys.bucket).await;
    assert!(world.raw::<bool>(cmd("EXISTS").arg(&keys.orders)).await, "records outlive the stock");
    assert_eq!(world.place(&sale, &orders[0]).await, PlaceAnswer::MemoryLost);
    let late = async |order: &Placement| {
        gate.restock(activity, &order.order_no, bucket(0), Take::FIRST, false, None).await.unwrap()
    };
    assert_eq!(late(&orders[3]).await, Restocked::RecordOnly);
    assert_eq!(late(&orders[3]).await, Restocked::Already);
    let restored = gate.restore(activity, &orders[3], bucket(0), Take::SECOND, &part).await.unwrap();
    assert_eq!(restored, Restored::NoStock);
    assert!(!world.raw::<bool>(cmd("EXISTS").arg(&keys.bucket)).await, "none of it made stock");
    for key in [&keys.orders, &keys.ledger] {
        wait_until_gone(&world, key).await;
    }
    assert_eq!(late(&orders[3]).await, Restocked::RecordOnly, "after its mark as well: a record and no stock");
    for key in keys_of(&world, &sale).await {
        assert!(world.raw::<i64>(cmd("PTTL").arg(&key)).await > 0, "{key} lives for ever");
    }
}
