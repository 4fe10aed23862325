//! What an order costs in memory, and that a refusal costs none. On a single server, so that every key can
//! be looked at.

use futures_util::{StreamExt as _, stream};
use holdfast::{
    domain::time::UnixMillis,
    ports::{GateRefusal, PlaceAnswer},
};
use redis::cmd;

use super::support::{HOUR_MS, Sale, World, now};

const ORDERS: u32 = 10_000;
/// Calls under way at once.
const PARALLEL: usize = 32;
/// What an order may cost at most, in bytes: docs/keys.md has what it does cost.
const ORDER_MAX_BYTES: usize = 1_200;

/// Bytes of the bucket's keys, each whole; and how much is in them.
async fn usage(world: &World, sale: &Sale) -> (usize, Vec<usize>) {
    let keys = sale.keys(0);
    let mut bytes = 0;
    for key in keys.clone().all() {
        bytes +=
            world.raw::<Option<usize>>(cmd("MEMORY").arg("USAGE").arg(&key).arg("SAMPLES").arg(0)).await.unwrap_or(0);
    }
    let counts = vec![
        world.raw(cmd("HLEN").arg(&keys.bucket)).await,
        world.raw(cmd("HLEN").arg(&keys.orders)).await,
        world.raw(cmd("XLEN").arg(&keys.ledger)).await,
        world.raw(&cmd("DBSIZE")).await,
    ];
    (bytes, counts)
}

/// So many buyers ask for one unit each; all get the same answer.
async fn ask(world: &World, sale: &Sale, who: &str, calls: u32, expected: impl Fn(&PlaceAnswer) -> bool + Sync) {
    stream::iter(0..calls)
        .for_each_concurrent(PARALLEL, |n| {
            let placement = sale.placement(&format!("{who}{n}"), 1, &[("a", 1)]);
            let expected = &expected;
            async move {
                let answer = world.place(sale, &placement).await;
                assert!(expected(&answer), "{answer:?}");
            }
        })
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_costs_so_many_bytes_and_a_refusal_none() {
    let world = World::single().await;
    // No second's rate in the way.
    let sale = world.sale_of(1, &[("a", u64::from(ORDERS))], |activity| activity.bucket_rate = 1_000_000).await;
    let (empty, _) = usage(&world, &sale).await;
    ask(&world, &sale, "buyer", ORDERS, |answer| *answer == PlaceAnswer::Admitted(vec![1])).await;
    let (full, counts) = usage(&world, &sale).await;
    let (ledger, orders) = (
        world.raw::<usize>(cmd("MEMORY").arg("USAGE").arg(sale.keys(0).ledger).arg("SAMPLES").arg(0)).await,
        (full - empty) / ORDERS as usize,
    );
    println!(
        "{orders} bytes per order, {} of them in the ledger, which ends at 10,000 entries",
        ledger / ORDERS as usize
    );
    assert!(orders < ORDER_MAX_BYTES, "{orders} bytes per order");

    // Sold out, and at the limit of the buyer.
    ask(&world, &sale, "late", ORDERS, |answer| matches!(answer, PlaceAnswer::Short(_))).await;
    let limited = sale_with(&sale, |activity| activity.limit.max = 1);
    stream::iter(0..ORDERS)
        .for_each_concurrent(PARALLEL, |n| {
            let placement = limited.placement(&format!("buyer{n}"), 2, &[("a", 1)]);
            let (world, limited) = (&world, &limited);
            async move {
                let answer = world.place(limited, &placement).await;
                assert!(matches!(answer, PlaceAnswer::Refused(GateRefusal::LimitReached(_))), "{answer:?}");
            }
        })
        .await;
    assert_eq!(usage(&world, &sale).await, (full, counts.clone()), "20,000 refusals leave nothing");
    world.set_sku(&sale, 0, "a", "on_sale", "0").await;
    let before = usage(&world, &sale).await;
    ask(&world, &sale, "frozen", 500, |answer| *answer == PlaceAnswer::Refused(GateRefusal::Frozen)).await;
    assert_eq!(usage(&world, &sale).await, before);
    world.set_control(&sale, 0, "starts_ms", &later().get().to_string()).await;
    let before = usage(&world, &sale).await;
    ask(&world, &sale, "early", 500, |answer| *answer == PlaceAnswer::Refused(GateRefusal::NotStarted)).await;
    assert_eq!(usage(&world, &sale).await, before);
}

fn later() -> UnixMillis {
    now().plus_ms(HOUR_MS)
}

fn sale_with(sale: &Sale, edit: impl FnOnce(&mut holdfast::domain::activity::Activity)) -> Sale {
    let mut sale = sale.clone();
    edit(&mut sale.activity);
    sale
}
