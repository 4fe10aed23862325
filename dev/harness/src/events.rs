//! The files of `events/`: each is run through its function's handler and must get its answer.

#![allow(clippy::panic, clippy::unwrap_used)] // for tests only: a broken fixture ends the test

use std::{fs, path::Path, sync::LazyLock};

use holdfast::{
    app::admin::{Admin, Expected, PreheatResult, SavedActivity},
    domain::{activity::Activity, ids::ActivityId},
    lambda::{Wiring, http::HttpHandler},
    ports::SystemClock,
};
use serde_json::{Value, json};

use crate::{Backend, Options, contract::Contract, http::read, sample};

static CONTRACT: LazyLock<Contract> = LazyLock::new(Contract::load);

/// One file and what it must be answered with.
#[derive(Debug)]
pub struct Case {
    pub name: String,
    pub event: Value,
    pub expected: Value,
}

/// Every case of a function, by name.
///
/// # Panics
/// When there is none, or a file is not JSON.
#[must_use]
pub fn cases(function: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../events").join(function);
    let read = |path: &Path| -> Value { serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap() };
    let mut cases: Vec<Case> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.to_str().unwrap().ends_with(".expected.json"))
        .map(|path| Case {
            name: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            expected: read(&path.with_extension("expected.json")),
            event: read(&path),
        })
        .collect();
    cases.sort_by(|one, other| one.name.cmp(&other.name));
    assert!(!cases.is_empty(), "no events for {function}");
    cases
}

/// A backend in the state that the files assume: see `events/README.md`.
///
/// # Panics
/// When a server does not start.
pub async fn demo() -> Backend {
    let backend = Backend::start(Options::default()).await.unwrap();
    let draft = sample::with(sample::activity("phone", 100), &json!({"limit": {"scope": "activity", "max": 2}}));
    open(&backend.wiring, "demo", &draft).await;
    backend
}

/// Saves an activity and preheats it, as an operator does; answers it as it is then.
///
/// # Panics
/// When either is refused.
pub async fn open(wiring: &Wiring, id: &str, draft: &Value) -> Activity {
    use holdfast::ports::ActivityStore as _;
    let id = ActivityId::parse(id).unwrap();
    let Wiring { gate, database, cache, .. } = wiring.clone();
    let admin = Admin { store: database.clone(), cache, gate, clock: SystemClock };
    let saved = admin.save(id.clone(), serde_json::from_value(draft.clone()).unwrap(), Expected::Absent).await;
    assert!(matches!(saved, Ok(SavedActivity::Created(_))), "{saved:?}");
    let preheated = admin.preheat(&id, "olivia").await.unwrap();
    assert!(matches!(preheated, PreheatResult::Done(_)), "{preheated:?}");
    database.activity(&id).await.unwrap().unwrap()
}

/// Runs one case through a handler: status, code and the fields of the body that are expected, and the
/// answer as a whole against the contract.
///
/// # Panics
/// When the answer is another.
pub async fn check_http(case: &Case, handler: &impl HttpHandler) {
    let request = lambda_http::request::from_str(&case.event.to_string()).unwrap();
    let response = handler.handle(request).await;
    let (status, body) = read(&response);
    let name = &case.name;
    assert_eq!(json!(status), case.expected["statusCode"], "{name}: {body}");
    if let Some(code) = case.expected.get("code") {
        assert_eq!(body["code"], *code, "{name}: {body}");
    }
    if let Some(expected) = case.expected.get("body") {
        assert!(contains(&body, expected), "{name}: {body} lacks some of {expected}");
    }
    CONTRACT.check(case.event["routeKey"].as_str().unwrap(), &response).unwrap_or_else(|why| panic!("{name}: {why}"));
}

/// Whether a value has at least these fields with these values; lists must be the same length.
#[must_use]
pub fn contains(value: &Value, expected: &Value) -> bool {
    match (value, expected) {
        (Value::Object(fields), Value::Object(expected)) => {
            expected.iter().all(|(name, expected)| fields.get(name).is_some_and(|value| contains(value, expected)))
        }
        (Value::Array(values), Value::Array(expected)) => {
            values.len() == expected.len() && values.iter().zip(expected).all(|(value, other)| contains(value, other))
        }
        _ => value == expected,
    }
}

/// The local runner's routes exist in no function: not even their names are in its binary.
///
/// # Panics
/// When one is, or the binary cannot be read.
pub fn check_binary(path: &str) {
    let binary = fs::read(path).unwrap();
    for route in ["/dev/login", "/dev/run", "/dev/state"] {
        assert!(!binary.windows(route.len()).any(|bytes| bytes == route.as_bytes()), "{path} contains {route}");
    }
}
