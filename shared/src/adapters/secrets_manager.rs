//! Secrets that the configuration names by reference.

use aws_config::SdkConfig;
use aws_sdk_secretsmanager::{Client, error::DisplayErrorContext};
use secrecy::SecretString;

use crate::ports::Fault;

const OPERATION: &str = "GetSecretValue";

pub struct SecretsManager {
    client: Client,
}

impl SecretsManager {
    #[must_use]
    pub fn new(config: &SdkConfig) -> Self {
        Self { client: Client::new(config) }
    }

    /// The secret's text as it is now, by its name or ARN.
    ///
    /// # Errors
    /// It is not there, may not be read, holds bytes and no text, or the service did not answer in time.
    pub async fn text(&self, id: &str) -> Result<SecretString, Fault> {
        let fetched = self.client.get_secret_value().secret_id(id).send().await;
        // In words of the service: a missing secret, a missing permission and a missing way there look alike else.
        let secret = fetched.map_err(|error| Fault::not_applied(OPERATION, DisplayErrorContext(error).to_string()))?;
        let text = secret.secret_string.ok_or_else(|| Fault::not_applied(OPERATION, "the secret holds no text"))?;
        Ok(SecretString::from(text))
    }
}
