//! The fault suite: every kind of failure injected into the running system under load, each ending in
//! the invariants of docs/protocol.md. `make faults` runs all of it; docs/faults.md has the results.

pub mod cases;
pub mod load;
pub mod scene;
pub mod setup;
pub mod skew;
pub mod soak;
pub mod stage;
pub mod suite;
pub mod tally;
pub mod worker;

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use tokio::time::Instant;

use self::scene::{Outcome, Scene};
use self::setup::Setup;
use crate::stack::StartError;

/// How long a case may take until it is given up.
const CASE_LIMIT: Duration = Duration::from_mins(6);

/// Where a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    Redis,
    Database,
    Queue,
    Process,
    Schedule,
    Relay,
    Operations,
    Clock,
}

impl Group {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redis => "redis",
            Self::Database => "database",
            Self::Queue => "queue",
            Self::Process => "process",
            Self::Schedule => "schedule",
            Self::Relay => "relay",
            Self::Operations => "operations",
            Self::Clock => "clock",
        }
    }
}

/// The fault of a case at work: waits for the load, strikes, waits for its phase, lifts it.
pub type Play<'a> = Pin<Box<dyn Future<Output = Result<(), StartError>> + 'a>>;

/// One kind of failure.
pub struct FaultCase {
    pub group: Group,
    /// Unique; what the filter of `make faults` looks at.
    pub name: String,
    /// The fault in a few words, for the table.
    pub what: String,
    /// Whether it needs nothing special set up, so that it can strike a stack that runs.
    pub plain: bool,
    /// Changes what is set up.
    pub setup: Box<dyn Fn(&mut Setup) + Send + Sync>,
    pub play: Box<dyn for<'a> Fn(&'a mut Scene) -> Play<'a> + Send + Sync>,
}

impl FaultCase {
    #[must_use]
    pub fn new(
        group: Group,
        name: &str,
        what: &str,
        play: impl for<'a> Fn(&'a mut Scene) -> Play<'a> + Send + Sync + 'static,
    ) -> Self {
        Self {
            group,
            name: name.to_owned(),
            what: what.to_owned(),
            plain: true,
            setup: Box::new(|_| {}),
            play: Box::new(play),
        }
    }

    #[must_use]
    pub fn with(self, setup: impl Fn(&mut Setup) + Send + Sync + 'static) -> Self {
        Self { plain: false, setup: Box::new(setup), ..self }
    }

    /// Plays it from start to end. `program` is the runner itself, for function processes of its own.
    pub async fn run(&self, seed: u64, program: &Path) -> Outcome {
        let began = Instant::now();
        let mut outcome = Outcome {
            name: self.name.clone(),
            group: self.group.name().to_owned(),
            what: self.what.clone(),
            seed,
            ..Outcome::default()
        };
        if tokio::time::timeout(CASE_LIMIT, Box::pin(self.play(seed, program, &mut outcome))).await.is_err() {
            outcome.error = Some(format!("not over within {} s", CASE_LIMIT.as_secs()));
        }
        outcome.seconds = began.elapsed().as_secs_f64();
        outcome
    }

    async fn play(&self, seed: u64, program: &Path, outcome: &mut Outcome) {
        let mut setup = Setup::default();
        (self.setup)(&mut setup);
        let recovers = setup.recovers;
        let mut scene = match Scene::start(setup, seed, program).await {
            Ok(scene) => scene,
            Err(error) => {
                outcome.error = Some(error.to_string());
                return;
            }
        };
        let mut played = (self.play)(&mut scene).await;
        scene.lifted();
        if recovers && played.is_ok() {
            played = scene.goes_on().await;
        }
        outcome.error = played.err().map(|error| error.to_string());
        scene.conclude(outcome).await.stop().await;
    }
}
