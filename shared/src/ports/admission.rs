//! What all processes have to know of the state of the whole system before they admit an order.

use std::future::Future;

use serde::{Deserialize, Serialize};

use super::Fault;
use crate::domain::time::UnixMillis;

/// How admission stands. Everything in it runs out by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admission {
    /// Orders with tokens that expire no later than this may be in the database without Redis knowing of
    /// them: they were placed past it.
    #[serde(default)]
    pub bypassed_until: Option<UnixMillis>,
    /// Since when that has been noted without a gap: processes that have not read it since may not know.
    #[serde(default)]
    pub bypassed_since: Option<UnixMillis>,
    /// Until when new submissions are admitted at the bounded rate only.
    #[serde(default)]
    pub limited_until: Option<UnixMillis>,
    /// Who limited it, and why, for people.
    #[serde(default)]
    pub limited_by: Option<String>,
    #[serde(default)]
    pub reason: Option<String>,
    /// Messages of the roll-back queue when it was last judged.
    #[serde(default)]
    pub backlog: Option<u64>,
}

impl Admission {
    #[must_use]
    pub fn is_limited(&self, now: UnixMillis) -> bool {
        self.limited_until.is_some_and(|until| now < until)
    }

    /// Whether the order of a token that expires then may have been placed past Redis.
    #[must_use]
    pub fn may_have_passed(&self, token_expires_at: UnixMillis) -> bool {
        self.bypassed_until.is_some_and(|until| token_expires_at <= until)
    }
}

/// A note that orders are placed past Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bypass {
    pub at: UnixMillis,
    /// When a token expires that is issued now: what was noted by then covers it already.
    pub covers: UnixMillis,
    /// Orders of tokens that expire by then may be placed past Redis.
    pub until: UnixMillis,
}

/// Limiting admission, or ending it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limiting {
    pub until: UnixMillis,
    pub by: String,
    pub reason: String,
    pub backlog: u64,
}

/// Where the state of admission is kept. The two writes MUST NOT disturb one another.
pub trait AdmissionStore: Send + Sync {
    fn admission(&self) -> impl Future<Output = Result<Admission, Fault>> + Send;

    /// Answers since when it has been noted without a gap: since now, unless what is stored covers the
    /// tokens of now. MUST NOT shorten what is stored.
    fn note_bypass(&self, bypass: Bypass) -> impl Future<Output = Result<UnixMillis, Fault>> + Send;

    fn limit_admission(&self, limiting: &Limiting) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// How long a queue is.
pub trait Backlog: Send + Sync {
    /// Messages of the roll-back queue, those in flight and delayed included. About right.
    fn roll_back_backlog(&self) -> impl Future<Output = Result<u64, Fault>> + Send;
}
