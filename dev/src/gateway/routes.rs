//! The routes of the HTTP API, as `template.yaml` declares them, and how a path finds its route.

use std::collections::BTreeMap;

use hyper::Method;

/// The authorization scope that the operators' routes ask for.
pub const OPERATE_SCOPE: &str = "holdfast/operate";

/// Who may call a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Public,
    /// Any valid JWT.
    Buyer,
    /// A valid JWT with [`OPERATE_SCOPE`].
    Operator,
}

/// The function behind a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    IssueToken,
    PlaceOrder,
    Query,
    Console,
    CancelOrder,
    Payment,
}

/// One route of the API.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    pub method: &'static str,
    /// The path with `{name}` for each parameter.
    pub pattern: &'static str,
    pub access: Access,
    pub target: Target,
}

const fn route(method: &'static str, pattern: &'static str, access: Access, target: Target) -> Route {
    Route { method, pattern, access, target }
}

/// Every route. The gateway answers 404 to anything else, whatever the method.
pub const ROUTES: [Route; 18] = [
    route("GET", "/v1/activities/{activity}", Access::Public, Target::Query),
    route("POST", "/v1/activities/{activity}/tokens", Access::Buyer, Target::IssueToken),
    route("POST", "/v1/activities/{activity}/orders", Access::Buyer, Target::PlaceOrder),
    route("GET", "/v1/activities/{activity}/orders", Access::Buyer, Target::Query),
    route("GET", "/v1/activities/{activity}/orders/{order_no}", Access::Buyer, Target::Query),
    route("POST", "/v1/activities/{activity}/orders/{order_no}/cancel", Access::Buyer, Target::CancelOrder),
    route("POST", "/v1/payments/webhook", Access::Public, Target::Payment),
    route("PUT", "/v1/admin/activities/{activity}", Access::Operator, Target::Console),
    route("POST", "/v1/admin/activities/{activity}/preheat", Access::Operator, Target::Console),
    route("POST", "/v1/admin/activities/{activity}/freeze", Access::Operator, Target::Console),
    route("POST", "/v1/admin/activities/{activity}/unfreeze", Access::Operator, Target::Console),
    route("GET", "/v1/admin/activities/{activity}/reconciliation", Access::Operator, Target::Console),
    route("POST", "/v1/admin/activities/{activity}/reconcile", Access::Operator, Target::Console),
    route("POST", "/v1/admin/activities/{activity}/adjust", Access::Operator, Target::Console),
    route("POST", "/v1/admin/activities/{activity}/coupons", Access::Operator, Target::IssueToken),
    route("POST", "/v1/admin/activities/{activity}/end", Access::Operator, Target::Console),
    route("POST", "/v1/admin/activities/{activity}/orders/{order_no}/cancel", Access::Operator, Target::Console),
    route("POST", "/v1/admin/activities/{activity}/orders/{order_no}/refund", Access::Operator, Target::Console),
];

/// A route and the parameters that the path has for it, percent-decoded.
#[derive(Clone, Debug)]
pub struct Matched {
    pub route: Route,
    pub parameters: BTreeMap<&'static str, String>,
}

impl Route {
    /// `POST /v1/activities/{activity}/orders`, as the event's `routeKey` has it.
    #[must_use]
    pub fn key(&self) -> String {
        format!("{} {}", self.method, self.pattern)
    }
}

/// The route of a request. A parameter stands for exactly one segment that is not empty.
#[must_use]
pub fn find(method: &Method, path: &str) -> Option<Matched> {
    ROUTES.iter().filter(|route| route.method == method.as_str()).find_map(|route| {
        let parameters = match_pattern(route.pattern, path)?;
        Some(Matched { route: *route, parameters })
    })
}

fn match_pattern(pattern: &'static str, path: &str) -> Option<BTreeMap<&'static str, String>> {
    let (mut expected, mut given) = (pattern.split('/'), path.split('/'));
    let mut parameters = BTreeMap::new();
    loop {
        match (expected.next(), given.next()) {
            (None, None) => return Some(parameters),
            (Some(expected), Some(given)) => match expected.strip_prefix('{').and_then(|name| name.strip_suffix('}')) {
                Some(name) if !given.is_empty() => {
                    parameters.insert(name, percent_decode(given));
                }
                None if expected == given => {}
                _ => return None,
            },
            _ => return None,
        }
    }
}

/// Decodes `%XX`. What is not a valid escape stays as it is, and what is not UTF-8 afterwards is
/// replaced by U+FFFD: no id has such a character, so the function refuses it.
#[must_use]
pub fn percent_decode(text: &str) -> String {
    if !text.contains('%') {
        return text.to_owned();
    }
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let escaped = (byte == b'%').then(|| hex_pair(bytes.get(at + 1..at + 3)?)).flatten();
        decoded.push(escaped.unwrap_or(byte));
        at += if escaped.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn hex_pair(pair: &[u8]) -> Option<u8> {
    let [high, low] = pair else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(*high)? * 16 + digit(*low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &str, path: &str) -> Option<(String, Vec<String>)> {
        let matched = find(&method.parse().unwrap(), path)?;
        Some((matched.route.key(), matched.parameters.into_values().collect()))
    }

    #[test]
    fn a_path_finds_its_route_and_its_parameters() {
        let (key, parameters) = found("GET", "/v1/activities/a%20b/orders/%E2%82%AC").unwrap();
        assert_eq!(key, "GET /v1/activities/{activity}/orders/{order_no}");
        assert_eq!(parameters, ["a b", "€"]);
        // An encoded slash is part of the segment.
        assert_eq!(found("GET", "/v1/activities/a%2Fb").unwrap().1, ["a/b"]);
    }

    #[test]
    fn everything_else_has_no_route() {
        for (method, path) in [
            ("DELETE", "/v1/activities/a"),
            ("HEAD", "/v1/activities/a"),
            ("GET", "/v1/activities/a/"),
            ("GET", "/v1/activities//orders"),
            ("GET", "/v1/activities"),
            ("GET", "/V1/activities/a"),
            ("GET", "//v1/activities/a"),
            ("POST", "/v1/activities/a/orders/b/cancel/c"),
            ("GET", "/"),
            ("GET", "/dev/login"),
        ] {
            assert!(found(method, path).is_none(), "{method} {path}");
        }
    }

    #[test]
    fn broken_escapes_stay_as_they_are() {
        for (text, decoded) in
            [("%", "%"), ("%4", "%4"), ("%zz", "%zz"), ("%41%", "A%"), ("%ff", "\u{fffd}"), ("a", "a")]
        {
            assert_eq!(percent_decode(text), decoded);
        }
    }
}
