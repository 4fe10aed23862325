//! The event of a request, against a literal of what an HTTP API sends.

use std::net::{IpAddr, Ipv4Addr};

use dev::gateway::event::{Arrival, render};
use dev::gateway::jwt::Identity;
use dev::gateway::routes;
use hyper::Request;
use hyper::body::Bytes;
use hyper::http::request::Builder;
use lambda_http::RequestExt;
use lambda_http::request::RequestContext;
use serde_json::{Value, json};

fn event(request: Builder, body: &[u8], identity: Option<&Identity>) -> String {
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let matched = routes::find(&parts.method, parts.uri.path()).unwrap();
    let arrival = Arrival {
        source_ip: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port: 8080,
        request_id: "JKJaXmPLvHcESHA=",
        at: "2026-11-29T20:00:00.250Z".parse().unwrap(),
    };
    render(&parts, &Bytes::copy_from_slice(body), &matched, identity, arrival).unwrap()
}

fn parsed(request: Builder, body: &[u8]) -> Value {
    serde_json::from_str(&event(request, body, None)).unwrap()
}

fn identity() -> Identity {
    let claims = [("sub", "alice"), ("groups", "[operator finance]")];
    Identity {
        claims: claims.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        scopes: vec!["holdfast/operate".to_owned()],
    }
}

#[test]
fn an_event_has_every_field_of_payload_format_2() {
    let request = Request::post("/v1/admin/activities/sale%20one/freeze?a=1&b=x%20y&a=2&c")
        .header("Host", "127.0.0.1:8080")
        .header("Content-Type", "application/json")
        .header("User-Agent", "test/1")
        .header("X-Twice", "one")
        .header("X-Twice", "two")
        .header("Cookie", "a=1; b=2");
    let mut event: Value = serde_json::from_str(&event(request, b"{\"reason\":\"test\"}", Some(&identity()))).unwrap();
    let trace = event["headers"]["x-amzn-trace-id"].take();
    assert!(trace.as_str().unwrap().starts_with("Root=1-6b0c8440-"), "{trace}");
    assert_eq!(
        event,
        json!({
            "version": "2.0",
            "routeKey": "POST /v1/admin/activities/{activity}/freeze",
            "rawPath": "/v1/admin/activities/sale one/freeze",
            "rawQueryString": "a=1&b=x%20y&a=2&c",
            "cookies": ["a=1", "b=2"],
            "headers": {
                "content-type": "application/json",
                "host": "127.0.0.1:8080",
                "user-agent": "test/1",
                "x-amzn-trace-id": null,
                "x-forwarded-for": "127.0.0.1",
                "x-forwarded-port": "8080",
                "x-forwarded-proto": "http",
                "x-twice": "one,two",
            },
            "queryStringParameters": { "a": "1,2", "b": "x y", "c": "" },
            "requestContext": {
                "accountId": "000000000000",
                "apiId": "local",
                "authorizer": { "jwt": {
                    "claims": { "sub": "alice", "groups": "[operator finance]" },
                    "scopes": ["holdfast/operate"],
                } },
                "domainName": "127.0.0.1:8080",
                "domainPrefix": "127",
                "http": {
                    "method": "POST",
                    "path": "/v1/admin/activities/sale one/freeze",
                    "protocol": "HTTP/1.1",
                    "sourceIp": "127.0.0.1",
                    "userAgent": "test/1",
                },
                "requestId": "JKJaXmPLvHcESHA=",
                "routeKey": "POST /v1/admin/activities/{activity}/freeze",
                "stage": "$default",
                "time": "29/Nov/2026:20:00:00 +0000",
                "timeEpoch": 1_795_982_400_250_i64,
            },
            "pathParameters": { "activity": "sale one" },
            "body": "{\"reason\":\"test\"}",
            "isBase64Encoded": false,
        })
    );
}

#[test]
fn what_a_request_does_not_have_is_left_out() {
    let event = parsed(Request::get("/v1/activities/sale"), b"");
    for absent in ["cookies", "queryStringParameters", "body"] {
        assert_eq!(event.get(absent), None, "{absent}");
    }
    assert_eq!(event["requestContext"].get("authorizer"), None);
    assert_eq!(event["rawQueryString"], "");
    let buyer: Value =
        serde_json::from_str(&self::event(Request::post("/v1/activities/sale/tokens"), b"{}", Some(&identity())))
            .unwrap();
    assert_eq!(buyer["requestContext"]["authorizer"]["jwt"]["scopes"], Value::Null, "the route asks for none");
}

#[test]
fn a_body_that_is_not_text_is_base_64() {
    for (kind, body, base64) in [
        ("application/json; charset=utf-8", b"{}".as_slice(), false),
        ("application/problem+json", b"{}", false),
        ("text/csv", b"a", false),
        ("application/json", b"\xff\xfe", true),
        ("application/octet-stream", b"a", true),
        ("application/x-www-form-urlencoded", b"a=1", true),
    ] {
        let event = parsed(Request::post("/v1/activities/sale/tokens").header("Content-Type", kind), body);
        assert_eq!(event["isBase64Encoded"], base64, "{kind}");
    }
    let zipped = Request::post("/v1/activities/sale/tokens")
        .header("Content-Type", "application/json")
        .header("Content-Encoding", "gzip");
    assert_eq!(parsed(zipped, b"{}")["body"], "e30=");
}

#[test]
fn the_runtime_reads_the_event() {
    let request = Request::get("/v1/activities/sale%2Fx?a=1%262").header("Host", "127.0.0.1:8080");
    let request = lambda_http::request::from_str(&event(request, b"", Some(&identity()))).unwrap();
    assert_eq!(request.path_parameters().first("activity"), Some("sale/x"));
    assert_eq!(request.query_string_parameters().first("a"), Some("1&2"));
    assert_eq!(request.raw_http_path(), "/v1/activities/sale/x", "decoded, as an HTTP API hands it over");
    let RequestContext::ApiGatewayV2(context) = request.request_context() else { panic!("another kind of event") };
    assert_eq!(context.authorizer.unwrap().jwt.unwrap().claims["groups"], "[operator finance]");
}
