//! What is kept of a pass.

use std::collections::BTreeMap;

use holdfast::{
    app::{findings::SHOWN_MAX, reconcile::FINDINGS_LIFE_MS},
    domain::repair::Finding,
    ports::{Clock as _, Counted, FINDING_ROWS_MAX, FindingPage, FindingStore},
};

use crate::world::{Ahead, LATER, NOW, World};

#[tokio::test]
async fn a_repair_is_kept_with_what_each_store_said_before() {
    let world = World::start().await;
    let lost = world.commit(world.placement("lost")).await;
    let missing = world.deduct("missing").await;
    world.reconcile(LATER).await;
    let state = world.findings().await;
    let row = |kind| state.rows.iter().find(|row| row.kind == kind).unwrap();
    let home = lost.placement.home;
    let restored = row(Finding::RecordLost);
    assert_eq!(restored.order_no.as_ref(), Some(&lost.placement.order_no));
    assert_eq!((restored.bucket, restored.repaired, restored.action.as_str()), (home, true, "restore"));
    assert_eq!(restored.redis, "no record");
    assert_eq!(restored.database, format!("PENDING_PAYMENT take 1 a=1@{home}"));
    let claimed = row(Finding::OrderMissing);
    assert_eq!(claimed.order_no.as_ref(), Some(&missing.order_no));
    assert_eq!((claimed.redis.as_str(), claimed.database.as_str()), ("D1 a=1, marked", "no order"));
    assert_eq!(claimed.action, "claim and restock");
    let counts: Vec<_> = state.counts.iter().map(|count| (count.bucket, count.kind, count.counted)).collect();
    let once = Counted { count: 1, repaired: 1 };
    assert!(counts.contains(&(home, Finding::RecordLost, once)) && counts.len() == 2, "{counts:?}");
    assert!(!state.truncated);
    let changes = state.last_incremental.unwrap();
    assert_eq!((changes.found, changes.repaired), (2, 2));
    assert_eq!(state.last_full.unwrap().found, 0);
}

#[tokio::test]
async fn many_findings_of_a_bucket_are_kept_in_pages() {
    let world = World::start().await;
    let mut of_bucket = 0;
    for n in 0..600 {
        let placement = world.placement(&format!("lost{n}"));
        if placement.home.get() == 0 && of_bucket < 2 * FINDING_ROWS_MAX + 1 {
            of_bucket += 1;
            world.commit(placement).await;
        }
    }
    let report = world.reconcile(NOW).await;
    let count = u64::try_from(of_bucket).unwrap();
    assert_eq!(report.findings[&Finding::RecordLost].repaired, count);
    let (pages, _) = world.database.findings(&world.activity.id, NOW.now(), None).await.unwrap();
    assert!(pages.len() >= 2 && pages.iter().all(|page| page.rows.len() <= FINDING_ROWS_MAX), "{}", pages.len());
    let state = world.findings().await;
    assert_eq!((state.rows.len(), state.counts[0].counted.count, state.truncated), (of_bucket, count, false));
    // A week later they are gone, also where the table has not dropped them.
    let later = Ahead(FINDINGS_LIFE_MS + 60_000).now();
    assert_eq!(world.database.findings(&world.activity.id, later, None).await.unwrap().0, []);
}

#[tokio::test]
async fn so_many_are_shown_and_no_more() {
    let world = World::start().await;
    world.commit(world.placement("lost")).await;
    world.reconcile(NOW).await;
    let (pages, _) = world.database.findings(&world.activity.id, NOW.now(), None).await.unwrap();
    let row = pages[0].rows[0].clone();
    for number in 0..7 {
        let rows = vec![row.clone(); FINDING_ROWS_MAX];
        let counts = BTreeMap::from([(row.kind, Counted { count: 100, repaired: 100 })]);
        let page = FindingPage { number: 100 + number, at: NOW.now(), rows, counts, ..pages[0].clone() };
        world.database.keep_findings(&page, NOW.now().plus_ms(60_000)).await.unwrap();
    }
    let state = world.findings().await;
    assert_eq!((state.rows.len(), state.truncated), (SHOWN_MAX, true));
    assert_eq!(state.counts[0].counted.count, 701);
}
