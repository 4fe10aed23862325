//! The files of `events/`: each is run through its function's handler, and by `dev invoke` through the built
//! function, and must get its answer.

#![allow(clippy::panic, clippy::unwrap_used)] // for tests only: a broken fixture ends the test

use std::{fs, path::Path, sync::LazyLock};

use holdfast::{
    app::admin::{Admin, Expected, PreheatResult, SavedActivity},
    domain::{activity::Activity, ids::ActivityId, time::UnixMillis, webhook::WebhookSecrets},
    lambda::{Wiring, http::HttpHandler},
    ports::{Clock as _, SystemClock},
};
use serde_json::{Value, json};

use crate::{
    Backend, Options,
    answers::{self, HttpAnswer},
    contract::Contract,
    sample, webhook_secrets,
};

static CONTRACT: LazyLock<Contract> = LazyLock::new(Contract::load);

/// One file and what it must be answered with.
#[derive(Debug)]
pub struct Case {
    pub name: String,
    pub event: Value,
    pub expected: Value,
}

impl Case {
    /// The event with what a file cannot say: a signature of a webhook is good for five minutes, so the files
    /// name in its place what is signed and when.
    ///
    /// # Panics
    /// When the runtime could not read the event.
    #[must_use]
    pub fn filled_in(&self, now: UnixMillis) -> Value {
        let mut event = self.event.clone();
        let Some(asked) = event["headers"]["holdfast-signature"].as_str() else { return event };
        let ours = webhook_secrets();
        let request = lambda_http::request::from_str(&event.to_string()).unwrap();
        // As the function gets it, whether it came as text or as base64.
        let body: &[u8] = request.body().as_ref();
        let signature = match asked {
            "{{signed now}}" => ours.sign(body, now),
            "{{signed four minutes ago}}" => ours.sign(body, now.plus_ms(-240_000)),
            "{{signed six minutes ago}}" => ours.sign(body, now.plus_ms(-360_000)),
            "{{signed in six minutes}}" => ours.sign(body, now.plus_ms(360_000)),
            "{{signed other body}}" => ours.sign(b"{}", now),
            "{{signed by somebody else}}" => WebhookSecrets::new(vec![vec![7; 32]]).unwrap().sign(body, now),
            as_it_is => as_it_is.to_owned(),
        };
        event["headers"]["holdfast-signature"] = signature.into();
        event
    }
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

/// Runs one case through a handler.
///
/// # Panics
/// When the answer is another than the file expects.
pub async fn check_http(case: &Case, handler: &impl HttpHandler) {
    let request = lambda_http::request::from_str(&case.filled_in(SystemClock.now()).to_string()).unwrap();
    let response = handler.handle(request).await;
    let checked = answers::check_http(&CONTRACT, case, &HttpAnswer::from(&response));
    checked.unwrap_or_else(|why| panic!("{}: {why}", case.name));
}

/// Holds the answer of another handler, as the runtime would hand it on, against what the file expects.
///
/// # Panics
/// When it is another.
pub async fn check(case: &Case, backend: &Backend, answer: &Value) {
    let checked = answers::check(&CONTRACT, case, backend, answer).await;
    checked.unwrap_or_else(|why| panic!("{}: {why}", case.name));
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
