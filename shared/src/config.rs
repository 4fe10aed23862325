//! Configuration: the only reader of the environment. Every error is told at once, by name, at start.

mod redis;

use std::collections::HashMap;

use data_encoding::BASE64;
use secrecy::{ExposeSecret as _, SecretString};

pub use redis::RedisConfig;

use crate::{
    domain::{
        rate::SharedRate,
        token::{SigningKey, TokenKeys},
        webhook::WebhookSecrets,
    },
    ports::Fault,
};

type Lookup = Box<dyn Fn(&str) -> Option<String>>;

const TOKEN_KEYS: &str = "HOLDFAST_TOKEN_KEYS";
const WEBHOOK_SECRETS: &str = "HOLDFAST_WEBHOOK_SECRETS";
const REDIS_PASSWORD: &str = "HOLDFAST_REDIS_PASSWORD";

/// Reads settings and keeps every error until [`Reader::finish`].
///
/// A secret is given in clear, which is for local runs, or by reference: `HOLDFAST_TOKEN_KEYS_SECRET` holds the
/// name or ARN of the secret in Secrets Manager whose text is `HOLDFAST_TOKEN_KEYS`; the same for
/// `HOLDFAST_WEBHOOK_SECRETS` and `HOLDFAST_REDIS_PASSWORD`. So no environment shows one.
pub struct Reader {
    lookup: Lookup,
    /// Secrets that were given by reference, by their names.
    fetched: HashMap<&'static str, SecretString>,
    errors: Vec<String>,
}

/// All that is wrong with the configuration, one line each. Values are never shown.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("configuration: {}", .0.join("; "))]
pub struct ConfigError(pub Vec<String>);

/// Orders a second that are admitted past Redis, over all processes, when no rate is set: what the script
/// admits into one bucket, because all of them may meet on one stock item. Such an item is good for about
/// a hundred a second.
pub const DEGRADED_RATE: u32 = 80;
const DEGRADED_RATE_MAX: u32 = 10_000;
/// Most processes of a function when none is said: what an account may run in all, unless it asked for more.
const PROCESSES: u32 = 1_000;
const PROCESSES_MAX: u32 = 100_000;
/// Messages of the roll-back queue above which admission is limited, when nothing is set.
pub const BACKLOG: u32 = 100_000;
const BACKLOG_MAX: u32 = 100_000_000;

/// Names of the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableConfig {
    pub table: String,
    pub audit_table: String,
}

/// URLs of the queues. A function that does not send to one leaves it out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueConfig {
    pub roll_back_url: Option<String>,
    pub fulfilment_url: Option<String>,
    pub dead_letter_url: Option<String>,
}

/// Where metrics are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    pub namespace: String,
    /// Of which deployment they are.
    pub stack: String,
}

impl Reader {
    #[must_use]
    pub fn environment() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }

    pub fn new(lookup: impl Fn(&str) -> Option<String> + 'static) -> Self {
        Self { lookup: Box::new(lookup), fetched: HashMap::new(), errors: Vec::new() }
    }

    /// The secrets that are given by reference, and what each refers to: for [`Reader::resolve`].
    pub fn references(&mut self) -> Vec<(&'static str, String)> {
        let mut references = Vec::new();
        for name in [TOKEN_KEYS, WEBHOOK_SECRETS, REDIS_PASSWORD] {
            let Some(secret) = self.optional(&format!("{name}_SECRET")) else { continue };
            if self.optional(name).is_some() {
                self.fail(name, &format!("and {name}_SECRET are both set"));
            } else {
                references.push((name, secret));
            }
        }
        references
    }

    /// What a reference came to.
    pub fn resolve(&mut self, name: &'static str, fetched: Result<SecretString, Fault>) {
        match fetched {
            Ok(secret) => {
                self.fetched.insert(name, secret);
            }
            Err(fault) => self.fail(&format!("{name}_SECRET"), &format!("cannot be read: {}", fault.chain())),
        }
    }

    /// # Errors
    /// Everything that was found wrong since the reader was made.
    pub fn finish(self) -> Result<(), ConfigError> {
        if self.errors.is_empty() { Ok(()) } else { Err(ConfigError(self.errors)) }
    }

    /// A setting that is there and not empty.
    fn optional(&self, name: &str) -> Option<String> {
        (self.lookup)(name).filter(|value| !value.is_empty())
    }

    /// A secret that is there and not empty, in clear or by reference. A line's end behind it is none of it.
    fn secret(&self, name: &str) -> Option<String> {
        let fetched = self.fetched.get(name).map(|secret| secret.expose_secret().trim_end().to_owned());
        fetched.or_else(|| self.optional(name))
    }

    /// The same, where it cannot be missing. A reference that led nowhere was told already.
    fn required_secret(&mut self, name: &str) -> Option<String> {
        let secret = self.secret(name);
        if secret.is_none() && self.optional(&format!("{name}_SECRET")).is_none() {
            self.fail(name, &format!("is missing, and so is {name}_SECRET"));
        }
        secret
    }

    fn fail(&mut self, name: &str, rule: &str) {
        let error = format!("{name} {rule}");
        if !self.errors.contains(&error) {
            self.errors.push(error);
        }
    }

    fn required(&mut self, name: &str) -> String {
        self.optional(name).unwrap_or_else(|| {
            self.fail(name, "is missing");
            String::new()
        })
    }

    /// `HOLDFAST_TABLE` and `HOLDFAST_AUDIT_TABLE`.
    pub fn tables(&mut self) -> TableConfig {
        TableConfig { table: self.required("HOLDFAST_TABLE"), audit_table: self.required("HOLDFAST_AUDIT_TABLE") }
    }

    /// `HOLDFAST_TRUST_SYSTEM` (`true` or `false`, the default): whether the services of AWS and Redis may have
    /// certificates of whomever the system trusts, and not of Amazon Trust Services and of Mozilla's roots only.
    pub fn trusts_system(&mut self) -> bool {
        self.switch("HOLDFAST_TRUST_SYSTEM")
    }

    fn switch(&mut self, name: &str) -> bool {
        match self.optional(name).as_deref() {
            None | Some("false") => false,
            Some("true") => true,
            Some(_) => {
                self.fail(name, "must be true or false");
                false
            }
        }
    }

    /// `HOLDFAST_DEGRADED_RATE` (1 to 10,000 orders a second, 80 by default) and `HOLDFAST_PROCESSES_MAX`
    /// (1 to 100,000 processes of this function at a time, 1,000 by default).
    pub fn degraded_rate(&mut self) -> SharedRate {
        SharedRate {
            per_second: self.number("HOLDFAST_DEGRADED_RATE", DEGRADED_RATE, DEGRADED_RATE_MAX),
            processes: self.number("HOLDFAST_PROCESSES_MAX", PROCESSES, PROCESSES_MAX),
        }
    }

    /// `HOLDFAST_BACKLOG_MAX` (1 to 100,000,000 messages, 100,000 by default).
    pub fn backlog_max(&mut self) -> u64 {
        u64::from(self.number("HOLDFAST_BACKLOG_MAX", BACKLOG, BACKLOG_MAX))
    }

    fn number(&mut self, name: &str, default: u32, max: u32) -> u32 {
        let Some(text) = self.optional(name) else { return default };
        text.parse().ok().filter(|number| (1..=max).contains(number)).unwrap_or_else(|| {
            self.fail(name, &format!("must be a whole number from 1 to {max}"));
            default
        })
    }

    /// `HOLDFAST_ROLL_BACK_QUEUE_URL`.
    pub fn roll_back_queue(&mut self) -> QueueConfig {
        QueueConfig { roll_back_url: Some(self.queue("HOLDFAST_ROLL_BACK_QUEUE_URL")), ..QueueConfig::default() }
    }

    /// `HOLDFAST_FULFILMENT_QUEUE_URL` and `HOLDFAST_DEAD_LETTER_QUEUE_URL`.
    pub fn relay_queues(&mut self) -> QueueConfig {
        QueueConfig {
            roll_back_url: None,
            fulfilment_url: Some(self.queue("HOLDFAST_FULFILMENT_QUEUE_URL")),
            dead_letter_url: Some(self.queue("HOLDFAST_DEAD_LETTER_QUEUE_URL")),
        }
    }

    fn queue(&mut self, name: &str) -> String {
        let url = self.required(name);
        if !url.is_empty() && !url.starts_with("http://") && !url.starts_with("https://") {
            self.fail(name, "must be a queue URL");
        }
        url
    }

    /// `HOLDFAST_TOKEN_KEYS`: `<id>:<base64>`, the signing key first; a second one, separated by a
    /// comma, still verifies while keys rotate. Ids are 0 to 255, secrets at least 32 bytes.
    pub fn token_keys(&mut self) -> Option<TokenKeys> {
        let text = self.required_secret(TOKEN_KEYS)?;
        let keys: Option<Vec<SigningKey>> = text.split(',').map(parse_key).collect();
        let keys = keys.and_then(|keys| {
            let mut keys = keys.into_iter();
            let (current, previous) = (keys.next()?, keys.next());
            keys.next().is_none().then(|| TokenKeys::new(current, previous).ok()).flatten()
        });
        if keys.is_none() {
            self.fail(TOKEN_KEYS, "must be one or two <id>:<base64 of at least 32 bytes> with different ids");
        }
        keys
    }

    /// `HOLDFAST_WEBHOOK_SECRETS`: base64 of at least 32 bytes; a second one, separated by a comma, is valid
    /// too while they rotate.
    pub fn webhook_secrets(&mut self) -> Option<WebhookSecrets> {
        let text = self.required_secret(WEBHOOK_SECRETS)?;
        let decoded = text.split(',').map(|secret| BASE64.decode(secret.trim().as_bytes()).ok());
        let secrets = decoded.collect::<Option<Vec<_>>>().and_then(|secrets| WebhookSecrets::new(secrets).ok());
        if secrets.is_none() {
            self.fail(
                WEBHOOK_SECRETS,
                "must be one or two times the base64 of at least 32 bytes, separated by a comma",
            );
        }
        secrets
    }

    /// `HOLDFAST_METRICS_NAMESPACE`, and with it `HOLDFAST_STACK`. Without the first there are no metrics.
    pub fn metrics(&mut self) -> Option<MetricsConfig> {
        const NAMESPACE: &str = "HOLDFAST_METRICS_NAMESPACE";
        const STACK: &str = "HOLDFAST_STACK";
        let namespace = self.optional(NAMESPACE)?;
        let stack = self.required(STACK);
        let valid = |text: &str| {
            text.len() <= 128 && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte))
        };
        for (name, text) in [(NAMESPACE, &namespace), (STACK, &stack)] {
            if !valid(text) || text.starts_with("AWS/") {
                self.fail(name, "must be at most 128 letters, digits and any of - _ . /, and not begin with AWS/");
            }
        }
        Some(MetricsConfig { namespace, stack })
    }

    /// `HOLDFAST_LOG`: a `tracing` filter, `info` by default.
    #[must_use]
    pub fn log_filter(&self) -> String {
        self.optional("HOLDFAST_LOG").unwrap_or_else(|| "info".to_owned())
    }
}

fn parse_key(text: &str) -> Option<SigningKey> {
    let (id, secret) = text.trim().split_once(':')?;
    SigningKey::new(id.parse().ok()?, BASE64.decode(secret.as_bytes()).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(pairs: &'static [(&str, &str)]) -> Reader {
        Reader::new(|name| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn every_error_is_told_at_once_by_name_and_without_its_value() {
        let mut reader = reader(&[
            ("HOLDFAST_TABLE", "orders"),
            ("HOLDFAST_REDIS_URL", "http://secret-host"),
            ("HOLDFAST_REDIS_CLUSTER", "yes"),
            ("HOLDFAST_TRUST_SYSTEM", "1"),
            ("HOLDFAST_REDIS_DEADLINE_MS", "9"),
            ("HOLDFAST_DEGRADED_RATE", "0"),
            ("HOLDFAST_PROCESSES_MAX", "many"),
            ("HOLDFAST_BACKLOG_MAX", "-1"),
            ("HOLDFAST_TOKEN_KEYS", "1:c2hvcnQ="),
            ("HOLDFAST_ROLL_BACK_QUEUE_URL", "queue"),
            ("HOLDFAST_WEBHOOK_SECRETS", "c2hvcnQ="),
            ("HOLDFAST_METRICS_NAMESPACE", "AWS/Lambda"),
            ("HOLDFAST_STACK", "a b"),
        ]);
        reader.trusts_system();
        reader.tables();
        reader.redis();
        reader.token_keys();
        reader.roll_back_queue();
        reader.degraded_rate();
        reader.backlog_max();
        reader.webhook_secrets();
        reader.metrics();
        let ConfigError(errors) = reader.finish().unwrap_err();
        let names: Vec<_> = errors.iter().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(
            names,
            [
                "HOLDFAST_TRUST_SYSTEM",
                "HOLDFAST_AUDIT_TABLE",
                "HOLDFAST_REDIS_URL",
                "HOLDFAST_REDIS_CLUSTER",
                "HOLDFAST_REDIS_DEADLINE_MS",
                "HOLDFAST_TOKEN_KEYS",
                "HOLDFAST_ROLL_BACK_QUEUE_URL",
                "HOLDFAST_DEGRADED_RATE",
                "HOLDFAST_PROCESSES_MAX",
                "HOLDFAST_BACKLOG_MAX",
                "HOLDFAST_WEBHOOK_SECRETS",
                "HOLDFAST_METRICS_NAMESPACE",
                "HOLDFAST_STACK"
            ]
        );
        assert!(!errors.join(" ").contains("secret-host") && !errors.join(" ").contains("c2hvcnQ"));
    }

    #[test]
    fn a_complete_configuration_is_read() {
        let mut reader = reader(&[
            ("HOLDFAST_REDIS_URL", "rediss://a:6379, rediss://b:6379"),
            ("HOLDFAST_REDIS_CLUSTER", "true"),
            (
                "HOLDFAST_TOKEN_KEYS",
                "2:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=,1:AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
            ),
        ]);
        let redis = reader.redis().unwrap();
        assert_eq!((redis.urls.len(), redis.deadline_ms), (2, 50));
        assert!(reader.token_keys().is_some());
        assert_eq!(reader.degraded_rate(), SharedRate { per_second: 80, processes: 1_000 });
        assert_eq!(reader.backlog_max(), 100_000);
        assert_eq!(reader.metrics(), None, "no namespace, no metrics");
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn metrics_need_the_name_of_the_stack() {
        let mut whole = reader(&[("HOLDFAST_METRICS_NAMESPACE", "Holdfast"), ("HOLDFAST_STACK", "shop-1")]);
        let config = MetricsConfig { namespace: "Holdfast".to_owned(), stack: "shop-1".to_owned() };
        assert_eq!(whole.metrics(), Some(config));
        assert_eq!(whole.finish(), Ok(()));
        let mut half = reader(&[("HOLDFAST_METRICS_NAMESPACE", "Holdfast")]);
        half.metrics();
        assert_eq!(half.finish().unwrap_err().0, ["HOLDFAST_STACK is missing"]);
    }
}
