//! The table's stream: both images of every change, with the system's mark.

use aws_sdk_dynamodbstreams::types::{AttributeValue, OperationType, ShardIteratorType, StreamRecord};
use holdfast::{
    adapters::dynamodb::{Image, read_image},
    domain::{
        order::Stored,
        stock::{Operation, StockItem},
    },
    ports::{Claim, Commit, OrderStore, StockStore},
};
use serde_json::{Value, json};

use crate::world::{TABLE, World, activity_id, bucket, mark, now, order, sku};

impl World {
    /// Every record of the stream, oldest first.
    async fn records(&self) -> Vec<(OperationType, StreamRecord)> {
        let table = self.client.describe_table().table_name(TABLE).send().await.unwrap().table.unwrap();
        let arn = table.latest_stream_arn.unwrap();
        let client = aws_sdk_dynamodbstreams::Client::new(&self.config);
        let stream = client.describe_stream().stream_arn(&arn).send().await.unwrap().stream_description.unwrap();
        let mut records = Vec::new();
        for shard in stream.shards() {
            let iterator = client.get_shard_iterator().stream_arn(&arn).shard_id(shard.shard_id().unwrap());
            let iterator = iterator.shard_iterator_type(ShardIteratorType::TrimHorizon).send().await.unwrap();
            let page = client.get_records().set_shard_iterator(iterator.shard_iterator).send().await.unwrap();
            records.extend(page.records.unwrap_or_default());
        }
        records.into_iter().map(|record| (record.event_name.unwrap(), record.dynamodb.unwrap())).collect()
    }
}

/// The image as a function is given it.
fn image(image: Option<std::collections::HashMap<String, AttributeValue>>) -> Option<Image> {
    fn tagged(value: AttributeValue) -> Value {
        match value {
            AttributeValue::S(text) => json!({"S": text}),
            AttributeValue::N(digits) => json!({"N": digits}),
            AttributeValue::Bool(truth) => json!({"BOOL": truth}),
            AttributeValue::L(values) => json!({"L": values.into_iter().map(tagged).collect::<Vec<_>>()}),
            AttributeValue::M(fields) => json!({"M": fields_of(fields)}),
            other => panic!("{other:?} is not written"),
        }
    }
    fn fields_of(fields: std::collections::HashMap<String, AttributeValue>) -> Value {
        Value::Object(fields.into_iter().map(|(name, value)| (name, tagged(value))).collect())
    }
    image.map(|fields| read_image(&fields_of(fields)).unwrap())
}

fn counters(image: Option<Image>) -> Option<(u64, u64, bool, Operation, String)> {
    let Image::Stock(StockItem { available, version, on_sale, .. }, mark) = image? else { panic!("no stock") };
    let mark = mark.unwrap();
    Some((available, version, on_sale, mark.operation, mark.reference))
}

#[tokio::test]
async fn every_stock_change_shows_both_images_and_its_mark() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    let order = order("alice", 1, &[("a", 0, 2)]);
    let number = order.placement.order_no.as_str().to_owned();
    assert_eq!(world.database.commit(&order, 2).await.unwrap(), Commit::Committed);
    let set = world.database.set_on_sale(&activity_id(), &sku("a"), bucket(0), false, &mark("freeze")).await;
    let frozen = set.unwrap().unwrap();
    assert!(world.database.correct_available(&frozen, 1, &mark("fix")).await.unwrap());
    let states = [
        (5, 1, true, Operation::Manual, "open".to_owned()),
        (3, 2, true, Operation::Order, number),
        (3, 3, false, Operation::Manual, "freeze".to_owned()),
        (1, 4, false, Operation::Manual, "fix".to_owned()),
    ];
    let mut expected = vec![(None, Some(states[0].clone()))];
    expected.extend(states.windows(2).map(|pair| (Some(pair[0].clone()), Some(pair[1].clone()))));
    let records = world.records().await.into_iter();
    let stock = records.filter(|(_, record)| record.keys.as_ref().unwrap()["sk"] == AttributeValue::S("S".into()));
    let changes: Vec<_> = stock.map(|(_, it)| (counters(image(it.old_image)), counters(image(it.new_image)))).collect();
    assert_eq!(changes, expected);
}

#[tokio::test]
async fn orders_and_tombstones_show_and_guards_are_no_ones_concern() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    let (alive, dead) = (order("alice", 1, &[("a", 0, 2)]), order("bob", 1, &[("a", 0, 2)]));
    let tombstone = dead.placement.into_tombstone(now());
    assert_eq!(world.database.commit(&alive, 2).await.unwrap(), Commit::Committed);
    assert_eq!(world.database.claim(&tombstone).await.unwrap(), Claim::Aborted);
    let mut seen = Vec::new();
    for (event, record) in world.records().await {
        let sk = record.keys.as_ref().unwrap()["sk"].as_s().unwrap().clone();
        if sk != "S" {
            assert_eq!(event, OperationType::Insert);
            seen.push((sk, image(record.old_image), image(record.new_image).unwrap()));
        }
    }
    seen.sort_by_key(|(sk, ..)| sk.clone());
    let expected = [
        ("G#A", Image::Other),
        ("O", Image::Order(Box::new(Stored::Order(alive)))),
        ("O", Image::Order(Box::new(Stored::Aborted(tombstone)))),
    ];
    let expected: Vec<_> = expected.into_iter().map(|(sk, new)| (sk.to_owned(), None, new)).collect();
    assert_eq!(seen, expected);
}
