//! HTTP API events (payload format 2.0) for calling a handler as API Gateway does.

use lambda_http::{Body, Request, Response};
use serde_json::{Value, json};

/// A request of a person, or of nobody.
#[derive(Clone, Debug)]
pub struct Call {
    pub route: &'static str,
    pub path: Vec<(&'static str, String)>,
    pub claims: Value,
    pub headers: Vec<(&'static str, String)>,
    pub body: Option<String>,
}

impl Call {
    /// `route` as the template has it: `POST /v1/activities/{activity}/orders`.
    #[must_use]
    pub const fn new(route: &'static str) -> Self {
        Self { route, path: Vec::new(), claims: Value::Null, headers: Vec::new(), body: None }
    }

    #[must_use]
    pub fn path(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.path.push((name, value.into()));
        self
    }

    #[must_use]
    pub fn buyer(mut self, sub: &str) -> Self {
        self.claims = json!({"sub": sub});
        self
    }

    #[must_use]
    pub fn operator(mut self, sub: &str) -> Self {
        self.claims = json!({"sub": sub, "groups": "[operator]"});
        self
    }

    #[must_use]
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    #[must_use]
    pub fn json(self, body: &Value) -> Self {
        self.text(body.to_string())
    }

    /// A body that says it is JSON.
    #[must_use]
    pub fn text(mut self, body: impl Into<String>) -> Self {
        self.body = Some(body.into());
        self.header("content-type", "application/json")
    }

    /// The request as the runtime hands it to the handler.
    ///
    /// # Errors
    /// When the event is not one that the runtime reads.
    pub fn request(&self) -> Result<Request, serde_json::Error> {
        let (method, template) = self.route.split_once(' ').unwrap_or_default();
        let mut path = template.to_owned();
        for (name, value) in &self.path {
            path = path.replace(&format!("{{{name}}}"), value);
        }
        let path_parameters: Value = self.path.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let headers: Value = self.headers.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        let mut event = json!({
            "version": "2.0", "routeKey": self.route, "rawPath": path, "rawQueryString": "", "headers": headers,
            "pathParameters": path_parameters, "isBase64Encoded": false,
            "requestContext": {
                "accountId": "123456789012", "apiId": "local", "domainName": "127.0.0.1", "domainPrefix": "127",
                "http": {
                    "method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "127.0.0.1", "userAgent": "test"
                },
                "requestId": "test-request", "routeKey": self.route, "stage": "$default",
                "time": "29/Nov/2026:20:00:00 +0000", "timeEpoch": 1_796_000_000_000_u64
            }
        });
        if !self.claims.is_null() {
            event["requestContext"]["authorizer"] = json!({"jwt": {"claims": self.claims, "scopes": null}});
        }
        if let Some(body) = &self.body {
            event["body"] = json!(body);
        }
        lambda_http::request::from_str(&event.to_string())
    }
}

/// Status and body of an answer; a body that is not JSON comes as text.
#[must_use]
pub fn read(response: &Response<Body>) -> (u16, Value) {
    let text = match response.body() {
        Body::Text(text) => text.clone(),
        Body::Binary(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    };
    (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
}
