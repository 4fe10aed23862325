//! The second wave: buyers who look at the sale and at their orders must not slow down those who order.
//!
//! Orders come at a fixed rate, far below what the machine takes, with and without queries beside them: so what is
//! compared is how queries get in an order's way, and not where the machine is full.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::load::{Due, Offered, offer};
use super::ratio::{Aim, Row, median, percentile};
use super::shop::{SKU, Shop};
use super::{Options, Section};
use crate::sale::Clients;
use crate::sale::client::{Call, Client};
use crate::stack::{Stack, StartError};

/// Queries per order, in tenths.
const QUERIES_PER_TEN_ORDERS: u32 = 23;
/// The SKU of which nothing is there.
const SOLD_OUT: &str = "case";
/// More than can be sold here.
const STOCK: u64 = 10_000_000;
/// As many as there may be: so few orders meet in one that waiting for another's transaction is no part of the
/// 99th percentile, and what is left to see is the queries.
const BUCKETS: u16 = 64;
/// With and without queries take turns of this length, so that what else the machine does falls on both.
const TURN: Duration = Duration::from_millis(2_500);
/// Requests under way at once: more than there ever are.
const CONNECTIONS: usize = 256;
/// Orders in a hundred that may be answered in another way than planned.
const OTHERS_MAX_PERCENT: usize = 2;
const AIM: Aim = Aim::AtMost(1.2);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tag {
    Order(u32),
    Query,
}

/// Milliseconds of the orders of one turn, or of all turns of a round.
#[derive(Default)]
struct Phase {
    accepted: Vec<f64>,
    refused: Vec<f64>,
    late: Duration,
}

impl Phase {
    fn add(&mut self, turn: Self) {
        self.accepted.extend(turn.accepted);
        self.refused.extend(turn.refused);
        self.late = self.late.max(turn.late);
    }
}

/// The rate and length of a turn.
#[derive(Clone, Copy)]
struct Pace {
    orders_per_s: u32,
    time: Duration,
}

impl Pace {
    fn orders(self) -> u32 {
        u32::try_from(u128::from(self.orders_per_s) * self.time.as_millis() / 1_000).unwrap_or(u32::MAX)
    }

    fn queries(self) -> u32 {
        self.orders() * QUERIES_PER_TEN_ORDERS / 10
    }
}

/// Buyers of this sale.
struct Buyers {
    shop: Arc<Shop>,
    client: Client,
    next: u32,
    /// Who has an order, and its number.
    known: Vec<(u32, String)>,
}

pub async fn measure(stack: &Stack, clients: &Clients, options: &Options) -> Result<Section, StartError> {
    let skus = json!([
        { "sku": SKU, "stock": STOCK, "price": 49_900 }, { "sku": SOLD_OUT, "stock": 0, "price": 1_900 }
    ]);
    let shop = Shop::open(stack, "second-wave", STOCK, &json!({ "buckets": BUCKETS, "skus": skus })).await?;
    let client = Client::new(stack.address(), CONNECTIONS);
    let mut buyers = Buyers { shop, client, next: 0, known: Vec::new() };
    let pace = Pace { orders_per_s: options.order_rate, time: options.phase.min(TURN) };
    // Connections, caches and known orders, and again with queries; neither is looked at.
    for queries in [false, true] {
        buyers.turn(clients, pace, queries).await?;
    }
    let turns = options.phase.as_millis().div_ceil(pace.time.as_millis().max(1));
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..options.rounds {
        let mut round = [Phase::default(), Phase::default()];
        for turn in 0..turns {
            // Who is first changes too.
            for queries in [turn % 2 == 1, turn % 2 == 0] {
                round[usize::from(queries)].add(buyers.turn(clients, pace, queries).await?);
            }
        }
        let [without, with] = round;
        alone.push(without);
        beside.push(with);
    }
    section(pace, options, &alone, &beside)
}

impl Buyers {
    async fn turn(&mut self, clients: &Clients, pace: Pace, queries: bool) -> Result<Phase, StartError> {
        let mut dues = self.orders(pace)?;
        if queries {
            dues.extend(self.queries(pace));
        }
        let offered = clients.run(offer(self.client.clone(), dues)).await?;
        self.sort(offered)
    }

    /// Every second one is for what is sold out.
    fn orders(&mut self, pace: Pace) -> Result<Vec<Due<Tag>>, StartError> {
        let due = |number: u32| {
            let (buyer, sku) = (self.next + number, if number.is_multiple_of(2) { SKU } else { SOLD_OUT });
            let call = self.shop.order(buyer, sku)?;
            Ok(Due { after: evenly(pace, number, pace.orders()), tag: Tag::Order(buyer), call })
        };
        let dues = (0..pace.orders()).map(due).collect::<Result<Vec<_>, StartError>>()?;
        self.next += pace.orders();
        Ok(dues)
    }

    /// The activity's page, an own order and the own orders, in turn.
    fn queries(&self, pace: Pace) -> Vec<Due<Tag>> {
        let call = |number: u32| -> Call {
            match (number % 3, fastrand::choice(&self.known)) {
                (1, Some((buyer, order_no))) => self.shop.see_order(*buyer, order_no),
                (2, Some((buyer, _))) => self.shop.see_orders(*buyer),
                _ => self.shop.see_activity(),
            }
        };
        let due = |number| Due { after: evenly(pace, number, pace.queries()), tag: Tag::Query, call: call(number) };
        (0..pace.queries()).map(due).collect()
    }

    /// Latencies by outcome; remembers what was accepted.
    fn sort(&mut self, offered: Offered<Tag>) -> Result<Phase, StartError> {
        let mut phase = Phase { late: offered.late, ..Phase::default() };
        let (mut orders, mut others) = (0, Vec::new());
        for (tag, reply) in offered.answers {
            let Ok(reply) = reply else { return Err("a request was not answered".into()) };
            let ms = reply.latency.as_secs_f64() * 1_000.0;
            match (tag, reply.status, reply.code()) {
                (Tag::Query, 200, _) => continue,
                (Tag::Query, status, _) => return Err(format!("a query was answered {status} {}", reply.body).into()),
                (Tag::Order(buyer), 201, _) => {
                    phase.accepted.push(ms);
                    self.known.push((buyer, reply.body["order_no"].as_str().unwrap_or_default().to_owned()));
                }
                (Tag::Order(_), 409, "sold_out") => phase.refused.push(ms),
                (Tag::Order(_), status, code) => others.push(format!("{status} {code}")),
            }
            orders += 1;
        }
        if others.len() * 100 > orders * OTHERS_MAX_PERCENT {
            return Err(format!("{} of {orders} orders were answered in another way: {others:?}", others.len()).into());
        }
        Ok(phase)
    }
}

/// When one of so many is due.
fn evenly(pace: Pace, number: u32, of: u32) -> Duration {
    pace.time.mul_f64(f64::from(number) / f64::from(of.max(1)))
}

type Latencies = fn(&Phase) -> &[f64];

fn section(pace: Pace, options: &Options, alone: &[Phase], beside: &[Phase]) -> Result<Section, StartError> {
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let kinds: [(&str, Latencies); 2] = [("accepted", |phase| &phase.accepted), ("refused", |phase| &phase.refused)];
    for (kind, latencies) in kinds {
        let p99 = |phases: &[Phase]| -> Vec<f64> {
            phases.iter().filter_map(|phase| percentile(latencies(phase), 99.0)).collect()
        };
        let (before, after) = (p99(alone), p99(beside));
        let ratios = after.iter().zip(&before).map(|(after, before)| after / before).collect();
        rows.push(Row::new(&format!("P99 of {kind} orders beside 2.3x as many queries / alone"), ratios, AIM)?);
        let all = |phases: &[Phase], percent| {
            let all: Vec<f64> = phases.iter().flat_map(|phase| latencies(phase).iter().copied()).collect();
            percentile(&all, percent).unwrap_or(f64::NAN)
        };
        notes.push(format!(
            "{kind}: medians of P99 {:.1} ms alone, {:.1} ms beside queries; P50 of all {:.1} and {:.1} ms, P99 of all \
             {:.1} and {:.1} ms",
            median(&before).unwrap_or(f64::NAN),
            median(&after).unwrap_or(f64::NAN),
            all(alone, 50.0),
            all(beside, 50.0),
            all(alone, 99.0),
            all(beside, 99.0),
        ));
    }
    let late = alone.iter().chain(beside).map(|phase| phase.late).max().unwrap_or_default();
    notes.push(format!(
        "offered: {} orders a second, half of them for a SKU that is sold out, and {} queries a second (activity, own \
         order, own orders), {:?} of each in a round, in turns of {:?}; the latest request was sent {} ms late; \
         {BUCKETS} buckets, {} ms added to each database call",
        pace.orders_per_s,
        pace.orders_per_s * QUERIES_PER_TEN_ORDERS / 10,
        options.phase,
        pace.time,
        late.as_millis(),
        options.latency.as_millis(),
    ));
    Ok(Section { rows, notes })
}
