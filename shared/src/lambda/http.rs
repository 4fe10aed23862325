//! Reading an HTTP API request: route, identity, path, body. Identity comes from the authorizer's
//! claims only, never from a body or a header.

use lambda_http::{
    Body, Request, RequestExt as _, Response,
    http::{HeaderValue, StatusCode, header},
    request::RequestContext,
};
use serde::{Serialize, de::DeserializeOwned};

use super::problem::Problem;
use crate::domain::{
    ids::{ActivityId, BuyerId},
    json::Object,
    order_no::OrderNo,
};
use crate::telemetry::Trace;

/// Largest body that is read, in bytes. The largest valid one, an activity of 100 SKUs, has a third.
pub const BODY_MAX_BYTES: usize = 65_536;

/// What a person may do, from the `groups` or `cognito:groups` claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// May act.
    Operator,
    /// May read.
    Auditor,
}

/// A function that answers HTTP requests, whatever happens.
pub trait HttpHandler: Send + Sync + 'static {
    fn handle(&self, request: Request) -> impl Future<Output = Response<Body>> + Send;
}

/// The route as the HTTP API matched it, `POST /v1/activities/{activity}/orders`; empty elsewhere.
#[must_use]
pub fn route(request: &Request) -> String {
    match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => context.route_key.clone().unwrap_or_default(),
        _ => String::new(),
    }
}

#[must_use]
pub fn request_id(request: &Request) -> String {
    match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => context.request_id.clone().unwrap_or_default(),
        _ => String::new(),
    }
}

/// The trace that the request belongs to: Lambda's own; what a caller sent counts only where there is none, in the
/// local runner.
#[must_use]
pub fn trace(request: &Request) -> Option<Trace> {
    let own = request.lambda_context_ref().and_then(|context| context.xray_trace_id.clone());
    let header = || Some(request.headers().get("x-amzn-trace-id")?.to_str().ok()?.to_owned());
    own.or_else(header).as_deref().and_then(Trace::parse)
}

fn claim(request: &Request, name: &str) -> Option<String> {
    match request.request_context_ref() {
        Some(RequestContext::ApiGatewayV2(context)) => {
            context.authorizer.as_ref()?.jwt.as_ref()?.claims.get(name).cloned()
        }
        _ => None,
    }
}

/// The caller, from the `sub` claim.
///
/// # Errors
/// 400 when there is none, or none that can be a buyer.
pub fn caller(request: &Request) -> Result<BuyerId, Problem> {
    Ok(BuyerId::parse(&claim(request, "sub").unwrap_or_default())?)
}

/// The caller, if it has the role.
///
/// # Errors
/// 403 otherwise.
pub fn caller_in_role(request: &Request, role: Role) -> Result<BuyerId, Problem> {
    let groups = ["groups", "cognito:groups"].iter().filter_map(|name| claim(request, name)).collect::<Vec<_>>();
    let needed = match role {
        Role::Operator => &["operator"][..],
        Role::Auditor => &["operator", "auditor"][..],
    };
    if groups.iter().any(|groups| words(groups).iter().any(|word| needed.contains(&word.as_str()))) {
        caller(request)
    } else {
        Err(Problem::new(403, "forbidden", "This needs another role."))
    }
}

/// The members of an array claim. An HTTP API hands one over as text, `[operator finance]`; others hand
/// over JSON. Whole words only: `cooperator` is not `operator`.
fn words(claim: &str) -> Vec<String> {
    if let Ok(list) = serde_json::from_str::<Vec<String>>(claim) {
        return list;
    }
    let inner = claim.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(claim);
    inner.split([' ', ',']).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

fn path(request: &Request, name: &str) -> String {
    request.path_parameters_ref().and_then(|path| path.first(name)).unwrap_or_default().to_owned()
}

pub fn activity(request: &Request) -> Result<ActivityId, Problem> {
    Ok(ActivityId::parse(&path(request, "activity"))?)
}

pub fn order_no(request: &Request) -> Result<OrderNo, Problem> {
    Ok(OrderNo::parse(&path(request, "order_no"))?)
}

/// # Errors
/// 413 when the body is larger than is read.
pub fn check_size(request: &Request) -> Result<(), Problem> {
    if request.body().as_ref().len() > BODY_MAX_BYTES {
        return Err(Problem::new(413, "too_large", format!("The body may have {BODY_MAX_BYTES} bytes.")));
    }
    Ok(())
}

/// The JSON body.
///
/// # Errors
/// 413 above the largest size, 415 when it does not say that it is JSON, 400 when it is not what is
/// expected, with where and why.
pub fn json<T: DeserializeOwned>(request: &Request) -> Result<T, Problem> {
    check_size(request)?;
    let body: &[u8] = request.body().as_ref();
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        return Err(Problem::new(415, "unsupported_media_type", "The body must be application/json."));
    }
    let Object(value) = serde_json::from_slice(body).map_err(|error| Problem::invalid(format!("body: {error}")))?;
    Ok(value)
}

/// An answer with a JSON body that must not be stored.
#[must_use]
pub fn ok<T: Serialize>(status: u16, body: &T) -> Response<Body> {
    // The views are plain structs with text keys: this cannot fail.
    let mut response = Response::new(Body::Text(serde_json::to_string(body).unwrap_or_default()));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Adds a header whose value is made of ids and numbers.
#[must_use]
pub fn with_header(mut response: Response<Body>, name: header::HeaderName, value: &str) -> Response<Body> {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
    response
}

/// Not a route of this function. The HTTP API answers unknown methods itself, so only a mistake in the
/// template, or another front, leads here.
#[must_use]
pub fn method_not_allowed(request: &Request, allowed: &str) -> Response<Body> {
    let problem = Problem::new(405, "method_not_allowed", format!("Allowed here: {allowed}."));
    with_header(problem.response(&request_id(request)), header::ALLOW, allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_claims_are_read_in_both_forms_and_by_whole_words() {
        for yes in ["operator", "[operator]", "[operator finance]", "[finance operator]", r#"["operator","x"]"#] {
            assert!(words(yes).contains(&"operator".to_owned()), "{yes}");
        }
        for no in ["cooperator", "[cooperator]", "operators", "[]", "", "Operator", r#"["not operator"]"#] {
            assert!(!words(no).contains(&"operator".to_owned()), "{no}");
        }
    }
}
