//! Data that the scripts cannot read: an outcome, and nothing is changed.

use holdfast::{
    adapters::redis::keys::ADMITTED,
    domain::order::{Placement, Take},
    ports::{Deducted, Effect, Fault, OrderGate, PlaceAnswer, Restocked, Restored, StockGate, Undone},
};
use redis::cmd;

use super::support::{Sale, World, allotment, bucket, mark_field, now, part, record_text, units};

/// A loaded bucket in which Alice has an order and Bob is about to place one.
struct Scene {
    sale: Sale,
    old: Placement,
    new: Placement,
}

async fn scene(world: &World) -> Scene {
    let sale = world.sale(1, &[("a", 9)]).await;
    let old = sale.placement("alice", 1, &[("a", 2)]);
    assert_eq!(world.place(&sale, &old).await, PlaceAnswer::Admitted(vec![2]));
    let new = sale.placement("alice", 2, &[("a", 1)]);
    Scene { sale, old, new }
}

fn told<T: std::fmt::Debug>(result: Result<T, Fault>) -> bool {
    result.is_err_and(|fault| fault.effect == Effect::None && fault.chain().contains("unreadable data"))
}

pub async fn a_key_of_another_type_is_bad_data_and_nothing_changes(world: &World) {
    let moving = ["place", "deduct", "change", "undo", "restock", "restore", "sync_allotment"];
    let reading = ["replay", "read_bucket", "sum_bucket", "look", "preheat", "sync_control"];
    for key in ["bucket", "orders", "ledger"] {
        let scene = scene(world).await;
        let keys = scene.sale.keys(0);
        let (name, expected) = match key {
            "bucket" => (&keys.bucket, [&moving[..], &reading].concat()),
            "orders" => (&keys.orders, [&moving[..], &reading, &["list_records", "marked"]].concat()),
            // A ledger stops what is written to it, and nothing else.
            _ => (&keys.ledger, moving.to_vec()),
        };
        world.del(name).await;
        world.raw::<()>(cmd("RPUSH").arg(name).arg("x")).await;
        check(world, &scene, &expected, key).await;
    }
}

pub async fn garbage_in_any_field_is_bad_data_and_nothing_changes(world: &World) {
    let all =
        ["place", "replay", "deduct", "change", "undo", "restock", "restore", "sync_allotment", "sum_bucket", "look"];
    let numbers = [
        "",
        "x",
        "1.5",
        "1e3",
        "0x10",
        " 1",
        "9007199254740992",
        "9007199254740993",
        "99999999999999999999",
        "nan",
        "-",
    ];
    for part in ["free", "sold"] {
        for value in numbers {
            bad_sku(world, part, value, &all).await;
        }
    }
    for value in ["", "yes", "2", "01"] {
        bad_sku(world, "on_sale", value, &[&all[..], &["read_bucket"]].concat()).await;
    }
    for part in ["allotted", "version"] {
        for value in ["", "x", "-1"] {
            bad_sku(world, part, value, &[&all[..], &["read_bucket"]].concat()).await;
        }
    }
    for text in ["", "1|2|1|9", "7|2|1|9|1|", "7|2|1|9|1\n"] {
        let scene = scene(world).await;
        world.hset(&scene.sale.keys(0).bucket, "a", text).await;
        check(world, &scene, &[&all[..], &["read_bucket"]].concat(), text).await;
    }
    let control = ["place", "replay", "deduct", "change", "sync_control", "look"];
    for part in ["version", "starts_ms", "ends_ms", "rate"] {
        for value in ["", "x", "1.0", "-1"] {
            let scene = scene(world).await;
            world.set_control(&scene.sale, 0, part, value).await;
            check(world, &scene, &control, &format!("{part}={value}")).await;
        }
    }
    for text in ["", "soon|1", "1", "1|", "1|-1"] {
        let scene = scene(world).await;
        world.hset(&scene.sale.keys(0).bucket, ADMITTED, text).await;
        check(world, &scene, &["place", "replay", "deduct", "change", "look"], text).await;
        world.hdel(&scene.sale.keys(0).bucket, ADMITTED).await;
        check(world, &scene, &["place", "replay", "deduct", "change", "look"], "nothing").await;
    }
}

async fn bad_sku(world: &World, part: &str, value: &str, expected: &[&str]) {
    let scene = scene(world).await;
    world.set_sku(&scene.sale, 0, "a", part, value).await;
    check(world, &scene, expected, &format!("{part}={value}")).await;
}

pub async fn a_garbled_record_is_bad_data_and_nothing_changes(world: &World) {
    let record = |edit: fn(&str) -> String| edit;
    let edits = [
        record(|_| String::new()),
        record(|_| "D".to_owned()),
        record(|text| text.replacen("1|", "2|", 1)),
        record(|text| text.replacen("1|", "0|", 1)),
        record(|text| text.replacen("|D|1|", "|X|1|", 1)),
        record(|text| text.replacen("|D|1|", "|D|3|", 1)),
        record(|text| text.replacen("|a=2|", "|a=-2|", 1)),
        record(|text| text.replacen("|a=2|", "|a=2,a=2|", 1)),
        record(|text| text.replacen("|a=2|", "|a=2,|", 1)),
        record(|text| text.replacen("|a=2|", "|a=2;b=1|", 1)),
        record(|text| text.replacen("|a=2|", "|a=9999999999|", 1)),
        record(|text| text.replacen("|a=2|", "|other=2|", 1)),
        record(|text| text.split('{').next().unwrap_or_default().to_owned()),
    ];
    for edit in edits {
        let scene = scene(world).await;
        let (key, number) = (scene.sale.keys(0).orders, scene.old.order_no.as_str());
        let text = edit(&world.hget(&key, number).await.unwrap());
        world.hset(&key, number, &text).await;
        let expected: &[_] = if text.contains("other") {
            &["change", "undo", "restock", "restore", "sum_bucket"]
        } else {
            &["replay", "change", "undo", "restock", "restore", "sum_bucket"]
        };
        check(world, &scene, expected, &text).await;
        if text.is_empty() {
            let looked = world.gate.look(&scene.sale.activity, &scene.old, &[bucket(0)]).await.unwrap();
            assert!(looked[0].free.is_empty() && looked[0].record.is_none(), "no text is not no record");
        }
    }
}

async fn check(world: &World, scene: &Scene, expected: &[&str], what: &str) {
    // Whoever complains leaves everything as it is; the others may do their work.
    let before = world.dump(&scene.sale, 0).await;
    for operation in expected {
        assert!(complains(world, scene, operation).await, "{what}: {operation} did not complain");
        assert_eq!(world.dump(&scene.sale, 0).await, before, "{what}: {operation} changed something");
    }
}

async fn complains(world: &World, Scene { sale, old, new }: &Scene, operation: &str) -> bool {
    let (gate, activity, id, home) = (&world.gate, &sale.activity, &sale.activity.id, bucket(0));
    match operation {
        "place" => world.place(sale, new).await == PlaceAnswer::BadData,
        "replay" => world.place(sale, old).await == PlaceAnswer::BadData,
        "deduct" => gate.deduct(activity, new, home, &units(&[("a", 1)])).await.unwrap() == Deducted::BadData,
        "change" => gate.deduct(activity, old, home, &units(&[("a", 1)])).await.unwrap() == Deducted::BadData,
        "undo" => gate.undo(activity, old, home).await.unwrap() == Undone::BadData,
        "restock" => {
            let restocked = gate.restock(activity, &old.order_no, home, Take::FIRST, false, None).await.unwrap();
            restocked == Restocked::BadData
        }
        "restore" => {
            let parts = [part(0, "a", 1)];
            gate.restore(activity, old, home, Take::SECOND, &parts).await.unwrap() == Restored::BadData
        }
        "sync_allotment" => told(gate.sync_allotment(id, home, &[allotment("a", 20, 9, true)]).await),
        "read_bucket" => told(gate.read_bucket(activity, home).await),
        "sum_bucket" => told(gate.sum_bucket(activity, home, true).await),
        "look" => gate.look(activity, new, &[home]).await.unwrap()[0].free.is_empty(),
        "list_records" => told(gate.list_records(id, home, 0).await),
        "marked" => told(gate.marked(activity, old).await),
        "preheat" => told(gate.preheat(activity, home, &sale.allotments, now()).await),
        "sync_control" => {
            let newer = holdfast::domain::activity::Activity { version: 5, ..activity.clone() };
            told(gate.sync_control(&newer, home, now()).await)
        }
        _ => panic!("unknown operation {operation}"),
    }
}

pub async fn a_record_whose_placement_is_garbage_is_bad_data(world: &World) {
    let scene = scene(world).await;
    let Scene { sale, old, .. } = &scene;
    let orders = sale.keys(0).orders;
    let mark = mark_field(old);
    let text = record_text("D", Take::FIRST, old.lines_hash.as_str(), "a=2", old);
    for garbage in [text.replace("\"buyer\"", "\"byer\""), text.replace('{', "["), text.replace("|a=2|", "|a=2|\u{0}")]
    {
        world.hset(&orders, old.order_no.as_str(), &garbage).await;
        check(world, &scene, &["replay", "undo", "restock", "restore"], &garbage).await;
        let record = world.gate.record(&sale.activity.id, bucket(0), &old.order_no).await.unwrap();
        assert!(record.unwrap().is_err());
        assert_eq!(world.gate.look(&sale.activity, old, &[bucket(0)]).await.unwrap()[0].free, [0_u64; 0]);
    }
    world.hset(&orders, old.order_no.as_str(), &text).await;
    for garbage in [
        "",
        "x",
        "x=1",
        &format!("{}=1;", old.order_no),
        &format!("{}=x", old.order_no),
        &format!("{}1=1", old.order_no),
    ] {
        world.hset(&orders, &mark, garbage).await;
        check(world, &scene, &["place", "replay", "undo", "restock", "restore"], garbage).await;
        assert!(told(world.gate.marked(&sale.activity, old).await), "{garbage}");
    }
}
