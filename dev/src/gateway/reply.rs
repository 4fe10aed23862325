//! Answers: the gateway's own, and a function's on its way to the client.

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use lambda_http::Body;
use serde_json::{Value, json};

use super::event::EVENT_MAX_BYTES;

/// An answer with its whole body.
pub type Reply = Response<Full<Bytes>>;
/// An answer that ends the handling of a request; boxed, because an answer is large.
pub type Refusal = Box<Reply>;

/// The gateway's own answers have a `message` and nothing else; no function can change them.
#[must_use]
pub fn message(status: StatusCode, text: &str) -> Reply {
    json_reply(status, &json!({ "message": text }))
}

#[must_use]
pub fn json_reply(status: StatusCode, body: &Value) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body.to_string())));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    reply
}

/// A refusal by the gateway itself.
#[must_use]
pub fn refuse(status: StatusCode, text: &str) -> Refusal {
    Box::new(message(status, text))
}

/// A refusal by the authorizer.
#[must_use]
pub fn challenge(status: StatusCode, text: &str, challenge: &'static str) -> Refusal {
    let mut reply = message(status, text);
    reply.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    Box::new(reply)
}

/// A function's answer. One that is larger than a function may answer is a failure, as on AWS.
#[must_use]
pub fn from_function(response: lambda_http::Response<Body>) -> Reply {
    let (parts, body) = response.into_parts();
    let body = match body {
        Body::Text(text) => Bytes::from(text),
        Body::Binary(bytes) => Bytes::from(bytes),
        _ => Bytes::new(),
    };
    if body.len() > EVENT_MAX_BYTES {
        tracing::error!(bytes = body.len(), "a function's answer is too large");
        return message(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error");
    }
    Response::from_parts(parts, Full::new(body))
}
