//! Every part of `make bench`, as small as it goes: it measures something. What the ratios are is a matter of the
//! machine, and of `make bench`.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use dev::bench::{Options, run};

fn small(filter: &str) -> Options {
    Options {
        filter: filter.to_owned(),
        rounds: 1,
        order_rate: 20,
        phase: Duration::from_secs(1),
        units: 100,
        calls: 200,
        latency: Duration::ZERO,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_part_is_measured() {
    let measured = run(&small("")).await.unwrap();
    println!("{}", measured.text());
    assert!(measured.is_complete(), "{}", measured.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_part_that_there_is_not_is_told_with_those_that_there_are() {
    let why = run(&small("speed")).await.unwrap_err().to_string();
    assert!(why.contains("speed") && why.contains("second-wave"), "{why}");
}
