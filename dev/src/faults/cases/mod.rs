//! The cases by group.

mod clock;
mod database;
mod failover;
mod operations;
mod process;
mod queue;
mod redis;
mod relay;
mod schedule;
mod scripts;

use super::scene::Scene;
use crate::stack::StartError;

use super::FaultCase;

/// A case of a group: its name, the fault in a few words, and the function that plays it.
macro_rules! case {
    ($group:ident, $name:expr, $what:expr, $play:path) => {
        $crate::faults::FaultCase::new($crate::faults::Group::$group, $name, $what, |scene| Box::pin($play(scene)))
    };
}
use case;

/// All cases of the suite, in the order in which they are played and listed.
#[must_use]
pub fn all() -> Vec<FaultCase> {
    [
        redis::cases(),
        failover::cases(),
        database::cases(),
        queue::cases(),
        process::cases(),
        schedule::cases(),
        relay::cases(),
        operations::cases(),
        clock::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Raises what Redis believes to have, so that the database has to refuse.
///
/// # Errors
/// When Redis does not answer or has no such bucket.
async fn show_too_much(scene: &Scene) -> Result<(), StartError> {
    let mut connection = scene.stage.connect().await?;
    for bucket in 0..scene.setup.buckets {
        let key = scene.key(bucket, "bucket");
        for sku in &scene.setup.skus {
            // `free|sold|on sale|allotted|version`: one script, for the sale goes on meanwhile.
            let script = "local v = redis.call('HGET', KEYS[1], ARGV[1]) \
                          local free, rest = string.match(v, '^(-?%d+)(|.*)$') \
                          redis.call('HSET', KEYS[1], ARGV[1], (free + ARGV[2]) .. rest)";
            let mut raise = ::redis::cmd("EVAL");
            raise.arg(script).arg(1).arg(&key).arg(sku).arg(scene.setup.units);
            raise.query_async::<()>(&mut connection).await?;
        }
    }
    Ok(())
}
