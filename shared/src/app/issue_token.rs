//! Issuing an order token: signed, not stored, at most ten a minute per buyer. While Redis is gone, ten
//! per process.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    app::activity_cache::ActivityCache,
    domain::{
        ids::{ActivityId, BuyerId},
        time::UnixMillis,
        token::{Page, TOKEN_LIFE_MS, Token, TokenId, TokenKeys},
    },
    ports::{ActivityStore, Clock, Fault, TokenGate},
};

/// Most tokens that one buyer may take in one minute.
pub const TOKENS_PER_MINUTE: u32 = 10;

/// What asking for a token comes to, in order of precedence.
#[derive(Debug)]
#[must_use]
pub enum Issued {
    UnknownActivity,
    /// The sale is over.
    Ended,
    /// The buyer took too many; the next one is possible in so many seconds.
    TooMany {
        retry_after_s: u32,
    },
    Token {
        text: String,
        expires_at: UnixMillis,
    },
}

pub struct IssueToken<S, G, C> {
    pub cache: ActivityCache<S>,
    pub gate: G,
    pub clock: C,
    pub keys: Arc<TokenKeys>,
    pub counts: LocalCounts,
}

/// Buyers whose tokens one process counts while Redis is gone.
const COUNTED_MAX: usize = 10_000;
const WINDOW_MS: i64 = 60_000;

/// Tokens per buyer in the current minute, as far as this process issued them: the stand-in for the
/// count in Redis. When there are more buyers than it counts, it begins anew: a token takes nothing, and
/// the limit of the orders themselves holds.
#[derive(Debug, Default)]
pub struct LocalCounts(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    minute: i64,
    issued: HashMap<(ActivityId, BuyerId), u32>,
}

impl LocalCounts {
    fn allow(&self, activity: &ActivityId, buyer: &BuyerId, now: UnixMillis) -> Result<(), u32> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let minute = now.get() / WINDOW_MS;
        if counts.minute != minute || counts.issued.len() >= COUNTED_MAX {
            *counts = Counts { minute, issued: HashMap::new() };
        }
        let issued = counts.issued.entry((activity.clone(), buyer.clone())).or_default();
        if *issued >= TOKENS_PER_MINUTE {
            let left_ms = (minute + 1) * WINDOW_MS - now.get();
            return Err(u32::try_from(left_ms / 1_000 + 1).unwrap_or(1));
        }
        *issued += 1;
        Ok(())
    }
}

impl<S: ActivityStore, G: TokenGate, C: Clock> IssueToken<S, G, C> {
    /// Tokens may be taken before the start, so that the burst at the start is orders only.
    pub async fn run(&self, activity: &ActivityId, buyer: BuyerId, page: Page) -> Result<Issued, Fault> {
        let Some(activity) = self.cache.get(activity).await? else {
            return Ok(Issued::UnknownActivity);
        };
        let now = self.clock.now();
        if now >= activity.window.ends_at {
            return Ok(Issued::Ended);
        }
        // Without a gate the rate is left to the throttling of the HTTP API.
        if activity.strategy.uses_gate() {
            let home = buyer.home(activity.buckets);
            let allowed = match self.gate.allow_token(&activity.id, home, &buyer, TOKENS_PER_MINUTE).await {
                Ok(allowed) => allowed,
                // The signature alone makes a token. Each process counts for itself meanwhile.
                Err(_) => self.counts.allow(&activity.id, &buyer, now),
            };
            if let Err(retry_after_s) = allowed {
                return Ok(Issued::TooMany { retry_after_s });
            }
        }
        let mut id = [0_u8; 16];
        getrandom::fill(&mut id).map_err(|error| Fault::not_applied("draw a token id", error))?;
        let expires_at = now.plus_ms(TOKEN_LIFE_MS);
        let token = Token { activity: activity.id.clone(), buyer, page, id: TokenId::from_bytes(id), expires_at };
        Ok(Issued::Token { text: self.keys.sign(&token), expires_at })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_counts_by_minute_and_buyer_in_bounded_memory() {
        let (counts, sale, now) =
            (LocalCounts::default(), ActivityId::parse("sale").unwrap(), UnixMillis::new(600_000 + 20_000));
        let buyer = |name: &str| BuyerId::parse(name).unwrap();
        for _ in 0..TOKENS_PER_MINUTE {
            assert_eq!(counts.allow(&sale, &buyer("alice"), now), Ok(()));
        }
        assert_eq!(counts.allow(&sale, &buyer("alice"), now), Err(41));
        assert_eq!(counts.allow(&sale, &buyer("bob"), now), Ok(()), "another buyer is not concerned");
        assert_eq!(counts.allow(&ActivityId::parse("other").unwrap(), &buyer("alice"), now), Ok(()));
        assert_eq!(counts.allow(&sale, &buyer("alice"), now.plus_ms(40_000)), Ok(()), "the next minute");
        for n in 0..=COUNTED_MAX {
            let _ = counts.allow(&sale, &buyer(&format!("b{n}")), now.plus_ms(40_000));
        }
        assert!(counts.0.lock().unwrap().issued.len() <= COUNTED_MAX);
    }
}
