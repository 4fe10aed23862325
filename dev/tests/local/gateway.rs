//! The gateway over real connections, with functions that show what they were called with.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::SqsBatchResponse;
use dev::functions::{Functions, HttpFunction};
use dev::gateway::jwt::Authorizer;
use dev::gateway::local::{LocalApi, StateError};
use dev::gateway::routes::{Access, ROUTES};
use dev::gateway::{Api, BODY_MAX_BYTES, Gateway};
use harness::contract::Contract;
use lambda_http::{Body, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

/// A gateway before functions that answer with their own name, the request's method and its body's
/// length. `x-test: panic` makes them panic, `x-test: slow` makes them take a while.
struct Fixture {
    gateway: Gateway,
    authorizer: Arc<Authorizer>,
    /// "started" of each slow function, "finished" of every one.
    steps: mpsc::UnboundedReceiver<&'static str>,
}

fn function(name: &'static str, steps: &mpsc::UnboundedSender<&'static str>) -> HttpFunction {
    let steps = steps.clone();
    Arc::new(move |request| {
        let steps = steps.clone();
        Box::pin(async move {
            match request.headers().get("x-test").and_then(|value| value.to_str().ok()) {
                Some("panic") => panic!("asked for by the test"),
                Some("slow") => {
                    let _ = steps.send("started");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
                _ => {}
            }
            let _ = steps.send("finished");
            let body = json!({ "function": name, "method": request.method().as_str(), "bytes": request.body().len() });
            Response::builder().status(201).header("x-kept", "yes").body(Body::Text(body.to_string())).unwrap()
        })
    })
}

impl Fixture {
    async fn start() -> Self {
        let (sender, steps) = mpsc::unbounded_channel();
        let authorizer = Arc::new(Authorizer::new(vec![1; 32]));
        let local = LocalApi {
            reconcile: Arc::new(|| Box::pin(async { Ok(json!({ "findings": [] })) })),
            expire_orders: Arc::new(|| Box::pin(async { Ok(json!({ "expired": 0 })) })),
            rebalance_stock: Arc::new(|| Box::pin(async { Ok(json!({ "moves": 0 })) })),
            state: Arc::new(|activity| {
                Box::pin(async move {
                    if activity == "sale" { Ok(json!({ "agree": true })) } else { Err(StateError::UnknownActivity) }
                })
            }),
        };
        let functions = Functions {
            issue_token: function("issue-token", &sender),
            place_order: function("place-order", &sender),
            query: function("query", &sender),
            console: function("console", &sender),
            cancel_order: function("cancel-order", &sender),
            payment: function("payment", &sender),
            roll_back: Arc::new(|_| Box::pin(async { SqsBatchResponse::default() })),
            relay: Arc::new(|_| Box::pin(async { json!({ "batchItemFailures": [] }) })),
            reconcile: Arc::clone(&local.reconcile),
            expire_orders: Arc::clone(&local.expire_orders),
            rebalance_stock: Arc::clone(&local.rebalance_stock),
        };
        let api = Api { functions, authorizer: Arc::clone(&authorizer), local };
        Self { gateway: Gateway::start(0, api).await.unwrap(), authorizer, steps }
    }

    /// The next step of a function.
    async fn step(&mut self) -> &'static str {
        tokio::time::timeout(Duration::from_secs(10), self.steps.recv()).await.unwrap().unwrap()
    }

    fn bearer(&self, groups: &[&str]) -> String {
        let groups: Vec<_> = groups.iter().map(|group| (*group).to_owned()).collect();
        let token = self.authorizer.login("alice", &groups, jiff::Timestamp::now().as_second());
        format!("Authorization: Bearer {token}\r\n")
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.gateway.address()).await.unwrap()
    }

    /// Status and whole answer, headers included.
    async fn call(&self, line: &str, headers: &str, body: &str) -> (u16, String) {
        let mut stream = self.connect().await;
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!("{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{length}{headers}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        // The gateway may refuse before it has read all of a large body.
        let _ = stream.write_all(body.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8(answer).unwrap();
        (answer.split(' ').nth(1).unwrap_or("0").parse().unwrap(), answer)
    }
}

fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

#[tokio::test]
async fn each_route_reaches_its_function_with_the_access_that_it_asks_for() {
    let fixture = Fixture::start().await;
    let (buyer, operator) = (fixture.bearer(&[]), fixture.bearer(&["operator"]));
    for (line, function, public, by_buyer) in [
        ("GET /v1/activities/sale", "query", true, true),
        ("POST /v1/activities/sale/tokens", "issue-token", false, true),
        ("POST /v1/activities/sale/orders", "place-order", false, true),
        ("GET /v1/activities/sale/orders", "query", false, true),
        ("GET /v1/activities/sale/orders/0123", "query", false, true),
        ("PUT /v1/admin/activities/sale", "console", false, false),
        ("POST /v1/admin/activities/sale/preheat", "console", false, false),
        ("POST /v1/admin/activities/sale/freeze", "console", false, false),
        ("POST /v1/admin/activities/sale/unfreeze", "console", false, false),
    ] {
        let (status, answer) = fixture.call(line, &operator, "").await;
        assert_eq!(status, 201, "{line}");
        assert_eq!(body(&answer)["function"], function);
        assert!(answer.contains("x-kept: yes") && answer.contains("apigw-requestid: "));
        let (status, answer) = fixture.call(line, "", "").await;
        assert_eq!(status, if public { 201 } else { 401 }, "{line}");
        if !public {
            assert_eq!(body(&answer), json!({ "message": "Unauthorized" }));
        }
        let (status, answer) = fixture.call(line, &buyer, "").await;
        assert_eq!(status, if by_buyer { 201 } else { 403 }, "{line}");
        if !by_buyer {
            assert_eq!(body(&answer), json!({ "message": "Forbidden" }));
        }
    }
}

#[tokio::test]
async fn unknown_routes_are_the_gateways_404_whoever_asks() {
    let fixture = Fixture::start().await;
    for line in ["GET /", "GET /v1", "PATCH /v1/activities/sale", "GET /dev/login", "POST /v1/activities/sale/orders/"]
    {
        for headers in ["", &fixture.bearer(&["operator"])] {
            let (status, answer) = fixture.call(line, headers, "").await;
            assert_eq!((status, body(&answer)), (404, json!({ "message": "Not Found" })), "{line}");
        }
    }
}

#[tokio::test]
async fn another_host_is_not_served() {
    let fixture = Fixture::start().await;
    for (host, status) in [
        ("localhost", 201),
        ("127.0.0.1:8080", 201),
        ("example.org", 403),
        ("[[", 403),
        ("", 403),
        ("localhost:x", 403),
        ("999.999.999.999", 403),
    ] {
        let mut stream = fixture.connect().await;
        let head = format!("GET /v1/activities/sale HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{host}: {answer}");
    }
}

#[tokio::test]
async fn bodies_are_limited_as_on_aws() {
    let fixture = Fixture::start().await;
    let (line, headers) = ("POST /v1/activities/sale/orders", fixture.bearer(&[]));
    // A megabyte below the limit of a function's payload: the event has more than the body.
    let (status, answer) = fixture.call(line, &headers, &"x".repeat(5 << 20)).await;
    assert_eq!((status, body(&answer)["bytes"].clone()), (201, json!(5 << 20)));
    for bytes in [7 << 20, BODY_MAX_BYTES + 1] {
        let (status, answer) = fixture.call(line, &headers, &"x".repeat(bytes)).await;
        assert_eq!((status, body(&answer)), (413, json!({ "message": "Request Entity Too Large" })), "{bytes}");
    }
}

#[tokio::test]
async fn the_contract_tells_of_each_route_what_the_gateway_answers_for_it() {
    let (fixture, contract) = (Fixture::start().await, Contract::load());
    let (buyer, operator) = (fixture.bearer(&[]), fixture.bearer(&["operator"]));
    for route in ROUTES {
        let line = format!("{} {}", route.method, route.pattern.replace(['{', '}'], ""));
        let check = |status: u16, body: &str| {
            let json = |name: &str| (name == "content-type").then(|| "application/json".to_owned());
            contract.check_parts(&route.key(), status, &json, body.as_bytes()).unwrap();
        };
        let mut calls = vec![(500, format!("{operator}x-test: panic\r\n"), String::new())];
        calls.push((413, operator.clone(), "x".repeat(BODY_MAX_BYTES + 1)));
        if route.access != Access::Public {
            calls.push((401, String::new(), String::new()));
        }
        if route.access == Access::Operator {
            calls.push((403, buyer.clone(), String::new()));
        }
        for (expected, headers, body) in calls {
            let (status, answer) = fixture.call(&line, &headers, &body).await;
            assert_eq!(status, expected, "{line}");
            assert!(answer.contains("content-type: application/json"), "{answer}");
            check(status, answer.split_once("\r\n\r\n").unwrap().1);
        }
        // Those that it gives for what this one cannot be brought to: bytes that stop coming, routes that a
        // deployment has not, its own rate, no function to run.
        for status in [400, 404, 429, 503] {
            check(status, r#"{"message":"as AWS puts it"}"#);
        }
    }
}

#[tokio::test]
async fn a_panic_in_a_function_is_an_answer_and_the_gateway_goes_on() {
    let fixture = Fixture::start().await;
    let line = "GET /v1/activities/sale";
    let (status, answer) = fixture.call(line, "x-test: panic\r\n", "").await;
    assert_eq!((status, body(&answer)), (500, json!({ "message": "Internal Server Error" })));
    assert_eq!(fixture.call(line, "", "").await.0, 201);
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_end_the_function() {
    let mut fixture = Fixture::start().await;
    let mut stream = fixture.connect().await;
    stream.write_all(b"GET /v1/activities/sale HTTP/1.1\r\nHost: localhost\r\nx-test: slow\r\n\r\n").await.unwrap();
    assert_eq!(fixture.step().await, "started");
    drop(stream);
    assert_eq!(fixture.step().await, "finished");
}

#[tokio::test]
async fn the_local_routes_log_in_reconcile_and_show_both_stores() {
    let fixture = Fixture::start().await;
    let login = r#"{"sub":"olga","groups":["operator"]}"#;
    let (status, answer) = fixture.call("POST /dev/login", "", login).await;
    assert_eq!(status, 200);
    let token = body(&answer)["access_token"].as_str().unwrap().to_owned();
    let headers = format!("Authorization: Bearer {token}\r\n");
    assert_eq!(fixture.call("PUT /v1/admin/activities/sale", &headers, "{}").await.0, 201);
    assert_eq!(fixture.call("POST /dev/login", "", "{").await.0, 400);
    let (status, answer) = fixture.call("POST /dev/run/reconcile", "", "").await;
    assert_eq!((status, body(&answer)), (200, json!({ "findings": [] })));
    let (status, answer) = fixture.call("GET /dev/state?activity=sale", "", "").await;
    assert_eq!((status, body(&answer)), (200, json!({ "agree": true })));
    assert_eq!(fixture.call("GET /dev/state?activity=other", "", "").await.0, 404);
    assert_eq!(fixture.call("GET /dev/state", "", "").await.0, 400);
}

#[tokio::test]
async fn stopping_lets_requests_in_flight_finish() {
    let mut fixture = Fixture::start().await;
    let mut stream = fixture.connect().await;
    stream.write_all(b"GET /v1/activities/sale HTTP/1.1\r\nHost: localhost\r\nx-test: slow\r\n\r\n").await.unwrap();
    assert_eq!(fixture.step().await, "started");
    fixture.gateway.stop().await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201"), "{answer}");
}
