//! The gate on Redis, a single node or a cluster. One operation is one Lua script in `lua/` and its
//! twin in `scripts/`; both speak in outcomes. What cannot be reached or read is a [`Fault`]; when
//! nothing usable answers twice in a row, calls are such faults at once (`breaker`).

mod breaker;
mod call;
mod fault;
mod feed;
pub mod keys;
mod known;
mod link;
mod lock;
mod order_gate;
mod script;
mod scripts;
mod stock_gate;
mod token_gate;

use std::{sync::Arc, time::Duration};

use redis::cluster_routing::Slot;
use tokio::time::{Instant, timeout};

use self::{
    breaker::{Breakers, Circuit, Permit},
    call::{BadReply, Body, Call, Pace, Reply},
    fault::{Next, classify, classify_connect, is_usable},
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
    breakers: Breakers,
    /// A dead node of a cluster must not stop the calls to the others.
    circuit_per_slot: bool,
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
    #[error("Redis was not asked: it did not answer lately")]
    BreakerOpen,
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
            let (breakers, circuit_per_slot) = (Breakers::default(), config.cluster);
            Arc::new(Inner { link: Link::new(config, slow), breakers, circuit_per_slot, quick, slow })
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
        let circuit = inner.circuit(call);
        let (mut retries, mut timed_out, mut unknown) = (0, false, false);
        loop {
            let Ok(permit) = inner.breakers.admit(circuit, Instant::now()) else {
                let effect = if unknown { Effect::Unknown } else { Effect::None };
                return Err(Fault { operation: call.operation, effect, source: Failure::BreakerOpen.into() });
            };
            let probe = permit.is_probe();
            let failed = match inner.attempt(call).await {
                Ok(reply) => {
                    permit.answered();
                    return Ok(reply);
                }
                Err(failed) => failed,
            };
            unknown |= failed.effect == Effect::Unknown;
            // A second time-out would double what the buyer waits and tell nothing new.
            let hopeless = timed_out && matches!(failed.failure, Failure::TimedOut);
            timed_out |= matches!(failed.failure, Failure::TimedOut);
            let allowed = call.repeatable || !unknown;
            let last = failed.next == Next::GiveUp || retries == RETRIES_MAX || probe || hopeless || !allowed;
            failed.tell(permit, last);
            if last {
                let effect = if unknown { Effect::Unknown } else { Effect::None };
                return Err(Fault { operation: call.operation, effect, source: failed.failure.into() });
            }
            retries += 1;
            tokio::time::sleep(Duration::from_millis(fastrand::u64(PAUSE_MS))).await;
        }
    }
}

/// An attempt without a reply.
struct Failed {
    failure: Failure,
    effect: Effect,
    next: Next,
}

impl Failed {
    /// What the breaker learns: silence and broken connections count at once; what a server answers
    /// counts when the attempts are over, because the next one may meet its successor.
    fn tell(&self, permit: Permit<'_>, last: bool) {
        match &self.failure {
            Failure::Failed(error) if is_usable(error) => permit.answered(),
            Failure::Failed(error) if !last && !error.is_io_error() => {}
            _ => permit.failed(Instant::now()),
        }
    }
}

impl Inner {
    fn circuit(&self, call: &Call) -> Circuit {
        call.key().filter(|_| self.circuit_per_slot).map(Slot::for_key)
    }

    async fn attempt(&self, call: &Call) -> Result<Reply, Failed> {
        let mut live = self.link.get().await.map_err(|error| {
            let (effect, next) = classify_connect(&error);
            Failed { failure: Failure::Unreachable(error), effect, next }
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
                Err(Failed { failure: Failure::Failed(error), effect, next })
            }
            Err(_) => {
                self.link.discard(&live);
                Err(Failed { failure: Failure::TimedOut, effect: Effect::Unknown, next: Next::Reconnect })
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
