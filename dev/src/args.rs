//! The command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::invoke::How;

/// The whole of Holdfast on this machine: no AWS account, no Docker.
#[derive(Debug, Parser)]
#[command(name = "dev", version)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keeps the stack up until it is interrupted.
    Serve(Serve),
    /// Runs a whole flash sale and checks that nothing was oversold, doubled or lost.
    Sale(Sale),
    /// Injects every kind of failure under load and checks the invariants after each.
    Faults(Faults),
    /// Random faults under load for a long time, and that memory stays flat.
    Soak(Soak),
    /// A function process of the fault suite, which tells it on its input what to do.
    #[command(hide = true)]
    Worker,
    /// Sends what the HTTP contract allows and what it forbids, and checks every answer against it.
    Fuzz(Fuzz),
    /// Runs the built functions with every file of events/ and holds their answers against what is expected.
    Invoke(Invoke),
    /// Reconciles many activities and orders, and measures it.
    Size(Size),
    /// One run of a reconciliation, for `size`.
    #[command(hide = true)]
    SizePass(SizePass),
    /// Measures ratios to aim for, each of two things in turn.
    Bench(Bench),
    /// Measures how long functions take to start, beside one that does nothing.
    BenchStart(BenchStart),
    /// Measures what an order uses, and tells what a million cost.
    Cost(Cost),
    /// Plans a sale: parameters, limits to raise, cost.
    Plan(Plan),
}

#[derive(Clone, Debug, Args)]
pub struct Plan {
    /// Accepted orders a second of the hottest SKU at the peak.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub rate: u32,
    /// Order requests a second at the peak, the refused ones included. Ten times the rate unless set.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub requests: Option<u32>,
    /// Orders in a day, or in the whole sale.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    pub orders: u64,
    /// Lines of an order.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    pub lines: u32,
    /// How long `PlaceOrder` works on one request, in milliseconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub order_ms: u32,
}

#[derive(Debug, Args)]
pub struct BenchStart {
    /// Where the built functions lie.
    #[arg(long)]
    pub folder: PathBuf,
    /// How often each is started.
    #[arg(long, default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Only these functions; all of them if there are none.
    pub functions: Vec<String>,
}

#[derive(Debug, Args)]
pub struct Cost {
    /// How often each outcome is brought about.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub times: u32,
    /// Time added to every call of the local DynamoDB, in milliseconds.
    #[arg(long, default_value_t = 5)]
    pub latency_ms: u64,
}

#[derive(Debug, Args)]
pub struct Bench {
    /// Only parts whose name contains this: second-wave, last-unit, scripts, refusals, strategies.
    #[arg(default_value = "")]
    pub filter: String,
    /// How often each thing is measured.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub rounds: u32,
    /// Orders a second beside which 2.3 times as many queries come: far below what the machine takes.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub order_rate: u32,
    /// How long they come, with and without queries, in seconds.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u64).range(1..=120))]
    pub phase_s: u64,
    /// Units that are sold to the last one.
    #[arg(long, default_value_t = 8_000, value_parser = clap::value_parser!(u32).range(10..=100_000))]
    pub units: u32,
    /// Calls of each script, and of the handler, in one round.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    pub calls: u32,
    /// Time added to every call of the local DynamoDB, in milliseconds.
    #[arg(long, default_value_t = 5)]
    pub latency_ms: u64,
}

#[derive(Debug, Args)]
pub struct Size {
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub activities: u16,
    /// Orders in all.
    #[arg(long, default_value_t = 200_000)]
    pub orders: u32,
    /// Buckets of each activity.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub buckets: u16,
    /// Time of one run, in milliseconds: as the function has it.
    #[arg(long, default_value_t = 250_000)]
    pub run_ms: u64,
}

#[derive(Debug, Args)]
pub struct SizePass {
    #[arg(long)]
    pub dynamodb: String,
    #[arg(long)]
    pub redis: String,
    #[arg(long)]
    pub ahead_ms: i64,
    #[arg(long)]
    pub time_ms: u64,
    /// This activity alone, and all of it.
    #[arg(long)]
    pub only: Option<String>,
}

/// What both commands take.
#[derive(Debug, Args)]
pub struct Common {
    /// Time added to every call of the local DynamoDB, in milliseconds.
    #[arg(long, default_value_t = 5)]
    pub latency_ms: u64,
    /// A Redis to use, redis://host:port. Without it one is started and ended.
    #[arg(long)]
    pub redis_url: Option<String>,
    /// How long one call of Redis may take, in milliseconds. On AWS it is 50; here everything shares a
    /// machine.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=2_000))]
    pub redis_deadline_ms: u64,
    /// Seconds between two scheduled reconciliations.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..))]
    pub reconcile_every_s: u64,
}

#[derive(Debug, Args)]
pub struct Serve {
    /// Port of the HTTP API on 127.0.0.1; 0 takes a free one.
    #[arg(long, default_value_t = 8080)]
    pub port: u16,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Sale {
    /// Requests in all: tokens, orders, queries, retries and garbage.
    #[arg(long, default_value_t = 126_000)]
    pub requests: u64,
    /// Different buyers. By default in proportion to the requests: 50,000 for 126,000.
    #[arg(long)]
    pub buyers: Option<u64>,
    /// Units of the main SKU. By default in proportion to the requests: 8,000 for 126,000.
    #[arg(long)]
    pub units: Option<u64>,
    /// The same seed gives the same requests.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Buckets that the stock is split over.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub buckets: u16,
    /// Orders that one bucket admits in a second.
    #[arg(long, default_value_t = 80, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub bucket_rate: u32,
    /// How an order reaches the database.
    #[arg(long, value_enum, default_value_t = Strategy::Prededuct)]
    pub strategy: Strategy,
    /// Requests under way at once.
    #[arg(long, default_value_t = 96, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    pub connections: u16,
    /// Directory of the HTML report.
    #[arg(long, default_value = "report")]
    pub report: PathBuf,
    #[command(flatten)]
    pub common: Common,
}

#[derive(Debug, Args)]
pub struct Faults {
    /// Only cases whose name contains this, or one group.
    #[arg(default_value = "")]
    pub filter: String,
    /// The same seed gives the same buyers and the same choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Directory of faults.json.
    #[arg(long, default_value = "report")]
    pub report: PathBuf,
    /// Writes the results into the table of this document.
    #[arg(long)]
    pub document: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Soak {
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    pub minutes: u64,
    /// The same seed gives the same faults in the same order.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Plays one round only, that of this seed, as a round that failed prints it.
    #[arg(long)]
    pub round: Option<u64>,
}

#[derive(Debug, Args)]
pub struct Fuzz {
    /// The program of schemathesis.
    #[arg(long)]
    pub schemathesis: PathBuf,
    /// The same seed gives the same calls.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Most random calls of one operation, beside those that follow from the contract's bounds.
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub examples: u32,
    /// Only this operation, by its `operationId`.
    #[arg(long)]
    pub only: Option<String>,
}

#[derive(Debug, Args)]
pub struct Invoke {
    #[arg(long, value_enum)]
    pub how: How,
    /// The virtual environment of SAM.
    #[arg(long)]
    pub tools: PathBuf,
    /// Where `sam build` put the functions.
    #[arg(long, default_value = ".aws-sam/build")]
    pub built: PathBuf,
    /// One function, as the template names it, with one event; its answer is shown.
    #[arg(long, requires = "event")]
    pub function: Option<String>,
    /// The file of the event.
    #[arg(long, requires = "function")]
    pub event: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Strategy {
    /// One Redis script, then one transaction.
    Prededuct,
    /// The transaction alone.
    Cas,
}

impl Strategy {
    /// As the HTTP contract spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prededuct => "prededuct",
            Self::Cas => "cas",
        }
    }
}

impl Common {
    #[must_use]
    pub fn stack(&self, port: u16, fulfil: bool) -> crate::stack::StackOptions {
        crate::stack::StackOptions {
            port,
            latency: Duration::from_millis(self.latency_ms),
            redis_url: self.redis_url.clone(),
            redis_deadline_ms: self.redis_deadline_ms,
            reconcile_every: Duration::from_secs(self.reconcile_every_s),
            fulfil,
        }
    }
}
