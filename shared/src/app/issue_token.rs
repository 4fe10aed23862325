//! Issuing an order token: signed, not stored, at most ten a minute per buyer.

use std::sync::Arc;

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
            if let Err(retry_after_s) = self.gate.allow_token(&activity.id, home, &buyer, TOKENS_PER_MINUTE).await? {
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
