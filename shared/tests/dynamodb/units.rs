//! What an order costs in write units, as the server counts them and by the service's own rule.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex},
};

use aws_sdk_dynamodb::{
    Client,
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeSerializationInterceptorContextMut, FinalizerInterceptorContextRef},
    },
    error::BoxError,
    operation::{
        put_item::{PutItemInput, PutItemOutput},
        transact_write_items::{TransactWriteItemsInput, TransactWriteItemsOutput},
        update_item::{UpdateItemInput, UpdateItemOutput},
    },
    types::{AttributeValue, ConsumedCapacity, ReturnConsumedCapacity},
};
use holdfast::{
    adapters::dynamodb::Database,
    domain::{
        order::{EndedBy, Event, Order},
        payment::RefundReason,
        stock::{ChangeMark, Operation, StockItem},
    },
    ports::{AuditRow, AuditStore, Changed, Claim, Commit, Ending, OrderLife, OrderStore, Revival},
    telemetry::{self, Trace},
};

use crate::{
    life::{LIMIT, after, ending, payment, read, refund_due},
    world::{World, activity_id, database, now, order, sku, stock},
};

/// Asks the server what each write costs, and adds it up.
#[derive(Clone, Debug, Default)]
struct Meter(Arc<Mutex<f64>>);

impl Meter {
    fn take(&self) -> f64 {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn add(&self, consumed: &ConsumedCapacity) {
        *self.0.lock().unwrap() += consumed.capacity_units().unwrap();
    }
}

impl Intercept for Meter {
    fn name(&self) -> &'static str {
        "Meter"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let asked = Some(ReturnConsumedCapacity::Indexes);
        if let Some(input) = context.input_mut().downcast_mut::<TransactWriteItemsInput>() {
            input.return_consumed_capacity = asked;
        } else if let Some(input) = context.input_mut().downcast_mut::<PutItemInput>() {
            input.return_consumed_capacity = asked;
        } else if let Some(input) = context.input_mut().downcast_mut::<UpdateItemInput>() {
            input.return_consumed_capacity = asked;
        }
        Ok(())
    }

    fn read_after_execution(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Ok(output)) = context.output_or_error() else { return Ok(()) };
        if let Some(output) = output.downcast_ref::<TransactWriteItemsOutput>() {
            for consumed in output.consumed_capacity() {
                self.add(consumed);
            }
        } else if let Some(output) = output.downcast_ref::<PutItemOutput>() {
            output.consumed_capacity().into_iter().for_each(|consumed| self.add(consumed));
        } else if let Some(output) = output.downcast_ref::<UpdateItemOutput>() {
            output.consumed_capacity().into_iter().for_each(|consumed| self.add(consumed));
        }
        Ok(())
    }
}

/// Bytes of an item as the service counts them: names and values; 3 for a list or map and 1 for each
/// of its entries; for a number one per two digits and one more.
fn size(item: &HashMap<String, AttributeValue>) -> usize {
    item.iter().map(|(name, value)| name.len() + value_size(value)).sum()
}

fn value_size(value: &AttributeValue) -> usize {
    match value {
        AttributeValue::S(text) => text.len(),
        AttributeValue::N(digits) => digits.len().div_ceil(2) + 1,
        AttributeValue::Bool(_) => 1,
        AttributeValue::L(values) => 3 + values.iter().map(|value| 1 + value_size(value)).sum::<usize>(),
        AttributeValue::M(fields) => 3 + fields.len() + size(fields),
        other => panic!("{other:?} is not written"),
    }
}

/// A table whose writes are metered, with an audit row for each change of stock, as the relay writes them.
struct Metered {
    world: World,
    meter: Meter,
    database: Database,
    /// Stock as its last audit row has it, by key.
    audited: BTreeMap<String, StockItem>,
}

impl Metered {
    async fn start() -> Self {
        let world = World::start().await;
        let meter = Meter::default();
        let config = aws_sdk_dynamodb::config::Builder::from(&world.config).interceptor(meter.clone()).build();
        let database = database(Client::from_conf(config));
        Self { world, meter, database, audited: BTreeMap::new() }
    }

    /// Puts many units of each of these on sale, at no cost here.
    async fn open(&mut self, items: &[(&str, u16)]) {
        for (name, bucket) in items {
            self.world.open(name, *bucket, 100_000).await;
        }
        self.audit(Operation::Manual, "").await;
        self.meter.take();
    }

    /// Write units since the last time, with an audit row for each stock item that has changed since.
    async fn cost(&mut self, operation: Operation, order: &Order) -> f64 {
        self.audit(operation, order.placement.order_no.as_str()).await;
        for item in self.world.all().await {
            assert!(size(&item) <= 1_024, "{:?} has {} bytes", item["pk"], size(&item));
            let committed = item.contains_key("due") && item["pk"].as_s().unwrap().starts_with("O#");
            assert!(!committed || item["trace"].as_s().unwrap() == TRACE, "{item:?}");
        }
        self.meter.take()
    }

    async fn audit(&mut self, operation: Operation, reference: &str) {
        for item in self.world.all().await {
            let key = item["pk"].as_s().unwrap();
            let ["S", _, name, index] = key.split('#').collect::<Vec<_>>()[..] else { continue };
            let number = |name: &str| item[name].as_n().unwrap().parse().unwrap();
            let (allotted, available, version) = (number("allotted"), number("available"), number("version"));
            let after = StockItem { available, version, ..stock(name, index.parse().unwrap(), allotted) };
            let before = self.audited.insert(key.clone(), after.clone());
            if before.as_ref() == Some(&after) {
                continue;
            }
            let mark = ChangeMark { operation, operator: "place-order".to_owned(), reference: reference.to_owned() };
            let row = AuditRow {
                activity: activity_id(),
                sku: sku(name),
                bucket: after.bucket,
                version,
                before,
                after: Some(after),
                operation: Some(operation),
                operator: mark.operator.clone(),
                reference: reference.to_owned(),
                at: now(),
                event_id: "c4ca4238a0b923820dcc509a6f75849b".to_owned(),
                before_mark: Some(mark),
                filled: false,
            };
            self.database.record(&row).await.unwrap();
        }
    }

    async fn place(&mut self, order: &Order) -> f64 {
        assert_eq!(in_a_request(self.database.commit(order, LIMIT)).await.unwrap(), Commit::Committed);
        self.cost(Operation::Order, order).await
    }

    async fn pay(&mut self, order: &Order, event: &str) -> f64 {
        assert_eq!(in_a_request(self.database.pay(order, &payment(order, event), now())).await.unwrap(), Changed::Done);
        self.cost(Operation::Order, order).await
    }

    async fn end(&mut self, order: &Order, how: Ending) -> f64 {
        let order = read(&self.world, order).await;
        assert_eq!(in_a_request(self.database.end(&order, &how)).await.unwrap(), Changed::Done);
        self.cost(how.operation, &order).await
    }
}

/// As a user pool names its users.
const BUYER: &str = "f47ac10b-58cc-4372-a567-0e02b2c3d479";
const PHONE: &str = "phone-256gb-black";

const TRACE: &str = "1-6789abcd-0123456789abcdef01234567";

/// As part of a request: its trace is stored with what it writes.
async fn in_a_request<T>(work: impl Future<Output = T>) -> T {
    telemetry::scoped(None, Trace::of_id(TRACE), work).await
}

fn is(units: f64, expected: f64) -> bool {
    (units - expected).abs() < f64::EPSILON
}

/// An order of one line from one bucket.
async fn with_one_order() -> (Metered, Order, f64) {
    let mut metered = Metered::start().await;
    metered.open(&[(PHONE, 0)]).await;
    let order = order(BUYER, 1, &[(PHONE, 0, 1)]);
    let placing = metered.place(&order).await;
    (metered, order, placing)
}

#[tokio::test]
async fn an_order_of_one_line_costs_seven_units_and_one_for_its_audit_row() {
    let mut metered = Metered::start().await;
    metered.open(&[(PHONE, 0)]).await;
    let order = order(BUYER, 1, &[(PHONE, 0, 1)]);
    assert_eq!(in_a_request(metered.database.commit(&order, 1)).await.unwrap(), Commit::Committed);
    // Order, guard and stock twice each, and the index.
    let placing = metered.meter.take();
    assert!(is(placing, 7.0), "{placing}");
    let auditing = metered.cost(Operation::Order, &order).await;
    assert!(is(auditing, 1.0), "{auditing}");
}

#[tokio::test]
async fn each_further_line_and_each_further_bucket_costs_three_units_more() {
    let names = ["a", "b", "c", "d"];
    let mut metered = Metered::start().await;
    metered.open(&names.map(|name| (name, 0))).await;
    metered.open(&[("a", 1), ("a", 2), ("a", 3)]).await;
    for count in 1..=names.len() {
        let lines: Vec<_> = names[..count].iter().map(|name| (*name, 0, 1)).collect();
        let buckets: Vec<_> = (0..4).take(count).map(|bucket| ("a", bucket, 1)).collect();
        for (buyer, parts) in [("lines", lines), ("buckets", buckets)] {
            let placing = metered.place(&order(&format!("{buyer}{count}"), 1, &parts)).await;
            let expected = 5.0 + 3.0 * f64::from(u32::try_from(count).unwrap());
            assert!(is(placing, expected), "{count} {buyer}: {placing}");
        }
    }
}

#[tokio::test]
async fn a_paid_life_costs_nine_units() {
    let (mut metered, order, placing) = with_one_order().await;
    let paying = metered.pay(&order, "pi_3MtwBwLkdIwHu7ix28a3tqPa").await;
    assert!(is(paying, 1.0) && is(placing + paying, 9.0), "{placing} + {paying}");
}

#[tokio::test]
async fn an_ended_life_costs_fifteen_units_or_thirteen_where_the_quota_is_kept() {
    for event in [Event::Cancel, Event::Expire] {
        for (keep_quota, whole) in [(false, 15.0), (true, 13.0)] {
            let (mut metered, order, placing) = with_one_order().await;
            let how = Ending { keep_quota, ..ending(&order, event) };
            let ending = metered.end(&order, how).await;
            assert!(is(placing + ending, whole), "{event:?}, kept {keep_quota}: {placing} + {ending}");
        }
    }
}

#[tokio::test]
async fn a_refund_costs_seven_units_and_two_more_where_an_operator_gives_the_money_back() {
    for (by_operator, expected) in [(false, 7.0), (true, 9.0)] {
        let (mut metered, order, _) = with_one_order().await;
        metered.pay(&order, "paid").await;
        let said = EndedBy { operator: "olga".to_owned(), reason: "broken".to_owned(), quota_kept: false };
        let how = Ending {
            ended_by: by_operator.then_some(said),
            refund: by_operator.then(|| refund_due(&order, "operator-1", RefundReason::Operator)),
            ..ending(&order, Event::Refund)
        };
        let refunding = metered.end(&order, how).await;
        assert!(is(refunding, expected), "by an operator {by_operator}: {refunding}");
    }
}

#[tokio::test]
async fn what_comes_of_money_that_is_late_or_goes_back() {
    let (mut metered, order, _) = with_one_order().await;
    metered.end(&order, ending(&order, Event::Expire)).await;
    let closed = read(&metered.world, &order).await;
    // Another payment that finds nothing left: the order remembers it, and the money has its record.
    let judged = refund_due(&closed, "first", RefundReason::PaidTooLate);
    assert_eq!(in_a_request(metered.database.record_refund(&judged, Some(&closed))).await.unwrap(), Changed::Done);
    let judging = metered.cost(Operation::Order, &order).await;
    assert!(is(judging, 4.0), "{judging}");
    // The order takes its stock and its quota again.
    let payment = payment(&closed, "second");
    let (parts, at) = (closed.parts.clone(), after(&closed));
    let revival = Revival { closed: &closed, payment: &payment, parts, charge: true, limit_max: LIMIT, at };
    assert_eq!(in_a_request(metered.database.pay_late(&revival)).await.unwrap(), Commit::Committed);
    let reviving = metered.cost(Operation::Order, &order).await;
    assert!(is(reviving, 7.0), "{reviving}");
    // Paid once more: only the record.
    let back = refund_due(&closed, "third", RefundReason::AlreadyPaid);
    assert_eq!(in_a_request(metered.database.record_refund(&back, None)).await.unwrap(), Changed::Done);
    let recording = metered.cost(Operation::Order, &order).await;
    assert!(is(recording, 1.0), "{recording}");
}

#[tokio::test]
async fn a_submission_given_up_costs_one_unit() {
    let mut metered = Metered::start().await;
    let order = order(BUYER, 1, &[(PHONE, 0, 1)]);
    let tombstone = order.placement.clone().into_tombstone(now());
    assert_eq!(metered.database.claim(&tombstone).await.unwrap(), Claim::Aborted);
    let giving_up = metered.cost(Operation::Order, &order).await;
    assert!(is(giving_up, 1.0), "{giving_up}");
}
