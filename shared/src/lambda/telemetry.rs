//! Logs and metrics on standard output, and the scope of each invocation.

use std::{fmt, io::Write as _, sync::Arc};

use futures_util::future::BoxFuture;
use tracing::{Event, Subscriber};
use tracing_subscriber::{
    EnvFilter,
    fmt::{
        FmtContext, FormatEvent, FormatFields,
        format::{Format, Json, JsonFields, Writer},
    },
    layer::SubscriberExt as _,
    registry::LookupSpan,
    util::SubscriberInitExt as _,
};

use super::emf;
use crate::{
    config::MetricsConfig,
    ports::{Clock as _, SystemClock},
    telemetry::{self, Meter, Trace},
};

/// Where lines of metrics go.
type Output = Box<dyn Fn(&str) + Send + Sync>;

/// What a process tells of itself. Clones share it.
#[derive(Clone, Default)]
pub struct Telemetry(Option<Arc<Metrics>>);

struct Metrics {
    meter: Arc<Meter>,
    config: MetricsConfig,
    output: Output,
}

impl Telemetry {
    /// Metrics on standard output, between the lines of the log. Without a configuration none.
    #[must_use]
    pub fn new(config: Option<MetricsConfig>) -> Self {
        config.map_or_else(Self::default, |config| Self::telling(config, print))
    }

    /// Metrics that go there, line by line.
    pub fn telling(config: MetricsConfig, output: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(Metrics { meter: Arc::default(), config, output: Box::new(output) })))
    }

    /// One invocation: what it counts is told when it ends, or with that of later ones; what it logs and sends
    /// carries this trace. The work is boxed: the futures of a whole function nest deep.
    pub async fn invocation<T>(&self, trace: Option<Trace>, work: BoxFuture<'_, T>) -> T {
        // What waited longer than it should, because the process was frozen, is told with its own time.
        self.tell();
        let meter = self.0.as_ref().map(|metrics| Arc::clone(&metrics.meter));
        let done = telemetry::scoped(meter, trace, work).await;
        self.tell();
        done
    }

    fn tell(&self) {
        let Some(metrics) = &self.0 else { return };
        if let Some(held) = metrics.meter.take_due(SystemClock.now()) {
            for line in emf::lines(&metrics.config, &held) {
                (metrics.output)(&line);
            }
        }
    }
}

/// One write, so that it does not end up inside of another line.
fn print(line: &str) {
    // Like the log: a function whose output is closed has nobody to tell.
    let _ = std::io::stdout().lock().write_all(format!("{line}\n").as_bytes());
}

/// Logs on standard output, filtered by what `HOLDFAST_LOG` says.
pub fn start_log(filter: &str) {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    // A second start in one process, as in tests, keeps the first one.
    let _ = tracing_subscriber::registry().with(filter).with(lines()).try_init();
}

/// The log's lines: JSON, one event each, with the trace that the work belongs to.
#[must_use]
pub fn lines<S>() -> tracing_subscriber::fmt::Layer<S, JsonFields, WithTrace>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let format = tracing_subscriber::fmt::format().json().flatten_event(true);
    let format = format.with_current_span(false).with_span_list(false).with_target(false);
    tracing_subscriber::fmt::layer().fmt_fields(JsonFields::new()).event_format(WithTrace(format))
}

/// Puts `trace_id` first. It is the invocation's, or that of the message or record under work, and no field of a
/// span: what is filtered out must not take it away.
pub struct WithTrace(Format<Json>);

impl<S, N> FormatEvent<S, N> for WithTrace
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut line = String::new();
        self.0.format_event(context, Writer::new(&mut line), event)?;
        match (telemetry::trace(), line.strip_prefix('{')) {
            (Some(trace), Some(rest)) => write!(writer, "{{\"trace_id\":\"{}\",{rest}", trace.id()),
            _ => writer.write_str(&line),
        }
    }
}
