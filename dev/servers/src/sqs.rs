//! A local SQS: winterbaume in memory, behind the front layer.

use std::io;

use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::json;
use winterbaume_core::auth::extract_region_from_headers;
use winterbaume_core::{MockRequest, MockService};
use winterbaume_sqs::SqsService;

use crate::faults::{Control, FaultKind};
use crate::front::{Backend, Call, Front, Refusal, Reply, json_reply};

/// The region of a request that is not signed.
const DEFAULT_REGION: &str = "us-east-1";

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
        let front = Front::start("sqs", || Ok(Winterbaume(SqsService::new())))?;
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

struct Winterbaume(SqsService);

impl Backend for Winterbaume {
    type Admission = ();

    fn admit(&self, _call: &Call) -> Result<(), Refusal> {
        Ok(())
    }

    fn may_conflict(&self, _operation: &str) -> bool {
        false
    }

    fn refuse(&self, kind: FaultKind, _call: &Call) -> Reply {
        // The header is what clients of the JSON protocol take the error's code from.
        let (status, code, blame, message) = match kind {
            FaultKind::Throttled => (
                StatusCode::BAD_REQUEST,
                "RequestThrottled",
                "RequestThrottled;Sender",
                "The request was denied due to request throttling.",
            ),
            _ => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalFailure",
                "InternalFailure;Receiver",
                "The request processing has failed because of an unknown error, exception or \
                 failure.",
            ),
        };
        let body = json!({ "__type": format!("com.amazonaws.sqs#{code}"), "message": message });
        let mut reply = json_reply(status, &body);
        reply.headers_mut().insert("x-amzn-query-error", HeaderValue::from_static(blame));
        reply
    }

    fn ends_with_client(&self, operation: &str) -> bool {
        // A long poll without a client would take messages away from those that have one.
        operation == "ReceiveMessage"
    }

    async fn apply(&self, call: Call) -> io::Result<Reply> {
        let region = extract_region_from_headers(&call.parts.headers);
        let region = region.as_deref().unwrap_or(DEFAULT_REGION);
        let request = MockRequest {
            method: call.parts.method.to_string(),
            // Winterbaume finds the region in the host name.
            uri: format!("https://sqs.{region}.amazonaws.com{}", call.parts.uri.path()),
            headers: call.parts.headers,
            body: call.body,
        };
        let answer = self.0.handle(request).await;
        let mut reply = Response::new(Full::new(answer.body));
        *reply.status_mut() = StatusCode::from_u16(answer.status).map_err(io::Error::other)?;
        *reply.headers_mut() = answer.headers;
        Ok(reply)
    }
}
