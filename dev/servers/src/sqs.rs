//! A local SQS: winterbaume in memory, behind the front layer.

use std::io;

use winterbaume_sqs::SqsService;

use crate::faults::Control;
use crate::front::Front;
use crate::traces::Traced;
use crate::winterbaume::Winterbaume;

/// An SQS on a free port of 127.0.0.1, empty at the start, gone on drop.
///
/// Only standard queues behave as on AWS: the locks of FIFO groups, `VisibilityTimeout=0` on a
/// receive, and `StartMessageMoveTask` do not. A client that goes away does not undo its call,
/// except that it ends its long poll.
pub struct Sqs {
    front: Front,
}

impl Sqs {
    /// Starts the server; it takes calls when this returns.
    ///
    /// # Errors
    /// When threads or a port are not to be had.
    #[expect(clippy::unused_async, reason = "the same form as the other servers")]
    pub async fn start() -> io::Result<Self> {
        let winterbaume = || {
            Ok(Winterbaume {
                service: Traced::new(SqsService::new()),
                name: "sqs",
                throttled: "RequestThrottled",
                // A long poll without a client would take messages away from those that have one.
                waits: Some("ReceiveMessage"),
            })
        };
        let front = Front::start("sqs", winterbaume)?;
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
