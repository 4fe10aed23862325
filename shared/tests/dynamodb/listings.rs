//! Pages: every item once, in order, whatever the page's length.

use std::collections::BTreeSet;

use holdfast::{
    domain::{
        activity::Activity,
        ids::ActivityId,
        lease::Fence,
        order_no::OrderNo,
        repair::Finding,
        stock::{Operation, StockItem},
        time::UnixMillis,
    },
    ports::{
        ActivityStore, ArchiveStore, AuditRow, AuditStore, Claim, Commit, Counted, Cursor, FindingPage, FindingRow,
        FindingStore, OrderStore, ProgressStore, Saved,
    },
};

use crate::world::{World, activity_id, bucket, now, order, sale, sku, stock};

/// Every page of a bucket's orders.
async fn home_pages(world: &World, at: u16) -> Vec<Vec<OrderNo>> {
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let (numbers, next) = world.database.home_orders(&activity_id(), bucket(at), after.as_ref()).await.unwrap();
        pages.push(numbers);
        match next {
            None => return pages,
            Some(_) => after = next,
        }
    }
}

#[tokio::test]
async fn orders_of_a_home_come_in_pages_by_deadline() {
    let world = World::start().await;
    world.open("a", 0, 1_000).await;
    let mut expected = Vec::new();
    for submission in 0..450 {
        let mut order = order(&format!("buyer{submission}"), submission, &[("a", 0, 1)]);
        order.placement.home = bucket(3);
        // Deadlines run against the order of placing.
        order.placement.pay_before = now().plus_ms(-i64::from(submission) * 7);
        assert_eq!(world.database.commit(&order, 1).await.unwrap(), Commit::Committed);
        expected.insert(0, order.placement.order_no);
    }
    let elsewhere = order("elsewhere", 1, &[("a", 0, 1)]);
    assert_eq!(world.database.commit(&elsewhere, 1).await.unwrap(), Commit::Committed);
    let dead = order("dead", 1, &[("a", 0, 1)]);
    assert_eq!(world.database.claim(&dead.placement.into_tombstone(now())).await.unwrap(), Claim::Aborted);
    let pages = home_pages(&world, 3).await;
    let listed: Vec<_> = pages.iter().flatten().cloned().collect();
    let once: BTreeSet<_> = listed.iter().collect();
    assert_eq!(once.len(), listed.len());
    let (own, others): (Vec<_>, Vec<_>) = listed.into_iter().partition(|number| expected.contains(number));
    assert_eq!(own, expected);
    let home = elsewhere.placement.home;
    assert_eq!(others, if home == bucket(3) { vec![elsewhere.placement.order_no] } else { vec![] });
    assert_eq!(pages.iter().map(Vec::len).max(), Some(200));
    let read = world.database.orders(&expected).await.unwrap();
    assert_eq!(read.len(), 450, "read in calls of 100");
}

#[tokio::test]
async fn numbers_with_nothing_stored_are_left_out_and_named_twice_are_read_once() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    let (stored, absent) = (order("alice", 1, &[("a", 0, 1)]), order("bob", 1, &[("a", 0, 1)]));
    assert_eq!(world.database.commit(&stored, 1).await.unwrap(), Commit::Committed);
    let (stored, absent) = (stored.placement.order_no, absent.placement.order_no);
    let read = world.database.orders(&[stored.clone(), absent, stored]).await.unwrap();
    assert_eq!(read.len(), 1);
    assert_eq!(world.database.orders(&[]).await.unwrap(), []);
}

#[tokio::test]
async fn a_cursor_of_another_listing_is_refused() {
    let world = World::start().await;
    let nonsense = Cursor("yesterday".to_owned());
    assert!(world.database.home_orders(&activity_id(), bucket(0), Some(&nonsense)).await.is_err());
}

#[tokio::test]
async fn activities_come_in_pages() {
    let world = World::start().await;
    let mut saved = Vec::new();
    for n in 0..120 {
        let activity = Activity { id: ActivityId::parse(&format!("sale{n:03}")).unwrap(), ..sale(&["a"]) };
        assert_eq!(world.database.save_activity(&activity, None).await.unwrap(), Saved::Done);
        saved.push(activity);
    }
    let (mut listed, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let (page, next) = world.database.activities(after.as_ref()).await.unwrap();
        listed.extend(page);
        pages += 1;
        match next {
            None => break,
            Some(_) => after = next,
        }
    }
    assert_eq!((listed, pages), (saved, 3));
}

#[tokio::test]
async fn an_activity_is_saved_over_the_version_that_was_read() {
    let world = World::start().await;
    let first = sale(&["a"]);
    let save = |activity: Activity, expected| {
        let database = world.database.clone();
        async move { database.save_activity(&activity, expected).await.unwrap() }
    };
    assert_eq!(world.database.activity(&activity_id()).await.unwrap(), None);
    assert_eq!(save(first.clone(), Some(1)).await, Saved::Conflict);
    assert_eq!(save(first.clone(), None).await, Saved::Done);
    assert_eq!(world.database.activity(&activity_id()).await.unwrap(), Some(first.clone()));
    let renamed = |version, name: &str| Activity { version, name: name.to_owned(), ..first.clone() };
    assert_eq!(save(renamed(1, "other"), None).await, Saved::Conflict);
    assert_eq!(save(renamed(2, "mine"), Some(1)).await, Saved::Done);
    assert_eq!(save(renamed(2, "yours"), Some(1)).await, Saved::Conflict);
    assert_eq!(world.database.activity(&activity_id()).await.unwrap().unwrap().name, "mine");
}

#[tokio::test]
async fn progress_is_kept_and_forgotten() {
    let world = World::start().await;
    let (job, at) = ("reconcile#sale", Cursor("2026#X".to_owned()));
    assert_eq!(world.database.progress(job).await.unwrap(), None);
    assert_eq!(world.database.save_progress(job, Fence::NONE, Some(&at), None).await.unwrap(), Saved::Done);
    assert_eq!(world.database.progress(job).await.unwrap(), Some(at));
    assert_eq!(world.database.progress("another").await.unwrap(), None);
    assert_eq!(world.database.save_progress(job, Fence::NONE, None, None).await.unwrap(), Saved::Done);
    assert_eq!(world.database.progress(job).await.unwrap(), None);
}

#[tokio::test]
async fn f10_a_run_that_was_overtaken_saves_nothing_more() {
    let world = World::start().await;
    let (job, at) = ("reconcile#sale", |text: &str| Cursor(text.to_owned()));
    let save =
        async |fence, text: &str| world.database.save_progress(job, fence, Some(&at(text)), Some(now())).await.unwrap();
    let (first, cursor) = world.database.take_turn(job).await.unwrap();
    assert!(first > Fence::NONE && cursor.is_none());
    assert_eq!(save(first, "one").await, Saved::Done);
    let (second, cursor) = world.database.take_turn(job).await.unwrap();
    assert!(second > first, "a later turn has a greater fence");
    assert_eq!(cursor, Some(at("one")), "and begins where the earlier one stopped");
    assert_eq!(save(first, "late").await, Saved::Conflict);
    assert_eq!(world.database.progress(job).await.unwrap(), Some(at("one")));
    assert_eq!(save(second, "two").await, Saved::Done);
    assert_eq!(save(second, "three").await, Saved::Done, "as often as it likes");
    assert_eq!(world.database.save_progress(job, first, None, None).await.unwrap(), Saved::Conflict);
    assert_eq!(world.database.save_progress(job, second, None, None).await.unwrap(), Saved::Done);
    // Forgetting the place does not forget whose turn it was.
    assert!(world.database.take_turn(job).await.unwrap().0 > second);
    assert_eq!(world.raw("P", job).await.unwrap()["expires_at"].as_n().unwrap(), &(now().get() / 1_000).to_string());
}

#[tokio::test]
async fn an_archived_activity_is_found_and_not_listed() {
    let world = World::start().await;
    let activity = sale(&["a"]);
    assert_eq!(world.database.save_activity(&activity, None).await.unwrap(), Saved::Done);
    let changed = Activity { version: 2, ..activity.clone() };
    assert!(!world.database.archive(&changed).await.unwrap(), "it is not what was read");
    assert_eq!(world.database.activities(None).await.unwrap().0, vec![activity.clone()]);
    assert!(world.database.archive(&activity).await.unwrap());
    assert_eq!(world.database.activities(None).await.unwrap().0, vec![]);
    assert_eq!(world.database.activity(&activity_id()).await.unwrap(), Some(activity));
}

fn findings(at: UnixMillis, index: u16, number: u32) -> FindingPage {
    let counts = [(Finding::RecordLost, Counted { count: 3, repaired: 2 })].into();
    let row = FindingRow {
        kind: Finding::RecordLost,
        bucket: bucket(index),
        at,
        order_no: Some(order("alice", 1, &[("a", 0, 1)]).placement.order_no),
        sku: None,
        redis: "no record".to_owned(),
        database: "PAID".to_owned(),
        action: "restore".to_owned(),
        repaired: true,
    };
    FindingPage {
        activity: activity_id(),
        bucket: bucket(index),
        pass: now(),
        at,
        fence: 7,
        number,
        counts,
        rows: vec![row],
    }
}

#[tokio::test]
async fn findings_come_latest_first_and_those_that_expired_are_left_out() {
    let world = World::start().await;
    let mut kept = Vec::new();
    for n in 0..45_u16 {
        let page = findings(now().plus_ms(i64::from(n)), n, u32::from(n));
        // The first five are over by the time of asking; the table has not dropped them yet.
        let until = now().plus_ms(if n < 5 { 10_000 } else { 60_000 });
        world.database.keep_findings(&page, until).await.unwrap();
        world.database.keep_findings(&page, until).await.unwrap();
        kept.insert(0, page);
    }
    let (mut listed, mut after, mut pages) = (Vec::new(), None, 0);
    loop {
        let asked = now().plus_ms(20_000);
        let (page, next) = world.database.findings(&activity_id(), asked, after.as_ref()).await.unwrap();
        (listed, pages, after) = ([listed, page].concat(), pages + 1, next);
        if after.is_none() {
            break;
        }
    }
    assert_eq!((listed, pages), (kept[..40].to_vec(), 3));
}

fn row(version: u64, operation: Option<Operation>, event_id: &str) -> AuditRow {
    let item = |version| StockItem { version, ..stock("a", 0, 5) };
    AuditRow {
        activity: activity_id(),
        sku: sku("a"),
        bucket: bucket(0),
        version,
        before: (version > 1).then(|| item(version - 1)),
        after: Some(item(version)),
        operation,
        operator: "tests".to_owned(),
        reference: "x".to_owned(),
        at: now(),
        event_id: event_id.to_owned(),
        before_mark: None,
        filled: false,
    }
}

#[tokio::test]
async fn a_gap_is_filled_where_there_is_no_row_and_the_real_row_takes_its_place() {
    let world = World::start().await;
    let real = row(2, Some(Operation::Order), "e2");
    let filling = AuditRow { filled: true, operation: None, before: None, ..row(2, None, "fill") };
    let rows = async || world.database.rows_after(&activity_id(), &sku("a"), bucket(0), 1).await.unwrap().0;
    world.database.record(&row(1, Some(Operation::Manual), "e1")).await.unwrap();
    assert!(world.database.fill(&filling).await.unwrap());
    assert!(!world.database.fill(&filling).await.unwrap());
    assert_eq!(rows().await, vec![filling.clone()], "after version 1 and not of it");
    // The relay comes after all, twice.
    world.database.record(&real).await.unwrap();
    world.database.record(&real).await.unwrap();
    assert_eq!(rows().await, vec![real.clone()]);
    assert!(!world.database.fill(&filling).await.unwrap());
    // Somebody set the version back, and the system counted on from there: both rows stay.
    let again = row(2, Some(Operation::Cancel), "e9");
    for _ in 0..2 {
        world.database.record(&again).await.unwrap();
    }
    assert_eq!(rows().await, vec![real, again]);
}

#[tokio::test]
async fn audit_rows_are_idempotent_and_untracked_ones_stand_beside() {
    let world = World::start().await;
    let tracked = row(7, Some(Operation::Order), "e1");
    let untracked = [row(7, None, "e2"), row(7, None, "e3")];
    // In any order, and again: the untracked rows neither hide nor replace the tracked one.
    for row in [&untracked[1], &tracked, &untracked[0], &tracked, &untracked[1]] {
        world.database.record(row).await.unwrap();
    }
    let (rows, next) = world.database.rows(&activity_id(), &sku("a"), bucket(0), None).await.unwrap();
    let [second, third] = untracked;
    assert_eq!((rows, next), (vec![tracked, second, third], None));
    let (rows, _) = world.database.rows(&activity_id(), &sku("a"), bucket(1), None).await.unwrap();
    assert_eq!(rows, []);
}

#[tokio::test]
async fn audit_rows_come_in_pages_oldest_first() {
    let world = World::start().await;
    // Versions of one, two and three digits: they sort as numbers.
    for version in (1..=250).rev() {
        world.database.record(&row(version, Some(Operation::Order), "e")).await.unwrap();
    }
    let (first, next) = world.database.rows(&activity_id(), &sku("a"), bucket(0), None).await.unwrap();
    let (second, end) = world.database.rows(&activity_id(), &sku("a"), bucket(0), next.as_ref()).await.unwrap();
    assert_eq!(end, None);
    let versions: Vec<_> = first.iter().chain(&second).map(|row| row.version).collect();
    assert_eq!(versions, (1..=250).collect::<Vec<_>>());
}
