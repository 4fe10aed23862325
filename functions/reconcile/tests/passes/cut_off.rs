//! A pass whose time ends again and again.

use holdfast::{
    domain::{
        order::{Part, Stored},
        repair::Finding,
    },
    ports::{Commit, OrderStore},
};
use serde_json::json;
use tokio::time::Instant;

use crate::world::{LATER, World, sku};

#[tokio::test]
async fn a_pass_that_is_cut_off_at_every_page_compares_everything_and_ends() {
    let world = World::fresh(&json!({"buckets": 2})).await;
    // More than two pages of orders by home in each bucket; Redis knows nothing of every seventh.
    let mut lost = Vec::new();
    for n in 0..1_000 {
        let placement = world.placement(&format!("buyer{n}"));
        let parts = vec![Part { sku: sku(), bucket: placement.home, units: 1 }];
        let order = placement.into_order(parts);
        assert_eq!(world.database.commit(&order, 1).await.unwrap(), Commit::Committed);
        if n % 7 == 0 {
            lost.push(order.placement);
        } else {
            use holdfast::{domain::order::Take, ports::StockGate};
            let placement = &order.placement;
            let restored = world.gate.restore(&world.activity, placement, placement.home, Take::FIRST, &order.parts);
            let _ = restored.await.unwrap();
        }
    }
    let mut missing = Vec::new();
    for n in 0..5 {
        missing.push(world.deduct(&format!("missing{n}")).await);
    }
    let (mut runs, mut found, mut claimed) = (0, 0, 0);
    loop {
        let report = world.reconcile_until(LATER, Instant::now()).await;
        runs += 1;
        assert_eq!((report.faults, report.superseded), (0, 0));
        found += report.findings.get(&Finding::RecordLost).map_or(0, |found| found.repaired);
        claimed += report.findings.get(&Finding::OrderMissing).map_or(0, |found| found.repaired);
        if report.complete {
            break;
        }
        assert!(runs < 200, "it does not get further");
    }
    assert!(runs > 10, "{runs} runs: it was to be cut off");
    assert_eq!((found, claimed), (u64::try_from(lost.len()).unwrap(), 5));
    for placement in &lost {
        assert!(world.holds(placement).await);
    }
    for placement in &missing {
        let stored = world.database.order(&placement.order_no).await.unwrap();
        assert!(matches!(stored, Some(Stored::Aborted(_))) && !world.holds(placement).await);
    }
    world.assert_sums().await;
    let state = world.findings().await;
    let full = state.last_full.unwrap();
    assert!(full.compared >= 1_005 && full.found >= found + claimed, "{full:?}");
    assert_eq!(state.pass, None);
}
