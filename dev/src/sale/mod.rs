//! A flash sale against the running stack, over HTTP, and what it proves.

pub mod afterwards;
pub mod book;
pub mod buyer;
pub mod client;
pub mod garbage;
pub mod last_units;
pub mod measure;
pub mod one_home;
pub mod opening;
pub mod plan;
pub mod progress;
pub mod settle;
pub mod shape;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdfast::domain::order::Status;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;
use tokio::time::Instant;

use self::book::Book;
use self::buyer::Crowd;
use self::client::Client;
use self::measure::Measures;
use self::opening::Opening;
use self::plan::{Plan, SLOT};
use self::progress::Progress;
use self::shape::Shape;
use crate::checks::{self, Check};
use crate::report::{OneHome, Report, Settings};
use crate::stack::{Stack, StartError};
use crate::stores::snapshot::Snapshot;

/// The activities of a run, before the suffix of its settings: the sale and the small one.
pub const ACTIVITIES: [&str; 2] = ["sale", "one-home"];
/// Threads of the clients. One: the rest of the machine is for what they measure.
const CLIENT_THREADS: usize = 1;
/// How long before the start the first buyers come.
const EARLY: Duration = Duration::from_millis(300);

/// Runs the sale of the settings, then the small one, and checks both.
///
/// # Errors
/// When the stack does not answer. What the sale proves or disproves is in the report.
pub async fn run(stack: &Stack, settings: Settings, shape: Shape) -> Result<Report, StartError> {
    let clients = Clients::start()?;
    let plan = Plan::new(&shape, settings.seed);
    let crowd = Arc::new(new_crowd(stack, &settings.activity(ACTIVITIES[0]), settings.connections)?);
    let opening = Opening::sale(&settings, &shape);
    let opens = clients.run(Arc::clone(&crowd).open(opening)).await??;
    let progress = Progress::start(shape.requests, Arc::clone(&crowd));
    let began = Instant::now();
    clients.run(play(Arc::clone(&crowd), plan, opens)).await?;
    clients.run(last_units::sell(Arc::clone(&crowd), stack.stores.clone())).await??;
    let wiring = stack.backend.another_process();
    let afterwards = clients.run(afterwards::play(Arc::clone(&crowd), wiring, settings.seed)).await??;
    clients.run(last_units::sell(Arc::clone(&crowd), stack.stores.clone())).await??;
    let afterwards = clients.run(afterwards::play_on(Arc::clone(&crowd), afterwards)).await?;
    let measured = crowd.measures.finish();
    let database_calls = stack.database_calls();
    progress.finish().await;

    let one_home = Arc::new(new_crowd(stack, &settings.activity(ACTIVITIES[1]), settings.connections)?);
    clients.run(one_home::play(Arc::clone(&one_home), Opening::one_home(&settings))).await??;

    let settled = settle::settle(stack, &[&crowd.activity, &one_home.activity]).await?;
    let snapshot = read(stack, &crowd.activity).await?;
    let submissions = crowd.book.submissions();
    let wanted: BTreeSet<String> =
        plan::SKUS.iter().filter(|sku| !crowd.book.without(sku).is_empty()).map(|sku| (*sku).to_owned()).collect();
    let figures = checks::figures(&snapshot, &submissions, &wanted);
    let mut checks = checks::invariants(&snapshot, &submissions);
    checks.push(asked(&snapshot, &wanted));
    checks.push(answers(&crowd));
    checks.push(events(stack, &snapshot).await?);
    checks.push(afterwards.check(&stack.fulfilment.arrived().events, &snapshot));

    let small = read(stack, &one_home.activity).await?;
    let small_submissions = one_home.book.submissions();
    let mut small_checks = checks::invariants(&small, &small_submissions);
    small_checks.push(one_home::sold_out(&small));
    small_checks.push(answers(&one_home));
    Ok(Report {
        settings,
        shape,
        measured,
        took_s: began.elapsed().as_secs_f64(),
        stock: crate::report::stock_rows(&snapshot),
        checks,
        figures,
        one_home: OneHome {
            bucket: one_home::HOME,
            sold: small.live_units().values().sum(),
            offered: one_home::UNITS,
            buyers: one_home::BUYERS,
            checks: small_checks,
        },
        settled,
        afterwards,
        database_calls,
    })
}

/// A runtime of their own, so that a client is not slowed down by what it measures more than the
/// machine makes unavoidable.
struct Clients(Option<Runtime>);

impl Clients {
    fn start() -> std::io::Result<Self> {
        let builder = &mut Builder::new_multi_thread();
        Ok(Self(Some(builder.worker_threads(CLIENT_THREADS).thread_name("clients").enable_all().build()?)))
    }

    /// Runs it there and waits for it here.
    async fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> Result<T, StartError> {
        let runtime = self.0.as_ref().ok_or("the clients have ended")?;
        Ok(runtime.spawn(work).await?)
    }
}

impl Drop for Clients {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            // A plain drop would block, which tokio forbids inside another runtime.
            runtime.shutdown_background();
        }
    }
}

fn new_crowd(stack: &Stack, activity: &str, connections: usize) -> Result<Crowd, StartError> {
    Ok(Crowd {
        client: Client::new(stack.address(), connections),
        measures: Measures::start()?,
        book: Book::new(stack.keys()),
        authorizer: Arc::clone(&stack.authorizer),
        activity: activity.to_owned(),
        last_token: Mutex::default(),
    })
}

async fn read(stack: &Stack, activity: &str) -> Result<Snapshot, StartError> {
    stack.stores.snapshot(activity).await?.ok_or_else(|| format!("{activity} is gone").into())
}

/// Begins each visit when its slot comes, or as soon after that as a connection is free.
async fn play(crowd: Arc<Crowd>, plan: Plan, opens: Instant) {
    let mut visits = JoinSet::new();
    for (slot, visit) in plan.visits {
        tokio::time::sleep_until(opens - EARLY + SLOT * slot).await;
        crowd.client.ready().await;
        let crowd = Arc::clone(&crowd);
        visits.spawn(async move { crowd.visit(visit).await });
        while let Some(ended) = visits.try_join_next() {
            report_panic(ended);
        }
    }
    while let Some(ended) = visits.join_next().await {
        report_panic(ended);
    }
}

fn report_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "a client broke off");
    }
}

/// No unit is left while somebody who wanted it was refused.
fn asked(snapshot: &Snapshot, wanted: &BTreeSet<String>) -> Check {
    let left = snapshot.stock.iter().filter(|((sku, _), item)| item.available > 0 && wanted.contains(sku));
    let violations =
        left.map(|((sku, bucket), item)| format!("{} {sku} left in bucket {bucket}", item.available)).collect();
    let available: i64 = snapshot.stock.values().map(|item| item.available).sum();
    let numbers = format!("{available} units left in all; buyers without one remain for {} SKUs", wanted.len());
    Check::new("asked", "no unit is left unsold while buyers ask", numbers, violations)
}

/// Every answer was one that the contract has for its request.
fn answers(crowd: &Crowd) -> Check {
    let numbers = format!("{} requests answered", crowd.measures.requests());
    Check::new("answers", "every answer is what the contract says", numbers, crowd.book.surprises())
}

/// Every committed order was told to fulfilment, and nothing lies in a dead-letter queue.
async fn events(stack: &Stack, snapshot: &Snapshot) -> Result<Check, StartError> {
    let arrived = stack.fulfilment.arrived();
    let placed = snapshot.committed().flat_map(|(order_no, order)| {
        let first = format!("{order_no}#{}#1", Status::PendingPayment.as_str());
        [first, format!("{order_no}#{}#{}", order.status.as_str(), order.take)]
    });
    let mut violations: Vec<String> =
        placed.filter(|event| !arrived.events.contains(event)).map(|event| format!("no event {event}")).collect();
    let [roll_back, relay] = stack.dead_letters().await?;
    if roll_back + relay + arrived.unreadable > 0 {
        violations.push(format!(
            "dead letters: roll-back {roll_back}, relay {relay}; unreadable events {}",
            arrived.unreadable
        ));
    }
    let numbers = format!("{} events, {} of them delivered again", arrived.events.len(), arrived.repeated);
    Ok(Check::new("events", "every order and what became of it is told to fulfilment", numbers, violations))
}
