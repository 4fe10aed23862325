//! Refusals and errors as RFC 9457 problem documents. Details of the inside never leave.

use lambda_http::{
    Body, Response,
    http::{HeaderValue, StatusCode, header},
};
use serde::Serialize;

use crate::{
    domain::{Invalid, order::Status, order_no::OrderNo},
    ports::Fault,
};

/// Seconds after which a buyer may try again when a bucket has admitted its orders for this second.
pub const RETRY_LIMITED_S: u32 = 1;
/// Seconds after which a buyer may try again when something is frozen or does not answer.
pub const RETRY_UNAVAILABLE_S: u32 = 2;
/// Longest detail, in characters: it may quote what the caller sent.
const DETAIL_MAX_CHARS: usize = 300;

/// One refusal: a status, a stable `code` and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub status: u16,
    pub code: &'static str,
    pub detail: String,
    pub retry_after_s: Option<u32>,
    /// The buyer's orders in the scope, for `limit_reached` only.
    pub orders: Option<Vec<OrderNo>>,
}

#[derive(Serialize)]
struct Document<'a> {
    r#type: String,
    title: &'a str,
    status: u16,
    code: &'a str,
    detail: &'a str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    orders: Option<&'a [OrderNo]>,
}

impl Problem {
    #[must_use]
    pub fn new(status: u16, code: &'static str, detail: impl Into<String>) -> Self {
        let mut detail: String = detail.into();
        if let Some((end, _)) = detail.char_indices().nth(DETAIL_MAX_CHARS) {
            detail.truncate(end);
        }
        Self { status, code, detail, retry_after_s: None, orders: None }
    }

    #[must_use]
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(400, "invalid_request", detail)
    }

    /// Infrastructure failed. The same request may be sent again.
    #[must_use]
    pub fn unavailable() -> Self {
        Self::new(503, "unavailable", "Something this needs does not answer. Try again.")
            .retry_after(RETRY_UNAVAILABLE_S)
    }

    /// Broken infrastructure, told as [`Problem::unavailable`]; its causes are logged here and nowhere else.
    #[must_use]
    #[allow(clippy::needless_pass_by_value)] // shaped for `map_err`
    pub fn fault(fault: Fault) -> Self {
        tracing::error!(fault = fault.chain(), "fault");
        Self::unavailable()
    }

    #[must_use]
    pub fn unknown_activity() -> Self {
        Self::new(404, "unknown_activity", "There is no such activity.")
    }

    #[must_use]
    pub fn not_preheated() -> Self {
        Self::new(409, "not_preheated", "Nothing is on sale, or not any more.")
    }

    #[must_use]
    pub fn unknown_order() -> Self {
        Self::new(404, "unknown_order", "There is no such order.")
    }

    #[must_use]
    pub fn already_paid() -> Self {
        Self::new(409, "already_paid", "The order is paid. It can be refunded.")
    }

    /// The order ended another way, or cannot be changed any more.
    #[must_use]
    pub fn not_possible(status: Status) -> Self {
        Self::new(409, "not_possible", format!("The order is {}.", status.as_str()))
    }

    #[must_use]
    pub fn partial_refund() -> Self {
        Self::new(422, "partial_refund", "An order is refunded as a whole: the amount is not the order's.")
    }

    #[must_use]
    pub fn ended() -> Self {
        Self::new(410, "ended", "The sale is over.")
    }

    #[must_use]
    pub fn retry_after(self, seconds: u32) -> Self {
        Self { retry_after_s: Some(seconds), ..self }
    }

    #[must_use]
    pub fn with_orders(self, orders: Vec<OrderNo>) -> Self {
        Self { orders: Some(orders), ..self }
    }

    /// The answer, for the request with this id.
    #[must_use]
    pub fn response(&self, request_id: &str) -> Response<Body> {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let document = Document {
            r#type: format!("urn:holdfast:problem:{}", self.code),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            code: self.code,
            detail: &self.detail,
            request_id,
            orders: self.orders.as_deref(),
        };
        // Strings and numbers only: this cannot fail.
        let mut response = Response::new(Body::Text(serde_json::to_string(&document).unwrap_or_default()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl From<Invalid> for Problem {
    fn from(invalid: Invalid) -> Self {
        Self::invalid(invalid.to_string())
    }
}
