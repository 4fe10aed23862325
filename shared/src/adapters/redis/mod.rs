//! The gate on Redis, a single node or a cluster. One operation is one Lua script in `lua/` and its
//! twin in `scripts/`; both speak in outcomes. What cannot be reached or read is a [`Fault`].

mod call;
mod fault;
mod feed;
pub mod keys;
mod link;
mod lock;
mod order_gate;
mod script;
mod scripts;
mod stock_gate;
mod token_gate;

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use self::{
    call::{BadReply, Body, Call, Pace, Reply},
    fault::{Next, classify, classify_connect},
    link::{Link, Live},
};
use crate::{
    config::RedisConfig,
    ports::{Effect, Fault},
};

/// Most attempts after the first one.
const RETRIES_MAX: u32 = 2;
/// Shortest and longest pause before another attempt, in milliseconds: so that tasks which failed
/// together do not come back together.
const PAUSE_MS: std::ops::RangeInclusive<u64> = 2..=12;
/// Deadline of calls that read whole buckets, in milliseconds.
const SLOW_DEADLINE_MS: u64 = 2_000;

/// The gate. Clones share one connection, which is opened by the first call.
#[derive(Clone)]
pub struct Gate(Option<Arc<Inner>>);

struct Inner {
    link: Link,
    quick: Duration,
    slow: Duration,
}

/// Why there was no reply.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("no Redis is configured")]
    NotConfigured,
    #[error("Redis cannot be reached")]
    Unreachable(#[source] redis::RedisError),
    #[error("Redis did not answer in time")]
    TimedOut,
    #[error("Redis refused or broke off")]
    Failed(#[source] redis::RedisError),
}

impl Gate {
    /// Never fails and connects to nothing yet. Without a configuration every call is a fault that
    /// was not applied.
    #[must_use]
    pub fn new(config: Option<RedisConfig>) -> Self {
        Self(config.map(|config| {
            let quick = Duration::from_millis(config.deadline_ms);
            let slow = Duration::from_millis(config.deadline_ms.max(SLOW_DEADLINE_MS));
            Arc::new(Inner { link: Link::new(config, slow), quick, slow })
        }))
    }

    /// Sends a call and reads the answer in its reply.
    async fn ask<T>(&self, call: Call, parse: impl FnOnce(&Reply) -> Result<T, BadReply>) -> Result<T, Fault> {
        let reply = self.run(&call).await?;
        parse(&reply).map_err(|bad| match bad {
            BadReply::BadData => Fault::not_applied(call.operation, bad),
            BadReply::Unexpected => Fault::maybe_applied(call.operation, bad),
        })
    }

    async fn run(&self, call: &Call) -> Result<Reply, Fault> {
        let Some(inner) = &self.0 else {
            return Err(Fault::not_applied(call.operation, Failure::NotConfigured));
        };
        let (mut retries, mut timed_out, mut unknown) = (0, false, false);
        loop {
            let (failure, effect, next) = match inner.attempt(call).await {
                Ok(reply) => return Ok(reply),
                Err(failed) => failed,
            };
            unknown |= effect == Effect::Unknown;
            // A second time-out would double what the buyer waits and tell nothing new.
            let hopeless = timed_out && matches!(failure, Failure::TimedOut);
            timed_out |= matches!(failure, Failure::TimedOut);
            let allowed = call.repeatable || !unknown;
            if next == Next::GiveUp || retries == RETRIES_MAX || hopeless || !allowed {
                let effect = if unknown { Effect::Unknown } else { Effect::None };
                return Err(Fault { operation: call.operation, effect, source: failure.into() });
            }
            retries += 1;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(PAUSE_MS))).await;
        }
    }
}

impl Inner {
    async fn attempt(&self, call: &Call) -> Result<Reply, (Failure, Effect, Next)> {
        let mut live = self.link.get().await.map_err(|error| {
            let (effect, next) = classify_connect(&error);
            (Failure::Unreachable(error), effect, next)
        })?;
        let deadline = match call.pace {
            Pace::Quick => self.quick,
            Pace::Slow => self.slow,
        };
        match timeout(deadline, send(&mut live, &call.body)).await {
            Ok(Ok(value)) => Ok(Reply::new(value)),
            Ok(Err(error)) if error.code() == Some("WRONGTYPE") => Ok(Reply::unreadable()),
            Ok(Err(error)) => {
                let (effect, next) = classify(&error, live.is_cluster());
                if next == Next::Reconnect {
                    self.link.discard(&live);
                }
                Err((Failure::Failed(error), effect, next))
            }
            Err(_) => {
                self.link.discard(&live);
                Err((Failure::TimedOut, Effect::Unknown, Next::Reconnect))
            }
        }
    }
}

async fn send(live: &mut Live, body: &Body) -> redis::RedisResult<redis::Value> {
    match body {
        Body::Command(command) => live.send(command).await,
        Body::Script { script, keys, args } => match live.send(&script.evalsha(keys, args)).await {
            Err(error) if error.kind() == redis::ErrorKind::Server(redis::ServerErrorKind::NoScript) => {
                live.send(&script.eval(keys, args)).await
            }
            answered => answered,
        },
    }
}
