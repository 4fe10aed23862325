//! What an order costs in write units, as the server counts them and by the service's own rule.

use std::{
    collections::HashMap,
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
    },
    types::{AttributeValue, ConsumedCapacity, ReturnConsumedCapacity},
};
use holdfast::{
    domain::stock::{ChangeMark, Operation, StockItem},
    ports::{AuditRow, AuditStore, Commit, OrderStore},
};

use crate::world::{World, activity_id, bucket, database, now, order, sku, stock};

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
        } else if let Some(consumed) = output.downcast_ref::<PutItemOutput>().and_then(PutItemOutput::consumed_capacity)
        {
            self.add(consumed);
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

fn audit_row(order_no: &str) -> AuditRow {
    let item = |available, version| StockItem { available, version, ..stock("phone-256gb-black", 0, 100_000) };
    AuditRow {
        activity: activity_id(),
        sku: sku("phone-256gb-black"),
        bucket: bucket(0),
        version: 50_001,
        before: Some(item(50_000, 50_000)),
        after: Some(item(49_999, 50_001)),
        operation: Some(Operation::Order),
        operator: "place-order".to_owned(),
        reference: order_no.to_owned(),
        at: now(),
        event_id: "c4ca4238a0b923820dcc509a6f75849b".to_owned(),
        before_mark: Some(ChangeMark {
            operation: Operation::Order,
            operator: "place-order".to_owned(),
            reference: order_no.to_owned(),
        }),
        filled: false,
    }
}

#[tokio::test]
async fn an_order_of_one_line_costs_seven_units_and_one_for_its_audit_row() {
    let world = World::start().await;
    world.open("phone-256gb-black", 0, 100_000).await;
    let meter = Meter::default();
    let config = aws_sdk_dynamodb::config::Builder::from(&world.config).interceptor(meter.clone()).build();
    let metered = database(Client::from_conf(config));
    // As a user pool names its users.
    let order = order("f47ac10b-58cc-4372-a567-0e02b2c3d479", 1, &[("phone-256gb-black", 0, 1)]);
    assert_eq!(metered.commit(&order, 1).await.unwrap(), Commit::Committed);
    let placing = meter.take();
    metered.record(&audit_row(order.placement.order_no.as_str())).await.unwrap();
    let auditing = meter.take();
    println!("placing {placing} units, auditing {auditing}");
    for item in world.all().await {
        println!("{:>5} bytes {:?}", size(&item), item["pk"]);
        assert!(size(&item) <= 1_024, "{:?} has {} bytes", item["pk"], size(&item));
    }
    // Order, guard and stock twice each, and the index.
    assert!((placing - 7.0).abs() < f64::EPSILON, "{placing}");
    assert!((auditing - 1.0).abs() < f64::EPSILON, "{auditing}");
}

#[tokio::test]
async fn each_further_line_costs_two_units_more() {
    let world = World::start().await;
    let meter = Meter::default();
    let config = aws_sdk_dynamodb::config::Builder::from(&world.config).interceptor(meter.clone()).build();
    let metered = database(Client::from_conf(config));
    let names = ["a", "b", "c", "d"];
    for lines in 1..=names.len() {
        let parts: Vec<_> = names[..lines].iter().map(|name| (*name, 0, 1)).collect();
        for name in &names[..lines] {
            world.open(name, 0, 100).await;
        }
        let order = order(&format!("buyer{lines}"), 1, &parts);
        assert_eq!(metered.commit(&order, 4).await.unwrap(), Commit::Committed);
        let expected = 5.0 + 2.0 * f64::from(u32::try_from(lines).unwrap());
        let placing = meter.take();
        assert!((placing - expected).abs() < f64::EPSILON, "{lines} lines: {placing}");
    }
}
