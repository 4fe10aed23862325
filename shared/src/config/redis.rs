//! How to reach Redis.

use secrecy::SecretString;

use super::{REDIS_PASSWORD, Reader};

/// Deadline of a call to Redis when none is set, in milliseconds.
const REDIS_DEADLINE_MS: u64 = 50;

/// How to reach Redis.
#[derive(Clone, Debug)]
pub struct RedisConfig {
    /// `redis://` or `rediss://` (TLS), one or more: seeds when `cluster`.
    pub urls: Vec<String>,
    pub cluster: bool,
    pub password: Option<SecretString>,
    /// With TLS: whether the certificate may be of whomever the system trusts, and not of Mozilla's roots only,
    /// which come with the program.
    pub trusts_system: bool,
    /// How long a call may wait for its reply, in milliseconds.
    pub deadline_ms: u64,
}

impl RedisConfig {
    /// Without a password.
    #[must_use]
    pub const fn new(urls: Vec<String>, cluster: bool, deadline_ms: u64) -> Self {
        Self { urls, cluster, password: None, trusts_system: false, deadline_ms }
    }
}

impl Reader {
    /// `HOLDFAST_REDIS_URL` (several, separated by commas), `HOLDFAST_REDIS_CLUSTER` (`true` or
    /// `false`, the default), `HOLDFAST_REDIS_PASSWORD` and `HOLDFAST_REDIS_DEADLINE_MS` (10 to 2000,
    /// 50 by default). Without a URL there is no gate: only activities with the strategy `cas` can run.
    pub fn redis(&mut self) -> Option<RedisConfig> {
        let urls: Vec<String> =
            self.optional("HOLDFAST_REDIS_URL")?.split(',').map(|url| url.trim().to_owned()).collect();
        if !urls.iter().all(|url| url.starts_with("redis://") || url.starts_with("rediss://")) {
            self.fail("HOLDFAST_REDIS_URL", "must be redis:// or rediss:// URLs separated by commas");
        }
        let cluster = self.switch("HOLDFAST_REDIS_CLUSTER");
        if !cluster && urls.len() > 1 {
            self.fail("HOLDFAST_REDIS_URL", "must be one URL unless HOLDFAST_REDIS_CLUSTER is true");
        }
        let password = self.secret(REDIS_PASSWORD).map(SecretString::from);
        let trusts_system = self.trusts_system();
        Some(RedisConfig { password, trusts_system, ..RedisConfig::new(urls, cluster, self.redis_deadline_ms()) })
    }

    fn redis_deadline_ms(&mut self) -> u64 {
        const NAME: &str = "HOLDFAST_REDIS_DEADLINE_MS";
        let Some(text) = self.optional(NAME) else {
            return REDIS_DEADLINE_MS;
        };
        text.parse().ok().filter(|ms| (10..=2_000).contains(ms)).unwrap_or_else(|| {
            self.fail(NAME, "must be 10 to 2000 milliseconds");
            REDIS_DEADLINE_MS
        })
    }
}
