//! How many scripts, with which seed, where failures are kept and how they are told.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fmt,
    sync::Mutex,
    thread,
};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, FileFailurePersistence, RngSeed, TestCaseResult, TestError, TestRunner},
};

/// Scripts of the gate on one server, unless `HOLDFAST_CASES` says otherwise.
const CASES: u32 = 2_400;
/// Longest time that one script may be shrunk for, in milliseconds.
const SHRINK_MAX_MS: u32 = 90_000;
const SHRINK_ITERATIONS_MAX: u32 = 8_000;
/// Each has a server of its own.
const THREADS: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Gate,
    Cluster,
    GateAtOnce,
    Database,
    DatabaseAtOnce,
    Limits,
}

impl Kind {
    /// Scripts per hundred of the gate's.
    const fn share(self) -> u32 {
        match self {
            Self::Gate | Self::GateAtOnce => 100,
            Self::Cluster => 20,
            Self::Database => 12,
            Self::DatabaseAtOnce => 15,
            Self::Limits => 10,
        }
    }

    /// From so many scripts of each thread on every kind of answer must have been met.
    const fn cases_that_meet_all(self) -> u32 {
        if matches!(self, Self::Database | Self::Limits) { 100 } else { 250 }
    }

    const fn regressions(self) -> &'static str {
        match self {
            // The same scripts, whatever the topology.
            Self::Gate | Self::Cluster => concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/gate.txt"),
            Self::GateAtOnce => concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/gate_at_once.txt"),
            Self::Database => concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/database.txt"),
            Self::DatabaseAtOnce => concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/database_at_once.txt"),
            Self::Limits => concat!(env!("CARGO_MANIFEST_DIR"), "/proptest-regressions/limits.txt"),
        }
    }
}

fn from_env<T: std::str::FromStr>(name: &str) -> Option<T> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text}")))
}

/// One thread's part of a run.
pub struct Share<'a> {
    /// What the whole run met.
    all: &'a Met,
    pub kind: Kind,
    pub seed: u64,
    pub cases: u32,
}

/// Runs the scripts on a few threads, each with its share of the cases and its own seed.
pub fn on_threads(kind: Kind, run: fn(&Share<'_>) -> Result<(), String>) {
    let all = &Met::default();
    let total = from_env("HOLDFAST_CASES").unwrap_or(CASES) * kind.share() / 100;
    let seed: u64 = from_env("HOLDFAST_SEED").unwrap_or_else(|| fastrand::u64(..1 << 48));
    println!("{kind:?}: {total} scripts, HOLDFAST_SEED={seed}");
    thread::scope(|scope| {
        let shares = (0..THREADS).map(|thread| Share {
            all,
            kind,
            seed: seed + u64::from(thread),
            cases: total.div_ceil(THREADS).max(1),
        });
        let running: Vec<_> = shares.map(|share| scope.spawn(move || run(&share))).collect();
        for thread in running {
            thread.join().unwrap().unwrap_or_else(|differs| panic!("{differs}"));
        }
    });
    all.is_whole().unwrap_or_else(|missing| panic!("{kind:?}, HOLDFAST_SEED={seed}: {missing}"));
}

impl Share<'_> {
    /// Tries the kept failures, then new scripts; a script that fails is shrunk and told.
    pub fn check<S>(&self, scripts: &S, test: impl Fn(S::Value) -> TestCaseResult) -> Result<(), String>
    where
        S: Strategy,
        S::Value: fmt::Display,
    {
        let mut runner = TestRunner::new(Config {
            cases: self.cases,
            failure_persistence: Some(Box::new(FileFailurePersistence::Direct(self.kind.regressions()))),
            max_shrink_time: SHRINK_MAX_MS,
            max_shrink_iters: SHRINK_ITERATIONS_MAX,
            rng_seed: RngSeed::Fixed(self.seed),
            ..Config::default()
        });
        runner.run(scripts, test).map_err(|error| match error {
            TestError::Fail(reason, script) => {
                format!("{:?}, HOLDFAST_SEED={}:\n{script}{}", self.kind, self.seed, reason.message())
            }
            TestError::Abort(reason) => format!("{:?} was given up: {}", self.kind, reason.message()),
        })
    }
}

pub fn unlike(real: &dyn fmt::Debug, expected: &dyn fmt::Debug) -> String {
    format!("  real:      {real:?}\n  reference: {expected:?}")
}

/// Every order of so many things.
pub fn permutations(count: usize) -> Vec<Vec<usize>> {
    if count == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for shorter in permutations(count - 1) {
        for place in 0..=shorter.len() {
            let mut order = shorter.clone();
            order.insert(place, count - 1);
            all.push(order);
        }
    }
    all
}

/// How many of the kinds that were met least are told.
const RARE: usize = 6;

/// Kinds of answers that were met, how often, and those that must have been, so that scripts which no longer
/// reach a rule are noticed.
#[derive(Debug, Default)]
pub struct Met {
    kinds: Mutex<BTreeMap<String, u32>>,
    wanted: Mutex<BTreeSet<String>>,
}

impl Met {
    /// An answer's kind is its name and the name within: `Placed(Short`.
    pub fn note(&self, answer: &dyn fmt::Debug) {
        let text = format!("{answer:?}");
        let names: Vec<&str> = text.split(['(', '{', ',', ')', ' ']).take(2).collect();
        self.add(&names.join(" "));
    }

    /// Notes something by its name.
    pub fn add(&self, name: &str) {
        *self.kinds.lock().unwrap().entry(name.to_owned()).or_default() += 1;
    }

    /// Adds what one thread met to what the run met; the run must have met these kinds, if it is long enough.
    pub fn count_in(&self, share: &Share<'_>, kinds: &[&str]) {
        let mut all = share.all.kinds.lock().unwrap();
        for (kind, count) in self.kinds.lock().unwrap().iter() {
            *all.entry(kind.clone()).or_default() += count;
        }
        if share.cases >= share.kind.cases_that_meet_all() {
            share.all.wanted.lock().unwrap().extend(kinds.iter().map(|kind| (*kind).to_owned()));
        }
    }

    /// Tells the kinds that are missing.
    fn is_whole(&self) -> Result<(), String> {
        let (met, wanted) = (self.kinds.lock().unwrap(), self.wanted.lock().unwrap());
        // Those that a change of the scripts would lose first.
        let mut rare: Vec<_> = met.iter().map(|(kind, count)| (count, kind)).collect();
        rare.sort_unstable();
        rare.truncate(RARE);
        println!("rarely met: {rare:?}");
        let missing: Vec<_> = wanted.iter().filter(|kind| !met.contains_key(*kind)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("no script met {missing:?}, only {met:?}")) }
    }
}
