//! What an order may cost, as calls and write units: the budget of docs/keys.md, on the whole stack.

// Counts are whole numbers, and a float holds them exactly.
#![allow(clippy::float_cmp, clippy::unwrap_used)] // a test

use std::time::Duration;

use dev::cost::{LogBytes, Meter, Outcome, measure, of};
use dev::stack::{Stack, StackOptions};

const TIMES: u32 = 4;

#[tokio::test]
async fn an_order_stays_within_its_budget_of_calls_and_units_whatever_becomes_of_it() {
    let stack = Stack::start(StackOptions {
        port: 0,
        latency: Duration::ZERO,
        redis_url: None,
        redis_deadline_ms: 1_000,
        reconcile_every: Duration::from_hours(24),
        fulfil: true,
    })
    .await
    .unwrap();
    let meter = Meter::start(&stack, LogBytes::start()).await.unwrap();
    for buckets in [1, 64_u16] {
        let found = measure(&stack, &meter, TIMES, buckets).await.unwrap();
        let is = |outcome: Outcome, scripts: f64, calls: f64, units: f64| {
            let used = of(&found, outcome);
            let seen = (used.script_calls, used.write_calls, used.write_units);
            assert_eq!(seen, (scripts, calls, units), "{} in {buckets} buckets", outcome.name());
            // The configuration and the state of admission are read anew now and then, not for each order.
            assert!(used.read_calls * f64::from(TIMES) <= 2.0, "{} reads: {used:?}", outcome.name());
        };
        // One script and one transaction; the relay puts the audit row.
        is(Outcome::Placed, 1.0, 2.0, 8.0);
        is(Outcome::PlacedTwoLines, 1.0, 3.0, 11.0);
        is(Outcome::Token, 1.0, 0.0, 0.0);
        // Once a second a process looks into the other buckets as well.
        let sold_out = of(&found, Outcome::SoldOut);
        assert!(sold_out.script_calls <= 1.0 + f64::from(buckets - 1) / f64::from(TIMES), "{sold_out:?}");
        assert_eq!(sold_out.write_calls + sold_out.write_units, 0.0, "{sold_out:?}");
        is(Outcome::LimitReached, 1.0, 0.0, 0.0);
        let writes = |outcome: Outcome| of(&found, outcome).write_units;
        assert_eq!(writes(Outcome::Placed) + writes(Outcome::Paid), 9.0);
        // What a run of the expiry notes for the next one is not an order's: shared/tests/dynamodb/units.rs has its 15.
        assert_eq!(writes(Outcome::Placed) + writes(Outcome::Cancelled), 15.0);
        for outcome in [Outcome::Replayed, Outcome::OrderRead, Outcome::ActivityRead] {
            assert_eq!(writes(outcome), 0.0, "{}", outcome.name());
        }
        for (outcome, used) in &found {
            assert!(used.log_bytes < 2_500.0, "{} logs {} bytes", outcome.name(), used.log_bytes);
        }
    }
    stack.stop().await;
}
