//! A local Secrets Manager: winterbaume in memory, behind the front layer.

use std::io;

use winterbaume_secretsmanager::SecretsManagerService;

use crate::faults::Control;
use crate::front::Front;
use crate::winterbaume::Winterbaume;

/// A Secrets Manager on a free port of 127.0.0.1, empty at the start, gone on drop.
pub struct SecretsManager {
    front: Front,
}

impl SecretsManager {
    /// Starts the server; it takes calls when this returns.
    ///
    /// # Errors
    /// When threads or a port are not to be had.
    #[expect(clippy::unused_async, reason = "the same form as the other servers")]
    pub async fn start() -> io::Result<Self> {
        let winterbaume = || {
            Ok(Winterbaume {
                service: SecretsManagerService::new(),
                name: "secretsmanager",
                throttled: "ThrottlingException",
                waits: None,
            })
        };
        let front = Front::start("secrets", winterbaume)?;
        Ok(Self { front })
    }

    /// `http://127.0.0.1:port`, for the SDK's `endpoint_url`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        self.front.endpoint()
    }

    /// Counts and faults of this server.
    #[must_use]
    pub fn control(&self) -> &Control {
        self.front.control()
    }

    /// Takes no more calls, lets those in flight finish for two seconds, then ends.
    pub async fn stop(self) {
        self.front.stop().await;
    }
}
