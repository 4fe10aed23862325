//! The limit as the script checks it in the buyer's mark, and as the transaction checks it in the guard: the
//! same submissions, endings and late payments on both, with stock that never runs out.
//!
//! They say and count the same, but for one thing, which is why the database has the last word: a placement
//! whose quota was given back is no longer in the mark, and stays in the guard's list, which has a bound.

mod sale;
mod script;
mod stage;

use holdfast::domain::{
    activity::QuotaPolicy,
    limit::{LimitScope, PLACEMENTS_MAX},
};
use tokio::runtime::{Builder, Runtime};

use crate::{
    database::server::Server as Dynamodb,
    gate::server::Server as Redis,
    run::{Met, Share},
};
use sale::Submission;
use script::{Script, Step};
use stage::{Servers, Stage, Verdict};

/// What both say, first the script, and what happens beside.
const MET: [&str; 12] = [
    "Admitted Admitted",
    "Refused LimitReached",
    "Replayed Known",
    "GivenBack Known",
    "Mismatch Known",
    // The bound on placements, reached by dead ones.
    "Admitted LimitReached",
    "quota kept",
    "quota given back",
    "paid late, charged again",
    "paid late, with its quota kept",
    "paid too late for the limit",
    // The same bound, reached by others.
    "twenty that count",
];

fn servers() -> (Runtime, Servers) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let servers = runtime.block_on(async {
        Servers { redis: Redis::single().await, dynamodb: Dynamodb::start(false).await, met: Met::default() }
    });
    (runtime, servers)
}

/// One step after another, on both stores.
pub fn sequences(share: &Share<'_>) -> Result<(), String> {
    let (runtime, servers) = servers();
    share.check(&script::scripts(), |script| {
        runtime.block_on(async { Stage::open(&servers, &script).await.play(&script).await })
    })?;
    servers.met.count_in(share, &MET);
    Ok(())
}

/// The smallest difference: a buyer who placed and cancelled as many orders as a guard lists is admitted by
/// the script, and refused by the database. Nothing is lost by it, but each further try costs what a
/// committed order costs, and a claim.
pub fn dead_placements() {
    let (runtime, servers) = servers();
    let (scope, policy) = (LimitScope::Activity, QuotaPolicy::Release);
    let count = u8::try_from(PLACEMENTS_MAX).unwrap();
    let cases = [
        (count - 1, true, (Verdict::Admitted, Verdict::Admitted)),
        (count, true, (Verdict::Admitted, Verdict::LimitReached)),
        (count, false, (Verdict::LimitReached, Verdict::LimitReached)),
    ];
    for (count, dead, expected) in cases {
        let script = Script { scope, max: 100, policy, steps: vec![Step::Many { buyer: 0, count, dead }] };
        runtime.block_on(async {
            let mut stage = Stage::open(&servers, &script).await;
            stage.play(&script).await.unwrap();
            let more = Submission { buyer: 0, order: 0, cart: 0, tomorrow: false };
            assert_eq!(stage.place(more).await.unwrap(), expected, "after {count}, dead {dead}");
        });
    }
}
