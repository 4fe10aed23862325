//! What can become of a request, each brought about so many times on a stack that does nothing else.

use std::time::Duration;

use holdfast::adapters::{dynamodb::Database, redis::Gate, sqs::Queues};
use holdfast::app::expire_orders::ExpireOrders;
use holdfast::lambda::Wiring;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::meter::Meter;
use super::tally::Tally;
use crate::bench::shop::{SKU, Shop};
use crate::faults::skew::Ahead;
use crate::sale::client::{Call, Client, Reply};
use crate::stack::{Stack, StartError};

/// Longest time that one run of the expiry may take.
const EXPIRY: Duration = Duration::from_secs(50);
const MINUTE_MS: i64 = 60_000;
/// Enough for every bucket.
const STOCK: u64 = 1_000_000;
const PRICE: u64 = 100;

/// What can become of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Token,
    Placed,
    /// Two lines instead of one.
    PlacedTwoLines,
    Replayed,
    Paid,
    Cancelled,
    Expired,
    /// A paid order, by an operator.
    Refunded,
    /// The buyer has what one buyer may have.
    LimitReached,
    SoldOut,
    OrderRead,
    ActivityRead,
}

impl Outcome {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Token => "token",
            Self::Placed => "placed",
            Self::PlacedTwoLines => "placed, two lines",
            Self::Replayed => "replayed",
            Self::Paid => "paid",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Refunded => "refunded",
            Self::LimitReached => "refused: limit",
            Self::SoldOut => "refused: sold out",
            Self::OrderRead => "order read",
            Self::ActivityRead => "activity read",
        }
    }
}

/// What one of each uses.
pub type Outcomes = Vec<(Outcome, Tally)>;

struct Scene<'a> {
    stack: &'a Stack,
    meter: &'a Meter<'a>,
    client: Client,
    times: u32,
    /// What was used until now; `None` after calls that are not counted.
    last: Option<Tally>,
    found: Outcomes,
}

/// Brings each about so many times, in an activity of so many buckets.
///
/// # Errors
/// An answer that does not belong here.
pub async fn measure(stack: &Stack, meter: &Meter<'_>, times: u32, buckets: u16) -> Result<Outcomes, StartError> {
    let client = Client::new(stack.address(), 1);
    let mut scene = Scene { stack, meter, client, times, last: None, found: Vec::new() };
    let fields = json!({ "buckets": buckets, "skus": [{ "sku": SKU, "stock": STOCK, "price": PRICE }] });
    let shop = Shop::open(stack, &format!("cost-{buckets}"), STOCK, &fields).await?;
    let two = json!([{ "sku": SKU, "quantity": 1 }, { "sku": "case", "quantity": 1 }]);
    let fields = json!({ "buckets": buckets, "limit": { "scope": "activity", "max": 2 }, "skus": [
        { "sku": SKU, "stock": STOCK, "price": PRICE }, { "sku": "case", "stock": STOCK, "price": PRICE }
    ] });
    let pairs = Shop::open(stack, &format!("cost-pairs-{buckets}"), STOCK, &fields).await?;
    // Once before anything is counted: caches are filled, connections open, scripts loaded.
    scene.expect(201, &shop.post(0, "/tokens", &json!({}))).await?;
    scene.expect(201, &shop.order(0, SKU)?).await?;
    scene.expect(201, &pairs.order_of(0, &two)?).await?;

    let buyers = |group: u32| (1..=times).map(move |buyer| group * 1_000 + buyer);
    let tokens: Vec<Call> = buyers(1).map(|buyer| shop.post(buyer, "/tokens", &json!({}))).collect();
    scene.calls(Outcome::Token, 201, &tokens).await?;

    let orders: Vec<Call> = buyers(2).map(|buyer| shop.order(buyer, SKU)).collect::<Result<_, _>>()?;
    let placed = scene.calls(Outcome::Placed, 201, &orders).await?;
    scene.calls(Outcome::Replayed, 200, &orders).await?;
    let again: Vec<Call> = buyers(2).map(|buyer| shop.order(buyer, SKU)).collect::<Result<_, _>>()?;
    scene.calls(Outcome::LimitReached, 409, &again).await?;
    let reads: Vec<Call> = buyers(2).zip(&placed).map(|(buyer, order)| shop.see_order(buyer, &number(order))).collect();
    scene.calls(Outcome::OrderRead, 200, &reads).await?;
    let pages: Vec<Call> = buyers(2).map(|_| shop.see_activity()).collect();
    scene.calls(Outcome::ActivityRead, 200, &pages).await?;
    let payments: Vec<Call> = placed.iter().map(|order| shop.pay(&number(order), PRICE)).collect();
    scene.calls(Outcome::Paid, 200, &payments).await?;
    let refund = |order: &Reply| {
        shop.operate(&format!("/orders/{}/refund", number(order)), &json!({ "reason": "sent back", "amount": PRICE }))
    };
    scene.calls(Outcome::Refunded, 200, &placed.iter().map(refund).collect::<Vec<_>>()).await?;

    let carts: Vec<Call> = buyers(3).map(|buyer| pairs.order_of(buyer, &two)).collect::<Result<_, _>>()?;
    scene.calls(Outcome::PlacedTwoLines, 201, &carts).await?;

    let orders: Vec<Call> = buyers(4).map(|buyer| shop.order(buyer, SKU)).collect::<Result<_, _>>()?;
    let placed = scene.answers(201, &orders).await?.0;
    scene.last = None;
    let cancel =
        |(buyer, order): (u32, &Reply)| shop.post(buyer, &format!("/orders/{}/cancel", number(order)), &json!({}));
    let cancels: Vec<Call> = buyers(4).zip(&placed).map(cancel).collect();
    scene.calls(Outcome::Cancelled, 200, &cancels).await?;

    scene.expired(buckets).await?;
    scene.sold_out(buckets).await?;
    scene.found.sort_by_key(|(outcome, _)| *outcome);
    Ok(scene.found)
}

fn number(order: &Reply) -> String {
    order.body["order_no"].as_str().unwrap_or_default().to_owned()
}

impl Scene<'_> {
    async fn expect(&self, status: u16, call: &Call) -> Result<Reply, StartError> {
        let reply = self.client.call(call).await.map_err(|_| "no reply")?;
        if reply.status == status { Ok(reply) } else { Err(unexpected(call, &reply.body, reply.status)) }
    }

    async fn answers(&self, status: u16, calls: &[Call]) -> Result<(Vec<Reply>, Duration), StartError> {
        let began = Instant::now();
        let mut replies = Vec::new();
        for call in calls {
            replies.push(self.expect(status, call).await?);
        }
        Ok((replies, began.elapsed()))
    }

    async fn used(&mut self) -> Result<Tally, StartError> {
        match self.last.take() {
            Some(last) => Ok(last),
            None => self.meter.total().await,
        }
    }

    async fn calls(&mut self, outcome: Outcome, status: u16, calls: &[Call]) -> Result<Vec<Reply>, StartError> {
        let before = self.used().await?;
        let (replies, took) = self.answers(status, calls).await?;
        let after = self.meter.total().await?;
        self.last = Some(after);
        self.found.push((outcome, (after - before).with_http(u64::from(self.times), took).of_one(self.times)));
        Ok(replies)
    }

    /// One run of the expiry, when all of these are due and no other one is.
    async fn expired(&mut self, buckets: u16) -> Result<(), StartError> {
        let fields = json!({ "buckets": buckets, "payment_minutes": 1 });
        let shop = Shop::open(self.stack, &format!("cost-expired-{buckets}"), 1_000, &fields).await?;
        let orders: Vec<Call> = (1..=self.times).map(|buyer| shop.order(buyer, SKU)).collect::<Result<_, _>>()?;
        self.answers(201, &orders).await?;
        self.last = None;
        let Wiring { gate, database, queues, .. } = self.stack.backend.wiring.clone();
        let expiry: ExpireOrders<Database, Gate, Queues, Ahead> =
            ExpireOrders { store: database, gate, messages: queues, clock: Ahead(2 * MINUTE_MS) };
        let before = self.used().await?;
        let report = expiry.run(Instant::now() + EXPIRY).await?;
        if report.expired != u64::from(self.times) {
            return Err(format!("{} orders expired instead of {}", report.expired, self.times).into());
        }
        let used = self.meter.total().await? - before;
        self.found.push((Outcome::Expired, used.of_one(self.times)));
        Ok(())
    }

    async fn sold_out(&mut self, buckets: u16) -> Result<(), StartError> {
        let name = format!("cost-sold-out-{buckets}");
        let shop = Shop::open(self.stack, &name, 1, &json!({ "buckets": buckets })).await?;
        self.expect(201, &shop.order(0, SKU)?).await?;
        // The first one looks around, and remembers.
        self.expect(409, &shop.order(1, SKU)?).await?;
        self.last = None;
        let orders: Vec<Call> = (2..2 + self.times).map(|buyer| shop.order(buyer, SKU)).collect::<Result<_, _>>()?;
        self.calls(Outcome::SoldOut, 409, &orders).await?;
        Ok(())
    }
}

fn unexpected(call: &Call, body: &Value, status: u16) -> StartError {
    format!("{} {} was answered {status} {body}", call.method, call.path).into()
}
