//! What is stored, read without the product's help, and held against the reference.

use std::collections::{BTreeMap, BTreeSet};

use aws_sdk_dynamodb::types::AttributeValue;
use holdfast::adapters::dynamodb::TOMBSTONE_LIFE_MS;
use model::reference::{
    Bucket, Map, OrderId, Scope, Sku,
    changes::PaymentId,
    database::{Database, Guard, Item as StockOf, MoveId, Stored},
};

use super::{
    answer,
    life::{MOVES, PAYMENTS, payment, told},
    operation::Operation,
    server::{self, Item, Key, of},
};
use crate::cast::{BUCKETS, Cast, ORDERS, SKU_NAMES, SKUS};

pub fn stock_key(cast: &Cast, sku: Sku, bucket: Bucket) -> Key {
    (format!("S#{}#{}#{}", cast.id(), SKU_NAMES[usize::from(sku.0)], bucket.0), "S".to_owned())
}

pub fn order_key(cast: &Cast, order: OrderId) -> Key {
    (format!("O#{}", cast.number(order)), "O".to_owned())
}

pub fn guard_key(cast: &Cast, (buyer, scope): (model::reference::Buyer, Scope)) -> Key {
    let scope = cast.scopes[&(scope, buyer)].as_str();
    (format!("B#{}#{}", cast.id(), cast.buyer(buyer).as_str()), format!("G#{scope}"))
}

fn refund_key(cast: &Cast, order: OrderId, id: PaymentId) -> Key {
    (format!("F#{}", cast.number(order)), told::payment_id(id).as_str().to_owned())
}

fn move_key(cast: &Cast, id: MoveId) -> Key {
    (format!("M#{}", cast.id()), told::move_id(id).as_str().to_owned())
}

/// Every SKU in every bucket.
pub fn everywhere() -> impl Iterator<Item = (Sku, Bucket)> + Clone {
    (0..SKUS).flat_map(|sku| (0..BUCKETS).map(move |bucket| (Sku(sku), Bucket(bucket))))
}

fn refunds() -> impl Iterator<Item = (OrderId, PaymentId)> {
    (0..ORDERS).flat_map(|order| (0..PAYMENTS).map(move |index| (OrderId(order), payment(index))))
}

/// The keys of orders, guards and stock.
pub fn keys(cast: &Cast) -> BTreeSet<Key> {
    let orders = (0..ORDERS).map(|order| order_key(cast, OrderId(order)));
    let guards = cast.scopes.keys().map(|(scope, buyer)| guard_key(cast, (*buyer, *scope)));
    let stock = everywhere().map(|(sku, bucket)| stock_key(cast, sku, bucket));
    orders.chain(guards).chain(stock).collect()
}

/// The keys of refunds and moves, of one order and one move or of all.
pub fn further_keys(cast: &Cast, of: Option<&Operation>) -> BTreeSet<Key> {
    let (order, id) = match of {
        None => (None, None),
        Some(Operation::Life(life)) => life.subject(),
        Some(_) => return BTreeSet::new(),
    };
    let refunds = refunds().filter(|(of, _)| order.is_none_or(|order| order == of.0));
    let moves = (0..MOVES).filter(|of| id.is_none_or(|id| id == *of));
    refunds.map(|(order, id)| refund_key(cast, order, id)).chain(moves.map(|id| move_key(cast, MoveId(id)))).collect()
}

/// What is stored, read without the product's help but for orders, must be what the reference has.
pub fn same(cast: &Cast, database: &Database, stored: &BTreeMap<Key, Item>) -> Result<(), String> {
    let real = read(cast, stored)?;
    let told = |database: &Database| {
        format!(
            "    stock   {:?}\n    guards  {:?}\n    orders  {:?}\n    refunds {:?}\n    moves   {:?}",
            database.stock, database.guards, database.orders, database.refunds, database.moves
        )
    };
    if real == *database {
        return Ok(());
    }
    Err(format!("  real:\n{}\n  reference:\n{}", told(&real), told(database)))
}

fn parsed<T: std::str::FromStr>(item: &Item, name: &str) -> Result<T, String> {
    of(item, name).parse().map_err(|_| format!("{name} in {item:?}"))
}

fn read(cast: &Cast, stored: &BTreeMap<Key, Item>) -> Result<Database, String> {
    let mut database = Database::default();
    for (sku, bucket) in everywhere() {
        if let Some(item) = stored.get(&stock_key(cast, sku, bucket)) {
            let item = StockOf {
                allotted: parsed(item, "allotted")?,
                available: parsed(item, "available")?,
                version: parsed(item, "version")?,
                on_sale: parsed(item, "on_sale")?,
            };
            database.stock.insert((sku, bucket), item);
        }
    }
    for (scope, buyer) in cast.scopes.keys() {
        let Some(item) = stored.get(&guard_key(cast, (*buyer, *scope))) else { continue };
        let Some(AttributeValue::L(entries)) = item.get("orders") else { return Err(format!("a guard {item:?}")) };
        let mut orders = Map::default();
        for entry in entries {
            let AttributeValue::M(entry) = entry else { return Err(format!("a guard {item:?}")) };
            let order = cast.order(&of(entry, "order_no")).ok_or_else(|| format!("a guard {item:?}"))?;
            if orders.get(order).is_some() {
                return Err(format!("a guard lists an order twice: {item:?}"));
            }
            orders.insert(order, parsed(entry, "units")?);
        }
        database.guards.insert((*buyer, *scope), Guard { units: parsed(item, "units")?, orders });
    }
    for order in (0..ORDERS).map(OrderId) {
        if let Some(item) = stored.get(&order_key(cast, order)) {
            database.orders.insert(order, read_order(cast, order, item)?);
        }
    }
    for key in refunds() {
        if let Some(item) = stored.get(&refund_key(cast, key.0, key.1)) {
            let (told, refund) = told::refund(cast, &server::read(item)?)?;
            if told != key || !of(item, "expires_at").is_empty() {
                return Err(format!("a refund {item:?}"));
            }
            database.refunds.insert(key, refund);
        }
    }
    for id in (0..MOVES).map(MoveId) {
        if let Some(item) = stored.get(&move_key(cast, id)) {
            database.moves.insert(id, told::stock_move(cast, id, &server::read(item)?)?);
        }
    }
    Ok(database)
}

/// An order as the relay reads it; and what the index and the table's own cleaning need, which nothing else
/// reads.
fn read_order(cast: &Cast, order: OrderId, item: &Item) -> Result<Stored, String> {
    use holdfast::domain::order::Stored as RealStored;
    let real = server::read_order(item)?;
    let (number, stored) = answer::stored(cast, &real)?;
    let (index, died_at) = match &real {
        RealStored::Order(real) => {
            let placement = &real.placement;
            let home = format!("{}#{}", cast.id(), placement.home);
            let due = format!("{:.3}#{}", placement.pay_before, placement.order_no);
            ((home, due), (!real.status.is_live()).then_some(real.updated_at))
        }
        RealStored::Aborted(tombstone) => ((String::new(), String::new()), Some(tombstone.at)),
    };
    let ends = died_at.map_or(String::new(), |at| (at.plus_ms(TOMBSTONE_LIFE_MS).get() / 1_000).to_string());
    let right = number == order && (of(item, "home"), of(item, "due")) == index && of(item, "expires_at") == ends;
    if right { Ok(stored) } else { Err(format!("an order {item:?}")) }
}
