//! What is measured while the sale runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::client::{NoReply, Reply};

/// Longest latency that is told apart, in microseconds.
const LATENCY_MAX_US: u64 = 60_000_000;
/// Significant digits of a latency.
const DIGITS: u8 = 3;
/// Length of one interval of the peak.
const TICK: Duration = Duration::from_millis(100);
const TICKS_PER_SECOND: usize = 10;

/// The calls that are told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Kind {
    Token,
    Order,
    SeeActivity,
    SeeOrder,
    SeeOrders,
    Garbage,
    Payment,
    Cancel,
    Refund,
}

impl Kind {
    pub const ALL: [Self; 9] = [
        Self::Token,
        Self::Order,
        Self::SeeActivity,
        Self::SeeOrder,
        Self::SeeOrders,
        Self::Garbage,
        Self::Payment,
        Self::Cancel,
        Self::Refund,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Order => "order",
            Self::SeeActivity => "activity",
            Self::SeeOrder => "own order",
            Self::SeeOrders => "own orders",
            Self::Garbage => "garbage",
            Self::Payment => "payment",
            Self::Cancel => "cancel",
            Self::Refund => "refund",
        }
    }
}

/// Everything measured, shared by all clients.
pub struct Measures {
    began: Instant,
    inner: Mutex<Inner>,
}

struct Inner {
    latencies: BTreeMap<Kind, Histogram<u64>>,
    outcomes: BTreeMap<(Kind, String), u64>,
    ticks: Vec<u32>,
    seconds: Vec<Second>,
    /// Requests beyond the plan, by why they were sent.
    extra: BTreeMap<&'static str, u64>,
}

/// What came back within one second.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Second {
    /// Orders accepted, replays included.
    pub accepted: u32,
    /// Orders refused for good.
    pub refused: u32,
    /// 429 and 503.
    pub come_back: u32,
    /// Tokens, queries, garbage.
    pub others: u32,
}

/// Latencies of one call, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    pub kind: Kind,
    pub count: u64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p999_ms: f64,
    pub max_ms: f64,
}

/// All of it, for the report.
#[derive(Clone, Debug, Serialize)]
pub struct Measured {
    pub requests: u64,
    pub lasted_s: f64,
    /// Requests in the fullest 100 ms.
    pub peak_per_100_ms: u32,
    pub latencies: Vec<Latency>,
    /// Call, outcome, how often.
    pub outcomes: Vec<(Kind, String, u64)>,
    pub seconds: Vec<Second>,
    pub extra: BTreeMap<&'static str, u64>,
}

impl Measures {
    /// # Errors
    /// Never with the bounds used here; the error is the histogram's.
    pub fn start() -> Result<Self, hdrhistogram::CreationError> {
        let mut latencies = BTreeMap::new();
        for kind in Kind::ALL {
            latencies.insert(kind, Histogram::new_with_bounds(1, LATENCY_MAX_US, DIGITS)?);
        }
        let inner = Inner {
            latencies,
            outcomes: BTreeMap::new(),
            ticks: Vec::new(),
            seconds: Vec::new(),
            extra: BTreeMap::new(),
        };
        Ok(Self { began: Instant::now(), inner: Mutex::new(inner) })
    }

    /// Counts a request that the plan does not have.
    pub fn extra(&self, why: &'static str) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        *inner.extra.entry(why).or_default() += 1;
    }

    pub fn note(&self, kind: Kind, reply: &Result<Reply, NoReply>) {
        let tick = usize::try_from(self.began.elapsed().as_millis() / TICK.as_millis()).unwrap_or(0);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.count(kind, outcome(reply), tick);
        if let Ok(reply) = reply {
            let micros = u64::try_from(reply.latency.as_micros()).unwrap_or(u64::MAX);
            if let Some(histogram) = inner.latencies.get_mut(&kind) {
                histogram.saturating_record(micros.max(1));
            }
            inner.second(tick).note(kind, reply);
        }
    }

    /// Counts a request whose client hung up.
    pub fn hung_up(&self, kind: Kind) {
        let tick = usize::try_from(self.began.elapsed().as_millis() / TICK.as_millis()).unwrap_or(0);
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.count(kind, "hung up before the reply".to_owned(), tick);
    }

    /// Requests so far.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.outcomes.values().sum()
    }

    #[must_use]
    pub fn finish(&self) -> Measured {
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = inner.ticks.iter().rposition(|requests| *requests > 0).map_or(0, |last| last + 1);
        #[expect(clippy::cast_precision_loss, reason = "a report of some minutes")]
        let lasted_s = busy as f64 / TICKS_PER_SECOND as f64;
        Measured {
            requests: inner.outcomes.values().sum(),
            lasted_s,
            peak_per_100_ms: inner.ticks.iter().max().copied().unwrap_or(0),
            latencies: inner.latencies.iter().map(|(kind, histogram)| latency(*kind, histogram)).collect(),
            outcomes: inner.outcomes.iter().map(|((kind, outcome), n)| (*kind, outcome.clone(), *n)).collect(),
            seconds: inner.seconds.clone(),
            extra: inner.extra.clone(),
        }
    }
}

impl Inner {
    fn count(&mut self, kind: Kind, outcome: String, tick: usize) {
        *self.outcomes.entry((kind, outcome)).or_default() += 1;
        if self.ticks.len() <= tick {
            self.ticks.resize(tick + 1, 0);
        }
        self.ticks[tick] += 1;
    }

    fn second(&mut self, tick: usize) -> &mut Second {
        let second = tick / TICKS_PER_SECOND;
        if self.seconds.len() <= second {
            self.seconds.resize(second + 1, Second::default());
        }
        &mut self.seconds[second]
    }
}

impl Second {
    fn note(&mut self, kind: Kind, reply: &Reply) {
        let counter = match (kind, reply.status) {
            (_, 429 | 503) => &mut self.come_back,
            (Kind::Order, 200..=202) => &mut self.accepted,
            (Kind::Order, _) => &mut self.refused,
            _ => &mut self.others,
        };
        *counter += 1;
    }
}

fn outcome(reply: &Result<Reply, NoReply>) -> String {
    match reply {
        Err(NoReply) => "no reply".to_owned(),
        Ok(reply) => match reply.code() {
            "" => reply.status.to_string(),
            code => format!("{} {code}", reply.status),
        },
    }
}

fn latency(kind: Kind, histogram: &Histogram<u64>) -> Latency {
    #[expect(clippy::cast_precision_loss, reason = "microseconds of at most a minute")]
    let ms = |micros: u64| micros as f64 / 1_000.0;
    Latency {
        kind,
        count: histogram.len(),
        p50_ms: ms(histogram.value_at_quantile(0.5)),
        p99_ms: ms(histogram.value_at_quantile(0.99)),
        p999_ms: ms(histogram.value_at_quantile(0.999)),
        max_ms: ms(histogram.max()),
    }
}
