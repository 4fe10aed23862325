//! The state of admission.

use holdfast::{
    domain::time::UnixMillis,
    ports::{Admission, AdmissionStore, Bypass, Limiting},
};

use crate::world::World;

fn limiting(until: i64, backlog: u64) -> Limiting {
    let until = UnixMillis::new(until);
    Limiting { until, by: "system:test".to_owned(), reason: format!("{backlog} messages"), backlog }
}

/// Tokens live for 300 s.
fn bypass(at: i64, until: i64) -> Bypass {
    let at = UnixMillis::new(at);
    Bypass { at, covers: at.plus_ms(300_000), until: UnixMillis::new(until) }
}

#[tokio::test]
async fn what_is_not_stored_limits_nothing() {
    let world = World::start().await;
    assert_eq!(world.database.admission().await.unwrap(), Admission::default());
}

#[tokio::test]
async fn its_two_parts_do_not_disturb_one_another_and_a_bypass_is_never_shortened() {
    let world = World::start().await;
    let database = &world.database;
    assert_eq!(database.note_bypass(bypass(9_000_000, 10_000_500)).await.unwrap(), UnixMillis::new(9_000_000));
    database.limit_admission(&limiting(5_000_123, 7)).await.unwrap();
    for earlier in [1, 10_000_000, 10_000_400] {
        let since = database.note_bypass(bypass(9_100_000, earlier)).await.unwrap();
        assert_eq!(since, UnixMillis::new(9_000_000), "what is stored covers it");
    }
    let stored = database.admission().await.unwrap();
    assert!(
        stored.may_have_passed(UnixMillis::new(10_000_500)) && !stored.may_have_passed(UnixMillis::new(10_001_001))
    );
    assert_eq!(stored.limited_until, Some(UnixMillis::new(5_000_123)));
    assert_eq!((stored.limited_by.as_deref(), stored.backlog), (Some("system:test"), Some(7)));
    assert_eq!(stored.reason.as_deref(), Some("7 messages"));
    // One that goes on, and one after a gap.
    assert_eq!(database.note_bypass(bypass(9_500_000, 11_000_000)).await.unwrap(), UnixMillis::new(9_000_000));
    assert_eq!(database.note_bypass(bypass(19_000_000, 20_000_000)).await.unwrap(), UnixMillis::new(19_000_000));
    // Ending a limit is writing one that is over.
    database.limit_admission(&limiting(4_000_000, 1)).await.unwrap();
    let stored = database.admission().await.unwrap();
    assert!(stored.may_have_passed(UnixMillis::new(20_000_000)));
    assert!(!stored.is_limited(UnixMillis::new(4_000_000)) && stored.is_limited(UnixMillis::new(3_999_999)));
}
