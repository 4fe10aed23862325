//! What the clients of AWS share: one HTTP client, a deadline and a bound on every call, and the
//! knowledge whether a call that failed may have had its effect.

use std::{
    error::Error,
    fmt, io,
    ops::Deref,
    sync::{
        Arc, LazyLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use aws_config::{
    BehaviorVersion, ConfigLoader, SdkConfig,
    environment::{EnvironmentVariableCredentialsProvider, EnvironmentVariableRegionProvider},
    retry::RetryConfig,
    timeout::TimeoutConfig,
};
use aws_sdk_dynamodb::{
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef},
    },
    error::BoxError,
};
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore, rustls_provider::CryptoMode};

use crate::ports::{Effect, Fault};

/// Time to open a connection.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for one attempt of a call.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// Time for a call with the SDK's own retries.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(3);
/// Attempts of the SDK for one call: after time-outs, dropped connections, throttling and 5xx.
pub const ATTEMPTS_MAX: u32 = 3;
/// Longest first pause between them; it doubles.
pub const BACKOFF: Duration = Duration::from_millis(50);
/// Longest pause between them.
pub const BACKOFF_MAX: Duration = Duration::from_millis(400);

/// The roots of Amazon Trust Services, which sign what the services of AWS answer with:
/// <https://www.amazontrust.com/repository/>. A system has some 140 roots, and reading them is nine tenths of what
/// a function does before its first event.
const AMAZON_ROOTS: &str = include_str!("amazon_roots.pem");

/// Whose certificates are good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    #[default]
    Amazon,
    /// Whomever the system trusts: where AWS, or what stands in front of it, has other roots.
    System,
}

/// The configuration from the environment: region, credentials, `AWS_ENDPOINT_URL`. One per process:
/// the clients made of it share their connections.
///
/// Lambda always gives region and credentials there. The SDK's chain of other places to look makes clients for each
/// of them first, which is a third of a function's start.
pub async fn sdk_config(trust: Trust) -> SdkConfig {
    let loader = trusting(trust).region(EnvironmentVariableRegionProvider::new());
    loader.credentials_provider(EnvironmentVariableCredentialsProvider::new()).load().await
}

/// How every client of AWS is set up, before region, credentials and endpoint are known.
#[must_use]
pub fn loader() -> ConfigLoader {
    trusting(Trust::default())
}

fn trusting(trust: Trust) -> ConfigLoader {
    let roots = match trust {
        Trust::Amazon => TrustStore::empty().with_pem_certificate(AMAZON_ROOTS),
        Trust::System => TrustStore::empty().with_native_roots(true),
    };
    // A process that could not trust whom it should must not start: the default is the system's roots.
    let Ok(tls) = TlsContext::builder().with_trust_store(roots).build() else { unreachable!("it holds no more") };
    let client =
        aws_smithy_http_client::Builder::new().tls_provider(Provider::Rustls(CryptoMode::Ring)).tls_context(tls);
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(CONNECT_TIMEOUT)
        .operation_attempt_timeout(ATTEMPT_TIMEOUT)
        .operation_timeout(OPERATION_TIMEOUT);
    let retries = RetryConfig::standard()
        .with_max_attempts(ATTEMPTS_MAX)
        .with_initial_backoff(BACKOFF)
        .with_max_backoff(BACKOFF_MAX);
    aws_config::defaults(BehaviorVersion::latest())
        .http_client(client.build_https())
        .timeout_config(timeouts.build())
        .retry_config(retries)
}

/// A client that is made when it is first used, or beforehand by [`LazyClient::prepare`]; a client that is there already
/// becomes one, too. Making one is half of a function's start: each reads the SDK's list of partitions anew.
/// Clones share it.
pub struct LazyClient<C>(Arc<LazyLock<C, Box<dyn FnOnce() -> C + Send>>>);

impl<C: Send + Sync + 'static> LazyClient<C> {
    #[must_use]
    pub fn new(make: impl FnOnce() -> C + Send + 'static) -> Self {
        Self(Arc::new(LazyLock::new(Box::new(make))))
    }

    /// Makes it beside what the caller does next; whoever needs it before it is ready waits for it.
    #[must_use]
    pub fn prepare(self) -> Self {
        let client = self.clone();
        tokio::spawn(async move { _ = LazyLock::force(&client.0) });
        self
    }
}

impl<C: Send + Sync + 'static> From<C> for LazyClient<C> {
    fn from(client: C) -> Self {
        Self::new(|| client)
    }
}

impl<C> Deref for LazyClient<C> {
    type Target = C;

    fn deref(&self) -> &C {
        &self.0
    }
}

impl<C> Clone for LazyClient<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C> fmt::Debug for LazyClient<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LazyClient")
    }
}

/// Watches every attempt of a call, those of the SDK's own retries included: only the last one shows
/// in the result, but any of them may have been applied.
///
/// An attempt is certain when it was answered with success or with a refusal (4xx), or was never
/// sent. Everything else is in doubt: a time-out, a dropped connection, 5xx.
#[derive(Clone, Debug, Default)]
pub(super) struct Witness(Arc<Attempts>);

#[derive(Debug, Default)]
struct Attempts {
    sent: AtomicBool,
    in_doubt: AtomicBool,
}

impl Witness {
    /// Whether the call may have been applied although it failed.
    pub fn effect(&self) -> Effect {
        let lost = self.0.sent.load(Ordering::Relaxed) || self.0.in_doubt.load(Ordering::Relaxed);
        if lost { Effect::Unknown } else { Effect::None }
    }

    pub fn fault(&self, operation: &'static str, source: impl Into<BoxError>) -> Fault {
        Fault { operation, effect: self.effect(), source: source.into() }
    }
}

impl Intercept for Witness {
    fn name(&self) -> &'static str {
        "Witness"
    }

    fn read_before_transmit(
        &self,
        _: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        self.0.sent.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let certain = match context.output_or_error() {
            Some(Ok(_)) => true,
            Some(Err(error)) => {
                let refused = context.response().is_some_and(|response| response.status().is_client_error());
                refused || error.as_connector_error().is_some_and(|cause| never_connected(cause))
            }
            None => false,
        };
        if self.0.sent.swap(false, Ordering::Relaxed) && !certain {
            self.0.in_doubt.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Whether the chain of causes proves that there was no connection to send anything on.
fn never_connected(error: &(dyn Error + 'static)) -> bool {
    use io::ErrorKind as E;
    std::iter::successors(Some(error), |error| (*error).source()).any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|cause| {
            matches!(
                cause.kind(),
                E::ConnectionRefused | E::HostUnreachable | E::NetworkUnreachable | E::AddrNotAvailable
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_client_can_be_made_of_either_trust() {
        assert_eq!(AMAZON_ROOTS.matches("BEGIN CERTIFICATE").count(), 5);
        for trust in [Trust::Amazon, Trust::System] {
            let config = trusting(trust).region(aws_config::Region::from_static("eu-west-1")).load().await;
            // Reads the roots, or panics.
            let _ = aws_sdk_dynamodb::Client::new(&config);
        }
    }

    #[derive(Debug, thiserror::Error)]
    #[error("outer")]
    struct Outer(#[source] io::Error);

    #[test]
    fn only_a_connection_that_never_was_proves_that_nothing_was_sent() {
        let proves = |kind: io::ErrorKind| never_connected(&Outer(kind.into()));
        assert!(proves(io::ErrorKind::ConnectionRefused));
        assert!(proves(io::ErrorKind::HostUnreachable));
        for kind in [
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::TimedOut,
            io::ErrorKind::UnexpectedEof,
        ] {
            assert!(!proves(kind), "{kind}");
        }
    }
}
