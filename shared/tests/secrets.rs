//! Secrets by reference: fetched when a function starts, from a real local server through the real SDK.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

use aws_config::{Region, SdkConfig};
use aws_sdk_secretsmanager::{Client, config::Credentials};
use holdfast::{
    adapters::aws,
    config::Reader,
    domain::{
        ids::{ActivityId, BuyerId},
        time::UnixMillis,
        token::{Page, Token, TokenId},
    },
    lambda::{Needs, Start},
};
use servers::{FaultKind, SecretsManager};

const KEYS: &str = "7:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

async fn sdk(endpoint: &str) -> SdkConfig {
    aws::loader()
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::for_tests())
        .endpoint_url(endpoint)
        .load()
        .await
}

/// A function that starts with these settings beside those that every function needs.
async fn start(server: &SecretsManager, settings: &'static [(&'static str, &'static str)]) -> Start {
    const TABLES: [(&str, &str); 2] = [("HOLDFAST_TABLE", "orders"), ("HOLDFAST_AUDIT_TABLE", "audit")];
    let reader = Reader::new(move |name| {
        let mut all = settings.iter().chain(&TABLES);
        all.find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    });
    Start::with(reader, sdk(server.endpoint()).await).await
}

async fn server(secrets: &[(&str, &str)]) -> SecretsManager {
    let server = SecretsManager::start().await.unwrap();
    let client = Client::new(&sdk(server.endpoint()).await);
    for (name, text) in secrets {
        client.create_secret().name(*name).secret_string(*text).send().await.unwrap();
    }
    server
}

fn errors(start: Start) -> String {
    start.connect(Needs { gate: true, ..Needs::default() }).err().expect("an error").to_string()
}

#[tokio::test]
async fn a_secret_is_read_by_its_reference_and_a_line_end_behind_it_is_none_of_it() {
    let server = server(&[("keys", &format!("{KEYS}\n"))]).await;
    let mut by_reference = start(&server, &[("HOLDFAST_TOKEN_KEYS_SECRET", "keys")]).await;
    let mut in_clear = start(&server, &[("HOLDFAST_TOKEN_KEYS", KEYS)]).await;
    let (fetched, given) = (by_reference.reader.token_keys().unwrap(), in_clear.reader.token_keys().unwrap());
    assert_eq!(server.control().count("GetSecretValue"), 1, "nothing is fetched that is there");
    let token = given.sign(&Token {
        activity: ActivityId::parse("demo").unwrap(),
        buyer: BuyerId::parse("alice").unwrap(),
        page: Page::default(),
        id: TokenId::from_bytes([7; 16]),
        expires_at: UnixMillis::new(1),
    });
    assert!(fetched.verify(&token).is_ok(), "they are the same keys");
    assert!(by_reference.connect(Needs::default()).is_ok() && in_clear.connect(Needs::default()).is_ok());
}

#[tokio::test]
async fn all_that_is_wrong_with_secrets_is_told_at_once_and_never_their_text() {
    let server = server(&[("webhook", "too-short-and-secret"), ("password", "secret-word")]).await;
    let mut start = start(
        &server,
        &[
            ("HOLDFAST_TOKEN_KEYS_SECRET", "not-there"),
            ("HOLDFAST_WEBHOOK_SECRETS_SECRET", "webhook"),
            ("HOLDFAST_REDIS_PASSWORD_SECRET", "password"),
            ("HOLDFAST_REDIS_PASSWORD", "another-word"),
            ("HOLDFAST_REDIS_URL", "redis://127.0.0.1:1"),
        ],
    )
    .await;
    assert!(start.reader.token_keys().is_none() && start.reader.webhook_secrets().is_none());
    let errors = errors(start);
    for told in [
        "HOLDFAST_TOKEN_KEYS_SECRET cannot be read: GetSecretValue failed",
        "ResourceNotFoundException",
        "HOLDFAST_WEBHOOK_SECRETS must be one or two times the base64",
        "HOLDFAST_REDIS_PASSWORD and HOLDFAST_REDIS_PASSWORD_SECRET are both set",
    ] {
        assert!(errors.contains(told), "{told} is not in: {errors}");
    }
    assert_eq!(errors.matches("HOLDFAST_TOKEN_KEYS").count(), 1, "told once: {errors}");
    for secret in ["secret-word", "another-word", "too-short-and-secret"] {
        assert!(!errors.contains(secret), "{errors}");
    }
}

#[tokio::test]
async fn a_failure_that_passes_is_waited_out() {
    let server = server(&[("keys", KEYS)]).await;
    for kind in [FaultKind::Throttled, FaultKind::Error500] {
        server.control().inject(servers::Fault::once("GetSecretValue", kind));
    }
    let mut start = start(&server, &[("HOLDFAST_TOKEN_KEYS_SECRET", "keys")]).await;
    assert!(start.reader.token_keys().is_some());
    assert_eq!(server.control().count("GetSecretValue"), 3);
}
