//! winterbaume's services in memory, behind the front layer.

use std::io;

use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use serde_json::json;
use winterbaume_core::auth::extract_region_from_headers;
use winterbaume_core::{MockRequest, MockService};

use crate::faults::FaultKind;
use crate::front::{Backend, Call, Refusal, Reply, json_reply};

/// The region of a request that is not signed.
const DEFAULT_REGION: &str = "us-east-1";

/// One of winterbaume's services, and what is particular to it.
pub(crate) struct Winterbaume<S> {
    pub service: S,
    /// The first part of its host name.
    pub name: &'static str,
    /// What it calls a call that comes too soon.
    pub throttled: &'static str,
    /// The operation that ends with the client who waits for it.
    pub waits: Option<&'static str>,
}

impl<S: MockService + 'static> Backend for Winterbaume<S> {
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
            FaultKind::Throttled => {
                (StatusCode::BAD_REQUEST, self.throttled, "Sender", "The request was denied due to request throttling.")
            }
            _ => (
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalFailure",
                "Receiver",
                "The request processing has failed because of an unknown error, exception or \
                 failure.",
            ),
        };
        let body = json!({ "__type": format!("com.amazonaws.{}#{code}", self.name), "message": message });
        let mut reply = json_reply(status, &body);
        if let Ok(value) = HeaderValue::from_str(&format!("{code};{blame}")) {
            reply.headers_mut().insert("x-amzn-query-error", value);
        }
        reply
    }

    fn ends_with_client(&self, operation: &str) -> bool {
        self.waits == Some(operation)
    }

    async fn apply(&self, call: Call) -> io::Result<Reply> {
        let region = extract_region_from_headers(&call.parts.headers);
        let region = region.as_deref().unwrap_or(DEFAULT_REGION);
        let request = MockRequest {
            method: call.parts.method.to_string(),
            // Winterbaume finds the region in the host name.
            uri: format!("https://{}.{region}.amazonaws.com{}", self.name, call.parts.uri.path()),
            headers: call.parts.headers,
            body: call.body,
        };
        let answer = self.service.handle(request).await;
        let mut reply = Response::new(Full::new(answer.body));
        *reply.status_mut() = StatusCode::from_u16(answer.status).map_err(io::Error::other)?;
        *reply.headers_mut() = answer.headers;
        Ok(reply)
    }
}
