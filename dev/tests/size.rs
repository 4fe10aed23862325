//! Reconciliation at a twentieth of its size, cut off again and again: exactly what was planted is found and
//! repaired. `make size` runs the whole.

#![allow(clippy::unwrap_used)]

use std::path::PathBuf;
use std::time::Duration;

use dev::size::{Size, run};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_size_exactly_what_was_planted_is_found_and_repaired() {
    let size = Size {
        activities: 50,
        orders: 10_000,
        buckets: 2,
        run_time: Duration::from_millis(1_500),
        program: PathBuf::from(env!("CARGO_BIN_EXE_dev")),
    };
    let measured = run(&size).await.unwrap();
    println!("{}", measured.text());
    assert!(measured.holds(), "{}", measured.text());
    assert!(measured.full.runs > 1, "it was to be cut off");
    assert_eq!(measured.full.full_buckets, 100);
    // What changed, and what had changed shortly before: not everything.
    assert!(measured.incremental.compared < 1_000, "{}", measured.incremental.compared);
}

/// One bucket with far more records than one call of Redis reads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_bucket_is_compared_and_summed_in_pages() {
    let size = Size {
        activities: 2,
        orders: 24_000,
        buckets: 1,
        run_time: Duration::from_mins(4),
        program: PathBuf::from(env!("CARGO_BIN_EXE_dev")),
    };
    let measured = run(&size).await.unwrap();
    println!("{}", measured.text());
    assert!(measured.holds(), "{}", measured.text());
    // Both activities and the process itself: some tens of megabytes, whatever the bucket holds.
    assert!(measured.full.peak_kb < 150 * 1_024, "{} KB", measured.full.peak_kb);
}
