//! Items that this version cannot read are faults, never absences or business results.

use aws_sdk_dynamodb::types::AttributeValue;
use holdfast::domain::lease::Fence;
use holdfast::ports::{ActivityStore, Commit, Cursor, Effect, Fault, OrderStore, ProgressStore, StockStore};

use crate::world::{AUDIT_TABLE, TABLE, World, activity_id, bucket, buyer, mark, now, order, sale, sku, stock};

impl World {
    /// Changes one attribute of a stored item behind the system's back.
    async fn set(&self, pk: &str, sk: &str, name: &str, value: AttributeValue) {
        let update = self.client.update_item().table_name(TABLE).update_expression("SET #name = :value");
        let update = update.key("pk", AttributeValue::S(pk.to_owned())).key("sk", AttributeValue::S(sk.to_owned()));
        let update = update.expression_attribute_names("#name", name).expression_attribute_values(":value", value);
        update.send().await.unwrap();
    }

    async fn set_format_2(&self, pk: &str, sk: &str) {
        self.set(pk, sk, "format", AttributeValue::N("2".to_owned())).await;
    }
}

fn assert_refused<T: std::fmt::Debug>(answer: Result<T, Fault>) {
    let fault = answer.unwrap_err();
    assert_eq!(fault.effect, Effect::None);
    assert!(fault.chain().contains("format 2"), "{}", fault.chain());
}

#[tokio::test]
async fn an_order_of_another_format_is_refused() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    let order = order("alice", 1, &[("a", 0, 1)]);
    let (number, database) = (order.placement.order_no.clone(), &world.database);
    assert_eq!(database.commit(&order, 1).await.unwrap(), Commit::Committed);
    world.set_format_2(&format!("O#{number}"), "O").await;
    world.set_format_2("B#sale#alice", "G#A").await;
    assert_refused(database.order(&number).await);
    assert_refused(database.orders(std::slice::from_ref(&number)).await);
    assert_refused(database.claim(&order.placement.clone().into_tombstone(now())).await);
    assert_refused(database.buyer_orders(&activity_id(), &buyer("alice")).await);
    // That something is stored under the number is certain in any format.
    assert_eq!(database.commit(&order, 1).await.unwrap(), Commit::Exists);
}

#[tokio::test]
async fn a_guard_of_another_format_is_not_counted_on() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    assert_eq!(world.database.commit(&order("alice", 1, &[("a", 0, 1)]), 9).await.unwrap(), Commit::Committed);
    world.set_format_2("B#sale#alice", "G#A").await;
    let before = world.all().await;
    let fault = world.database.commit(&order("alice", 2, &[("a", 0, 1)]), 9).await.unwrap_err();
    assert_eq!(fault.effect, Effect::None);
    assert_eq!(world.all().await, before);
}

#[tokio::test]
async fn stock_of_another_format_is_neither_sold_nor_changed() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    world.set_format_2("S#sale#a#0", "S").await;
    let (database, before) = (&world.database, world.all().await);
    assert_eq!(database.commit(&order("alice", 1, &[("a", 0, 1)]), 1).await.unwrap_err().effect, Effect::None);
    assert_refused(database.bucket_stock(&sale(&["a"]), bucket(0)).await);
    assert_refused(database.stock(&sale(&["a"]), &[sku("a")]).await);
    assert_refused(database.open_stock(&stock("a", 0, 5), &mark("x")).await);
    assert_refused(database.set_on_sale(&activity_id(), &sku("a"), bucket(0), false, &mark("x")).await);
    assert_refused(database.correct_available(&stock("a", 0, 5), 1, &mark("x")).await);
    assert_eq!(world.all().await, before);
}

#[tokio::test]
async fn everything_else_of_another_format_is_refused() {
    let world = World::start().await;
    let database = &world.database;
    let _ = database.save_activity(&sale(&["a"]), None).await.unwrap();
    let at = Cursor("x".to_owned());
    let _ = database.save_progress("job", Fence::NONE, Some(&at), None).await.unwrap();
    world.set_format_2("A", "sale").await;
    world.set_format_2("P", "job").await;
    assert_refused(database.activity(&activity_id()).await);
    assert_refused(database.activities(None).await);
    assert_refused(database.progress("job").await);
    assert_refused(database.take_turn("job").await);
}

#[tokio::test]
async fn an_item_that_makes_no_sense_is_a_fault() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    let order = order("alice", 1, &[("a", 0, 1)]);
    assert_eq!(world.database.commit(&order, 1).await.unwrap(), Commit::Committed);
    let pk = format!("O#{}", order.placement.order_no);
    let bad = [
        ("take", AttributeValue::S("one".to_owned())),
        ("home", AttributeValue::S("nowhere".to_owned())),
        ("status", AttributeValue::S("LOST".to_owned())),
        ("lines", AttributeValue::Null(true)),
    ];
    for (name, value) in bad {
        let good = world.raw(&pk, "O").await.unwrap()[name].clone();
        world.set(&pk, "O", name, value).await;
        let fault = world.database.order(&order.placement.order_no).await.unwrap_err();
        assert_eq!(fault.effect, Effect::None, "{name}");
        world.set(&pk, "O", name, good).await;
    }
    assert!(world.database.order(&order.placement.order_no).await.unwrap().is_some());
}

#[tokio::test]
async fn tables_are_made_once_and_only_the_main_one_has_a_stream_and_an_index() {
    let world = World::start().await;
    world.open("a", 0, 5).await;
    world.database.create_tables().await.unwrap();
    assert_eq!(world.left("a", 0).await, (5, 1));
    let described = |table: &'static str| {
        let describe = world.client.describe_table().table_name(table);
        async move { describe.send().await.unwrap().table.unwrap() }
    };
    let main = described(TABLE).await;
    assert!(main.latest_stream_arn.is_some());
    let index = &main.global_secondary_indexes.unwrap()[0];
    let keys: Vec<_> = index.key_schema().iter().map(|key| key.attribute_name.as_str()).collect();
    assert_eq!((index.index_name(), keys), (Some("home_orders"), vec!["home", "due"]));
    let audit = described(AUDIT_TABLE).await;
    assert_eq!((audit.latest_stream_arn, audit.global_secondary_indexes), (None, None));
}
