//! A flash sale against the running stack, over HTTP, and what it proves.

pub mod afterwards;
pub mod book;
pub mod buyer;
pub mod client;
pub mod garbage;
pub mod last_units;
pub mod measure;
pub mod midnight;
pub mod one_home;
pub mod opening;
pub mod plan;
pub mod progress;
pub mod settle;
pub mod shape;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
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
use crate::report::{Report, Settings, SmallSale};
use crate::stack::{Stack, StartError};
use crate::stores::snapshot::Snapshot;

/// The activities of a run, before the suffix of its settings: the sale and the small ones.
pub const ACTIVITIES: [&str; 3] = ["sale", "one-home", "midnight"];
/// Threads of the clients. One: the rest of the machine is for what they measure.
const CLIENT_THREADS: usize = 1;
/// How long before the start the first buyers come.
const EARLY: Duration = Duration::from_millis(300);

/// Runs the sale of the settings, then the small ones, and checks them all.
///
/// # Errors
/// When the stack does not answer. What the sale proves or disproves is in the report.
pub async fn run(stack: &Stack, settings: Settings, shape: Shape) -> Result<Report, StartError> {
    let clients = Clients::start()?;
    let plan = Plan::new(&shape, settings.seed);
    let crowd = Arc::new(new_crowd(stack, stack.address(), &settings, ACTIVITIES[0])?);
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

    let small = small_sales(stack, &clients, &settings).await?;
    let activities: Vec<&str> =
        small.iter().map(|small| &small.crowd).chain([&crowd]).map(|it| &*it.activity).collect();
    let settled = settle::settle(stack, &activities).await?;
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

    let mut small_sales = Vec::new();
    for sale in small {
        small_sales.push(sale.check(stack).await?);
    }
    Ok(Report {
        settings,
        shape,
        measured,
        took_s: began.elapsed().as_secs_f64(),
        stock: crate::report::stock_rows(&snapshot),
        checks,
        figures,
        small: small_sales,
        settled,
        afterwards,
        database_calls,
    })
}

/// A small sale that was played.
struct Small {
    title: String,
    crowd: Arc<Crowd>,
    /// What it shows beside the invariants.
    shows: fn(&Snapshot) -> Check,
}

impl Small {
    async fn check(self, stack: &Stack) -> Result<SmallSale, StartError> {
        let snapshot = read(stack, &self.crowd.activity).await?;
        let mut checks = checks::invariants(&snapshot, &self.crowd.book.submissions());
        checks.push((self.shows)(&snapshot));
        checks.push(answers(&self.crowd));
        Ok(SmallSale { title: self.title, checks })
    }
}

async fn small_sales(stack: &Stack, clients: &Clients, settings: &Settings) -> Result<Vec<Small>, StartError> {
    let one_home = Arc::new(new_crowd(stack, stack.address(), settings, ACTIVITIES[1])?);
    clients.run(one_home::play(Arc::clone(&one_home), Opening::one_home(settings))).await??;
    let (ahead_ms, at) = midnight::ahead()?;
    let gateway = stack.process_ahead(ahead_ms).await?;
    let midnight = Arc::new(new_crowd(stack, gateway.address(), settings, ACTIVITIES[2])?);
    clients.run(midnight::play(Arc::clone(&midnight), Opening::midnight(settings, ahead_ms), at)).await??;
    gateway.stop().await;
    Ok(vec![
        Small {
            title: format!(
                "{} units in {} buckets, {} buyers who all have bucket {} as their home",
                one_home::UNITS,
                one_home::BUCKETS,
                one_home::BUYERS,
                one_home::HOME
            ),
            crowd: one_home,
            shows: one_home::sold_out,
        },
        Small {
            title: format!(
                "midnight in {}, {} buyers who may have {} units a day",
                midnight::ZONE,
                midnight::BUYERS,
                midnight::PER_DAY
            ),
            crowd: midnight,
            shows: midnight::two_days,
        },
    ])
}

/// A runtime of their own, so that a client is not slowed down by what it measures more than the
/// machine makes unavoidable.
pub struct Clients(Option<Runtime>);

impl Clients {
    /// # Errors
    /// When there are no threads to be had.
    pub fn start() -> std::io::Result<Self> {
        let builder = &mut Builder::new_multi_thread();
        Ok(Self(Some(builder.worker_threads(CLIENT_THREADS).thread_name("clients").enable_all().build()?)))
    }

    /// Runs it there and waits for it here.
    ///
    /// # Errors
    /// When it breaks off.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, StartError> {
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

fn new_crowd(stack: &Stack, address: SocketAddr, settings: &Settings, activity: &str) -> Result<Crowd, StartError> {
    Ok(Crowd {
        client: Client::new(address, settings.connections),
        measures: Measures::start()?,
        book: Book::new(stack.keys()),
        authorizer: Arc::clone(&stack.authorizer),
        activity: settings.activity(activity),
        coupons: OnceLock::new(),
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
