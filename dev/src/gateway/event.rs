//! A request as the event that an HTTP API sends to a function: payload format 2.0.

use std::collections::BTreeMap;
use std::net::IpAddr;

use data_encoding::{BASE64, HEXLOWER};
use hyper::body::Bytes;
use hyper::header::{COOKIE, HOST, HeaderMap};
use hyper::http::request::Parts;
use serde::Serialize;

use super::jwt::Identity;
use super::routes::{Matched, percent_decode};

/// Largest event that a function can be called with, in bytes.
pub const EVENT_MAX_BYTES: usize = 6_291_556;

/// What the gateway knows of a call beside the request itself.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    pub source_ip: IpAddr,
    pub port: u16,
    pub request_id: &'a str,
    pub at: jiff::Timestamp,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    version: &'static str,
    route_key: &'a str,
    raw_path: &'a str,
    raw_query_string: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cookies: Vec<String>,
    headers: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    query_string_parameters: BTreeMap<String, String>,
    request_context: Context<'a>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    path_parameters: &'a BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    is_base64_encoded: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Context<'a> {
    account_id: &'static str,
    api_id: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    authorizer: Option<AuthorizerContext<'a>>,
    domain_name: &'a str,
    domain_prefix: &'a str,
    http: Http<'a>,
    request_id: &'a str,
    route_key: &'a str,
    stage: &'static str,
    time: String,
    time_epoch: i64,
}

#[derive(Serialize)]
struct AuthorizerContext<'a> {
    jwt: Jwt<'a>,
}

#[derive(Serialize)]
struct Jwt<'a> {
    claims: &'a BTreeMap<String, String>,
    /// `null` unless the route asks for a scope.
    scopes: Option<&'a [String]>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Http<'a> {
    method: &'a str,
    path: &'a str,
    protocol: &'static str,
    source_ip: String,
    user_agent: &'a str,
}

/// The event as JSON text.
///
/// # Errors
/// Never for what hyper lets through; the error is the serializer's.
pub fn render(
    parts: &Parts,
    body: &Bytes,
    matched: &Matched,
    identity: Option<&Identity>,
    arrival: Arrival<'_>,
) -> Result<String, serde_json::Error> {
    let header = |name| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let host = header(HOST.as_str());
    // An HTTP API hands the path over decoded, and what follows a decoded `?` is lost.
    let path = percent_decode(parts.uri.path());
    let path = path.split('?').next().unwrap_or("/");
    let query = parts.uri.query().unwrap_or("");
    let key = matched.route.key();
    let (body, is_base64_encoded) = encode_body(&parts.headers, body);
    let scoped = matched.route.access == super::routes::Access::Operator;
    serde_json::to_string(&Event {
        version: "2.0",
        route_key: &key,
        raw_path: path,
        raw_query_string: query,
        cookies: cookies(&parts.headers),
        headers: headers(&parts.headers, arrival),
        query_string_parameters: query_parameters(query),
        request_context: Context {
            account_id: "000000000000",
            api_id: "local",
            authorizer: identity.map(|identity| AuthorizerContext {
                jwt: Jwt { claims: &identity.claims, scopes: scoped.then_some(&identity.scopes) },
            }),
            domain_name: host,
            domain_prefix: host.split('.').next().unwrap_or(""),
            http: Http {
                method: parts.method.as_str(),
                path,
                protocol: "HTTP/1.1",
                source_ip: arrival.source_ip.to_string(),
                user_agent: header("user-agent"),
            },
            request_id: arrival.request_id,
            route_key: &key,
            stage: "$default",
            time: arrival.at.strftime("%d/%b/%Y:%H:%M:%S +0000").to_string(),
            time_epoch: arrival.at.as_millisecond(),
        },
        path_parameters: &matched.parameters,
        body,
        is_base64_encoded,
    })
}

/// Lower-case names; several values of one name joined by commas; cookies apart; and what the
/// gateway adds. A value that is not text is dropped.
fn headers(given: &HeaderMap, arrival: Arrival<'_>) -> BTreeMap<String, String> {
    let mut headers: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in given.iter().filter(|(name, _)| **name != COOKIE) {
        let Ok(value) = value.to_str() else { continue };
        headers
            .entry(name.as_str().to_owned())
            .and_modify(|joined| {
                joined.push(',');
                joined.push_str(value);
            })
            .or_insert_with(|| value.to_owned());
    }
    let mut trace = [0_u8; 12];
    trace.fill_with(|| fastrand::u8(..));
    let trace = format!("Root=1-{:08x}-{}", arrival.at.as_second(), HEXLOWER.encode(&trace));
    headers.insert("x-amzn-trace-id".to_owned(), trace);
    headers.insert("x-forwarded-for".to_owned(), arrival.source_ip.to_string());
    headers.insert("x-forwarded-port".to_owned(), arrival.port.to_string());
    headers.insert("x-forwarded-proto".to_owned(), "http".to_owned());
    headers
}

fn cookies(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(';')).map(|cookie| cookie.trim().to_owned()).filter(|c| !c.is_empty()).collect()
}

/// Decoded; several values of one name joined by commas.
fn query_parameters(query: &str) -> BTreeMap<String, String> {
    let decode = |text: &str| percent_decode(&text.replace('+', " "));
    let mut parameters: BTreeMap<String, String> = BTreeMap::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        parameters
            .entry(decode(name))
            .and_modify(|joined| {
                joined.push(',');
                joined.push_str(&decode(value));
            })
            .or_insert_with(|| decode(value));
    }
    parameters
}

/// Text as it is, anything else in base 64. What claims to be text and is not UTF-8 is base 64 too.
fn encode_body(headers: &HeaderMap, body: &Bytes) -> (Option<String>, bool) {
    if body.is_empty() {
        return (None, false);
    }
    let kind = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or("text/plain");
    let kind = kind.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    let packed = headers.contains_key("content-encoding");
    let is_text = !packed
        && (kind.starts_with("text/")
            || ["application/json", "application/javascript", "application/xml"].contains(&kind.as_str())
            || kind.ends_with("+json")
            || kind.ends_with("+xml"));
    match std::str::from_utf8(body) {
        Ok(text) if is_text => (Some(text.to_owned()), false),
        _ => (Some(BASE64.encode(body)), true),
    }
}
