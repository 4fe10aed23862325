//! Orders, their tombstones and the buyers' guards.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    Database,
    calls::{Page, Written, bad_item},
    change::Change,
    codec::{BadItem, Item, check_format, decode, encode, number, text, text_of, whole},
    keys::{self, Key},
};
use crate::{
    domain::{
        ids::{ActivityId, Bucket, BuyerId},
        limit::{Charge, PLACEMENTS_MAX},
        order::{Event, Order, Placement, Status, Stored, Tombstone},
        order_no::OrderNo,
        time::UnixMillis,
    },
    ports::{Claim, Commit, Cursor, Fault, OrderStore},
};

/// How long a dead item stays, in milliseconds (30 days): longer than any token, and longer than any
/// queue keeps a message (14 days), so that nothing on its way can find the number free again.
pub const TOMBSTONE_LIFE_MS: i64 = 30 * 86_400_000;
/// Orders of one page of the index.
const PAGE_MAX: i32 = 200;
/// Most pages of one buyer's guards in one activity. One page holds far more than a buyer can have.
const GUARD_PAGES_MAX: usize = 10;

impl OrderStore for Database {
    async fn commit(&self, order: &Order, limit_max: u32) -> Result<Commit, Fault> {
        self.commit_order(order, limit_max).await
    }

    async fn claim(&self, tombstone: &Tombstone) -> Result<Claim, Fault> {
        const OPERATION: &str = "claim";
        let item = tombstone_item(tombstone).map_err(bad_item(OPERATION))?;
        let change = Change::put(item).only_before(Event::Abort);
        match self.write(OPERATION, &self.tables.table, change).await? {
            Written::Done(_) => Ok(Claim::Aborted),
            Written::Refused(None) => Err(Fault::not_applied(OPERATION, "refused without what is stored")),
            Written::Refused(Some(item)) => match read_stored(item).map_err(bad_item(OPERATION))? {
                Stored::Aborted(_) => Ok(Claim::Aborted),
                Stored::Order(order) => Ok(Claim::Order(Box::new(order))),
            },
        }
    }

    async fn order(&self, order_no: &OrderNo) -> Result<Option<Stored>, Fault> {
        const OPERATION: &str = "read order";
        let item = self.get(OPERATION, Key::order(order_no)).await?;
        item.map(read_stored).transpose().map_err(bad_item(OPERATION))
    }

    async fn orders(&self, order_nos: &[OrderNo]) -> Result<Vec<Stored>, Fault> {
        const OPERATION: &str = "read orders";
        let items = self.get_all(OPERATION, order_nos.iter().map(Key::order)).await?;
        items.into_iter().map(read_stored).collect::<Result<_, _>>().map_err(bad_item(OPERATION))
    }

    async fn buyer_orders(&self, activity: &ActivityId, buyer: &BuyerId) -> Result<Vec<OrderNo>, Fault> {
        const OPERATION: &str = "list a buyer's orders";
        let mut numbers = BTreeSet::new();
        let mut after = None;
        for _ in 0..GUARD_PAGES_MAX {
            let partition = (keys::PK, keys::guards(activity, buyer));
            let page = Page::of(partition, after, PAGE_MAX);
            let (guards, next) = self.page(OPERATION, &self.tables.table, page).await?;
            for guard in &guards {
                numbers.extend(guarded(guard).map_err(bad_item(OPERATION))?);
            }
            match next {
                None => return Ok(numbers.into_iter().collect()),
                Some(_) => after = next,
            }
        }
        Err(Fault::not_applied(OPERATION, "the buyer has more guards than can be"))
    }

    async fn limiting_orders(&self, placement: &Placement, limit_max: u32) -> Result<Vec<OrderNo>, Fault> {
        const OPERATION: &str = "read a buyer's guards";
        let key = |charge: &Charge| Key::guard(&placement.activity, &placement.buyer, &charge.scope);
        let guards = self.get_all(OPERATION, placement.charges.iter().map(key)).await?;
        let limiting = |guard: &Item| -> Result<Vec<OrderNo>, BadItem> {
            let (orders, scope) = (guarded(guard)?, text_of(guard, keys::SK)?);
            let charge = placement.charges.iter().find(|charge| key(charge).sk == scope);
            let units = whole(guard, keys::UNITS)? + charge.map_or(0, |charge| u64::from(charge.units));
            let too_much = units > u64::from(limit_max) || orders.len() >= PLACEMENTS_MAX;
            Ok(if too_much { orders } else { Vec::new() })
        };
        let numbers: Result<BTreeSet<Vec<OrderNo>>, BadItem> = guards.iter().map(limiting).collect();
        Ok(numbers.map_err(bad_item(OPERATION))?.into_iter().flatten().collect())
    }

    async fn home_orders(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        after: Option<&Cursor>,
    ) -> Result<(Vec<OrderNo>, Option<Cursor>), Fault> {
        self.homed(activity, bucket, None, after).await
    }
}

impl Database {
    /// A page of the index: orders whose home is this bucket, by deadline, all or those between two
    /// deadlines.
    pub(super) async fn homed(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        between: Option<(UnixMillis, UnixMillis)>,
        after: Option<&Cursor>,
    ) -> Result<(Vec<OrderNo>, Option<Cursor>), Fault> {
        const OPERATION: &str = "list orders by home";
        let home = keys::home(activity, bucket);
        let after = after.map(|cursor| index_key(&home, cursor)).transpose().map_err(bad_item(OPERATION))?;
        let between = between.map(|(first, last)| (keys::DUE, due_at(first), due_at(last)));
        let page = Page { index: Some(keys::HOME_INDEX), between, ..Page::of((keys::HOME, home), after, PAGE_MAX) };
        let (items, next) = self.page(OPERATION, &self.tables.table, page).await?;
        let number = |item: &Item| keys::order_no(text_of(item, keys::PK)?).ok_or(BadItem::Attribute(keys::PK));
        let numbers = items.iter().map(number).collect::<Result<_, _>>().map_err(bad_item(OPERATION))?;
        let cursor = |key: Item| text_of(&key, keys::DUE).map(|due| Cursor(due.to_owned()));
        Ok((numbers, next.map(cursor).transpose().map_err(bad_item(OPERATION))?))
    }
}

/// An index cursor is the last order's `due`, which its whole key follows from.
fn index_key(home: &str, cursor: &Cursor) -> Result<Item, BadItem> {
    let number = cursor.0.rsplit_once('#').and_then(|(_, number)| OrderNo::parse(number).ok());
    let mut key = Key::order(&number.ok_or(BadItem::Attribute(keys::DUE))?).into_item();
    key.insert(keys::HOME.to_owned(), text(home));
    key.insert(keys::DUE.to_owned(), text(&cursor.0));
    Ok(key)
}

/// The item of a committed order, with the attributes of the index.
pub fn order_item(order: &Order) -> Result<Item, BadItem> {
    let placement = &order.placement;
    let mut item = encode(order)?;
    item.extend(Key::order(&placement.order_no).into_item());
    item.insert(keys::HOME.to_owned(), text(keys::home(&placement.activity, placement.home)));
    let due = format!("{}#{}", due_at(placement.pay_before), placement.order_no);
    item.insert(keys::DUE.to_owned(), text(due));
    Ok(item)
}

/// A deadline as the index has it, before the order number. Always with milliseconds: text of one length
/// sorts by time.
pub fn due_at(deadline: UnixMillis) -> String {
    format!("{deadline:.3}")
}

/// The item of a tombstone. It is dead from the start and is not in the index.
fn tombstone_item(tombstone: &Tombstone) -> Result<Item, BadItem> {
    let mut item = encode(tombstone)?;
    item.extend(Key::order(&tombstone.order_no).into_item());
    item.insert(keys::STATUS.to_owned(), text(Status::Aborted.as_str()));
    item.insert(keys::EXPIRES_AT.to_owned(), number(expires_at_s(tombstone.at)));
    Ok(item)
}

/// When an item may go that is dead, or done with, since then: in seconds since 1970.
pub fn expires_at_s(died_at: UnixMillis) -> i64 {
    died_at.plus_ms(TOMBSTONE_LIFE_MS).get() / 1_000
}

/// What is stored under an order number.
pub fn read_stored(mut item: Item) -> Result<Stored, BadItem> {
    check_format(&item)?;
    if text_of(&item, keys::STATUS)? == Status::Aborted.as_str() {
        return decode(item).map(Stored::Aborted);
    }
    let home = keys::home_bucket(text_of(&item, keys::HOME)?).ok_or(BadItem::Attribute(keys::HOME))?;
    item.insert(keys::HOME.to_owned(), number(home));
    decode(item).map(Stored::Order)
}

/// The orders that a guard counts or has counted.
fn guarded(guard: &Item) -> Result<Vec<OrderNo>, BadItem> {
    const BAD: BadItem = BadItem::Attribute(keys::ORDERS);
    check_format(guard)?;
    let entries = guard.get(keys::ORDERS).and_then(|orders| orders.as_l().ok()).ok_or(BAD)?;
    let number = |entry: &AttributeValue| OrderNo::parse(text_of(entry.as_m().ok()?, keys::ORDER_NO).ok()?).ok();
    entries.iter().map(|entry| number(entry).ok_or(BAD)).collect()
}
