//! Rows that never came.

use holdfast::{
    app::reconcile::GAP_GRACE_MS,
    domain::repair::Finding,
    ports::{ActivityStore, AuditRow, AuditStore, Clock as _},
};
use serde_json::json;

use crate::world::{Ahead, NOW, World, found, row, sku};

/// The rows of bucket 0.
async fn rows(world: &World) -> Vec<AuditRow> {
    let bucket = world.activity.buckets.all().next().unwrap();
    world.database.rows(&world.activity.id, &sku(), bucket, None).await.unwrap().0
}

/// Changes bucket 0's item so many times; rows come only of these versions.
async fn change(world: &World, to: u64, told: &[u64], at: Ahead) {
    use holdfast::ports::StockStore as _;
    let bucket = world.activity.buckets.all().next().unwrap();
    let mut before = world.item(bucket).await;
    while before.version < to {
        let next = before.version + 1;
        let mark = crate::world::mark(&format!("change {next}"));
        assert!(world.database.correct_available(&before, before.available, &mark).await.unwrap());
        let after = world.item(bucket).await;
        if told.contains(&next) {
            let row = row(Some(before), &after, &format!("change {next}"), at.now());
            world.database.record(&row).await.unwrap();
        }
        before = after;
    }
}

#[tokio::test]
async fn a_gap_between_rows_is_filled_from_its_neighbours() {
    let world = World::start().await;
    change(&world, 7, &[2, 4, 7], Ahead(-GAP_GRACE_MS - 60_000)).await;
    let before = rows(&world).await;
    assert_eq!(before.iter().map(|row| row.version).collect::<Vec<_>>(), [1, 2, 4, 7]);
    let report = world.reconcile(NOW).await;
    assert_eq!(found(&report), [(Finding::AuditGap, 2)], "versions 3, and 5 to 6");
    assert_eq!(report.full_buckets, 4, "nobody knows what order change 5 was of");
    let after = rows(&world).await;
    assert_eq!(after.iter().map(|row| row.version).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
    for row in after.iter().filter(|row| [1, 2, 4, 7].contains(&row.version)) {
        assert!(before.contains(row), "what is there stays as it is");
    }
    let [_, second, third, fourth, fifth, sixth, seventh] = &after[..] else { panic!("{after:?}") };
    // One that is missing alone is known wholly: the next change saw it.
    assert!(third.filled && third.operation.is_some());
    assert_eq!((&third.before, &third.after, third.reference.as_str()), (&second.after, &fourth.before, "change 3"));
    assert_eq!((&fifth.before, &fifth.after, fifth.reference.as_str()), (&fourth.after, &None, "gap"));
    assert_eq!((&sixth.before, &sixth.after, sixth.reference.as_str()), (&None, &seventh.before, "change 6"));
    assert_eq!(world.reconcile(NOW).await.full_buckets, 0);
}

#[tokio::test]
async fn a_gap_that_begins_where_the_last_run_ended_is_filled_as_wholly() {
    let world = World::start().await;
    let old = Ahead(-GAP_GRACE_MS - 60_000);
    change(&world, 2, &[2], old).await;
    assert!(world.reconcile(NOW).await.findings.is_empty());
    change(&world, 4, &[4], old).await;
    assert_eq!(found(&world.reconcile(NOW).await), [(Finding::AuditGap, 1)]);
    let rows = rows(&world).await;
    let [_, second, third, fourth] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!((&third.before, &third.after), (&second.after, &fourth.before));
}

#[tokio::test]
async fn rows_that_may_still_come_are_waited_for() {
    let world = World::start().await;
    // The row after it is fresh; and behind the last row there is only what the relay has not read yet.
    change(&world, 5, &[2, 4], NOW).await;
    let report = world.reconcile(NOW).await;
    assert!(report.findings.is_empty(), "{report:?}");
    assert_eq!(rows(&world).await.len(), 3);
}

#[tokio::test]
async fn an_activity_is_archived_when_its_trail_is_whole() {
    let world = World::fresh(&json!({"buckets": 1})).await;
    assert!(world.reconcile(NOW).await.complete);
    change(&world, 4, &[2], NOW).await;
    let day = 86_400_000;
    let listed = async || world.database.activities(None).await.unwrap().0.len();
    // Its keys are gone a day after its end, but a row may still come.
    let report = world.reconcile(Ahead(day + 3 * 3_600_000)).await;
    assert_eq!((report.activities, listed().await), (0, 1));
    let report = world.reconcile(Ahead(3 * day)).await;
    assert_eq!(found(&report), [(Finding::AuditGap, 1)]);
    let filled = rows(&world).await;
    assert_eq!(
        filled.iter().map(|row| (row.version, row.filled)).collect::<Vec<_>>(),
        [(1, false), (2, false), (3, true), (4, true)]
    );
    assert_eq!(filled[3].after.as_ref().map(|item| item.version), Some(4));
    assert_eq!(listed().await, 0);
    assert_eq!(world.database.activity(&world.activity.id).await.unwrap().as_ref(), Some(&world.activity));
}
