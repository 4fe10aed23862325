//! What an operation answers, in one form: by the reference, and by the real database.

use std::collections::BTreeSet;

use holdfast::{
    adapters::dynamodb::Database as RealDatabase,
    domain::{
        activity::QuotaPolicy,
        order::{Order as RealOrder, Stored as RealStored, Tombstone},
        stock::{ChangeMark, Operation as Change, StockItem},
    },
    ports::{Claim as RealClaim, Commit as RealCommit, Fault, OrderStore as _, StockStore as _},
};
use model::reference::{
    Bucket, Buyer, Moment, OrderId, PLACEMENTS_MAX, Part, Sku, Units,
    changes::{Changed, PaymentId, Refund},
    database::{Claim, Commit, Database, Draft, Item, Limit, Order, Stored},
    stock::{Move, Moved},
};

use super::{
    life::{self, How, Life, told},
    operation::Operation,
    past::Past,
};
use crate::cast::{Cast, ORDERS, SKUS, due, real_bucket, real_parts, real_sku, reference_sku};

pub const OPERATOR: &str = "differential";

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Commit(Commit),
    Claim(Claim),
    Item(Option<Item>),
    Corrected(bool),
    Order(Option<Stored>),
    Orders(Vec<(OrderId, Stored)>),
    Numbers(Vec<OrderId>),
    Stock(Vec<((Sku, Bucket), Item)>),
    Cancelled(Changed),
    Expired(Changed),
    Refunded(Changed),
    Paid(Changed),
    PaidLate(Commit),
    RefundRecorded(Changed),
    Refunds(Vec<(PaymentId, Refund)>),
    /// In the order of their deadlines.
    Due(Vec<OrderId>),
    Moved(Moved),
    Move(Option<Move>),
    /// Conflicts outlasted the tries; nothing was written.
    Busy,
    /// Nothing that the reference ever says.
    Other(String),
}

/// An operation with what it depends on at its start: what its caller read, and when it is.
#[derive(Clone, Debug)]
pub struct Call {
    pub operation: Operation,
    pub version: u16,
    /// The mark that it leaves on stock that it changes by itself.
    pub reference: String,
    pub at: Moment,
    /// The order as its caller read it.
    pub seen: Option<Order>,
    pub policy: QuotaPolicy,
}

impl Call {
    pub fn new(operation: &Operation, database: &Database, past: &Past, (reference, at): (String, Moment)) -> Self {
        let version = match operation {
            Operation::Correct { sku, bucket, off, .. } => {
                let known = database.stock.get((Sku(*sku), Bucket(*bucket))).map_or(1, |item| item.version);
                known.saturating_add_signed((*off).into())
            }
            _ => 0,
        };
        let (seen, at) = match operation {
            Operation::Life(life) => {
                let at = match life {
                    Life::End { order, how: How::Expire(late_by), .. } => {
                        Moment(due(OrderId(*order)).0.strict_add_signed(*late_by))
                    }
                    _ => at,
                };
                (life.read().map(|(order, ago)| past.seen(OrderId(order), ago)), at)
            }
            _ => (None, at),
        };
        Self { operation: operation.clone(), version, reference, at, seen, policy: past.policy }
    }
}

/// The reference's answer.
pub fn expect(cast: &Cast, database: &mut Database, call: &Call) -> Answer {
    let stock = |database: &Database, wanted: &dyn Fn(Bucket) -> bool| {
        let items = database.stock.iter().filter(|((_, bucket), _)| wanted(*bucket));
        Answer::Stock(items.map(|(key, item)| (key, *item)).collect())
    };
    match &call.operation {
        Operation::Commit { of, parts, limit } => {
            let draft = Draft { placement: cast.both(*of).reference.clone(), parts: parts.clone() };
            Answer::Commit(database.commit(&draft, Limit { units: *limit, placements: PLACEMENTS_MAX }))
        }
        Operation::Claim { of, knows } => {
            let placement = knows.then(|| cast.both(*of).reference.clone());
            Answer::Claim(database.claim(OrderId(of.order), placement))
        }
        Operation::OpenStock { sku, bucket, units } => {
            Answer::Item(Some(database.open_stock(Sku(*sku), Bucket(*bucket), *units)))
        }
        Operation::SetOnSale { sku, bucket, on_sale } => {
            Answer::Item(database.set_on_sale(Sku(*sku), Bucket(*bucket), *on_sale))
        }
        Operation::Correct { sku, bucket, available, .. } => {
            Answer::Corrected(database.correct_available(Sku(*sku), Bucket(*bucket), call.version, *available))
        }
        Operation::Order { order } => Answer::Order(database.order(OrderId(*order)).cloned()),
        Operation::Orders => {
            Answer::Orders(database.orders.iter().map(|(order, stored)| (order, stored.clone())).collect())
        }
        Operation::BuyerOrders { buyer } => {
            let guards = database.guards.iter().filter(|((of, _), _)| *of == Buyer(*buyer));
            let orders: BTreeSet<OrderId> = guards.flat_map(|(_, guard)| guard.orders.keys()).collect();
            Answer::Numbers(orders.into_iter().collect())
        }
        Operation::HomeOrders { bucket } => {
            let of_home = |stored: &Stored| matches!(stored, Stored::Order(it) if it.placement.home.0 == *bucket);
            let orders = database.orders.iter().filter(|(_, stored)| of_home(stored));
            Answer::Numbers(orders.map(|(order, _)| order).collect())
        }
        Operation::BucketStock { bucket } => stock(database, &|of| of.0 == *bucket),
        Operation::Stock => stock(database, &|_| true),
        Operation::Life(life) => life::answer::expect(database, life, call),
        Operation::Crowd { .. } => Answer::Other("no operation of the database".to_owned()),
    }
}

/// Asks the real database.
pub async fn ask(cast: &Cast, database: &RealDatabase, call: &Call) -> Answer {
    try_ask(cast, database, call).await.unwrap_or_else(|fault| Answer::Other(fault.chain()))
}

async fn try_ask(cast: &Cast, database: &RealDatabase, call: &Call) -> Result<Answer, Fault> {
    let mark =
        ChangeMark { operation: Change::Manual, operator: OPERATOR.to_owned(), reference: call.reference.clone() };
    let activity = cast.activity(1);
    let item = |sku: u8, bucket: u8, units: Units, version: u16| StockItem {
        activity: activity.id.clone(),
        sku: real_sku(Sku(sku)),
        bucket: real_bucket(Bucket(bucket)),
        allotted: units.into(),
        available: units.into(),
        version: version.into(),
        on_sale: true,
        changed_at: cast.created,
    };
    Ok(match &call.operation {
        Operation::Commit { of, parts, limit } => {
            let order = cast.both(*of).real.clone().into_order(real_parts(parts));
            commit(database.commit(&order, (*limit).into()).await?, Answer::Commit)
        }
        Operation::Claim { of, knows } => {
            let real = &cast.both(*of).real;
            let mut tombstone = real.clone().into_tombstone(cast.created);
            if !knows {
                tombstone = Tombstone { buyer: None, placement: None, ..tombstone };
            }
            match database.claim(&tombstone).await? {
                RealClaim::Aborted => Answer::Claim(Claim::Aborted),
                RealClaim::Order(found) => {
                    order(cast, &found).map_or_else(Answer::Other, |found| Answer::Claim(Claim::Order(found)))
                }
            }
        }
        Operation::OpenStock { sku, bucket, units } => {
            items(&[database.open_stock(&item(*sku, *bucket, *units, 1), &mark).await?], true)
        }
        Operation::SetOnSale { sku, bucket, on_sale } => {
            let (sku, bucket) = (real_sku(Sku(*sku)), real_bucket(Bucket(*bucket)));
            let set = database.set_on_sale(&activity.id, &sku, bucket, *on_sale, &mark).await?;
            items(set.as_slice(), true)
        }
        Operation::Correct { sku, bucket, available, .. } => {
            let known = item(*sku, *bucket, 0, call.version);
            Answer::Corrected(database.correct_available(&known, (*available).into(), &mark).await?)
        }
        Operation::Life(life) => return life::answer::ask(cast, database, life, call).await,
        _ => return try_read(cast, database, &call.operation).await,
    })
}

async fn try_read(cast: &Cast, database: &RealDatabase, operation: &Operation) -> Result<Answer, Fault> {
    let activity = cast.activity(1);
    let numbers = |orders: Vec<holdfast::domain::order_no::OrderNo>| {
        let known: Option<BTreeSet<_>> = orders.iter().map(|number| cast.order(number.as_str())).collect();
        match known {
            Some(known) if known.len() == orders.len() => Answer::Numbers(known.into_iter().collect()),
            _ => Answer::Other(format!("{orders:?}")),
        }
    };
    Ok(match operation {
        Operation::Order { order } => {
            let found = database.order(&cast.number(OrderId(*order))).await?;
            let found = found.map(|found| stored(cast, &found)).transpose();
            found.map_or_else(Answer::Other, |found| Answer::Order(found.map(|(_, stored)| stored)))
        }
        Operation::Orders => {
            // A number may be asked for twice.
            let wanted: Vec<_> = (0..ORDERS).chain(0..2).map(|order| cast.number(OrderId(order))).collect();
            let found = database.orders(&wanted).await?;
            let found: Result<Vec<_>, _> = found.iter().map(|found| stored(cast, found)).collect();
            found.map_or_else(Answer::Other, |mut found| {
                found.sort_unstable_by_key(|(order, _)| *order);
                Answer::Orders(found)
            })
        }
        Operation::BuyerOrders { buyer } => {
            numbers(database.buyer_orders(&activity.id, cast.buyer(Buyer(*buyer))).await?)
        }
        Operation::HomeOrders { bucket } => {
            let (orders, next) = database.home_orders(&activity.id, real_bucket(Bucket(*bucket)), None).await?;
            if next.is_some() { Answer::Other("a second page".to_owned()) } else { numbers(orders) }
        }
        Operation::BucketStock { bucket } => {
            items(&database.bucket_stock(activity, real_bucket(Bucket(*bucket))).await?, false)
        }
        Operation::Stock => {
            let skus: Vec<_> = (0..SKUS).map(|sku| real_sku(Sku(sku))).collect();
            items(&database.stock(activity, &skus).await?, false)
        }
        _ => Answer::Other("no operation of the database".to_owned()),
    })
}

pub fn commit(commit: RealCommit, answer: impl FnOnce(Commit) -> Answer) -> Answer {
    answer(match commit {
        RealCommit::Committed => Commit::Committed,
        RealCommit::Exists => Commit::Exists,
        RealCommit::LimitReached => Commit::LimitReached,
        RealCommit::Frozen => Commit::Frozen,
        RealCommit::Short(short) => {
            let one = |(sku, bucket): &(_, _)| key(sku, *bucket);
            match short.iter().map(one).collect() {
                Some(short) => Commit::Short(short),
                None => return Answer::Other(format!("{short:?}")),
            }
        }
        RealCommit::CouponUsed => return Answer::Other("a coupon".to_owned()),
        RealCommit::Busy => return Answer::Busy,
    })
}

fn key(sku: &holdfast::domain::ids::Sku, bucket: holdfast::domain::ids::Bucket) -> Option<(Sku, Bucket)> {
    Some((reference_sku(sku.as_str())?, Bucket(bucket.get().try_into().ok()?)))
}

/// Stock items in the reference's terms; `one` if there can be one only.
fn items(items: &[StockItem], one: bool) -> Answer {
    let told = items.iter().map(|item| {
        let of_it = Item {
            allotted: item.allotted.try_into().ok()?,
            available: item.available.try_into().ok()?,
            version: item.version.try_into().ok()?,
            on_sale: item.on_sale,
        };
        Some((key(&item.sku, item.bucket)?, of_it))
    });
    match told.collect::<Option<Vec<_>>>() {
        Some(told) if one => Answer::Item(told.first().map(|(_, item)| *item)),
        Some(mut told) => {
            told.sort_unstable_by_key(|(key, _)| *key);
            Answer::Stock(told)
        }
        None => Answer::Other(format!("{items:?}")),
    }
}

pub fn order(cast: &Cast, real: &RealOrder) -> Result<Order, String> {
    let both = cast.by_real(&real.placement).ok_or("an order has another placement than it was committed with")?;
    let part = |part: &holdfast::domain::order::Part| {
        let (sku, bucket) = key(&part.sku, part.bucket)?;
        Some(Part { sku, bucket, units: part.units.try_into().ok()? })
    };
    let parts: Option<Vec<Part>> = real.parts.iter().map(part).collect();
    let parts = parts.ok_or_else(|| format!("parts {:?}", real.parts))?;
    let updated = cast.moment(real.updated_at).ok_or_else(|| format!("updated at {}", real.updated_at))?;
    let payments: Result<Vec<_>, String> = real.payments.iter().map(told::reference_payment).collect();
    let quota_kept = real.ended_by.as_ref().map(|ended| ended.quota_kept);
    if real.ended_by != quota_kept.map(told::ended_by) {
        return Err(format!("ended by {:?}", real.ended_by));
    }
    let (placement, status, take) = (both.reference.clone(), real.status, real.take);
    Ok(Order { placement, status, take, parts, updated, payments: payments?, quota_kept })
}

pub fn stored(cast: &Cast, real: &RealStored) -> Result<(OrderId, Stored), String> {
    match real {
        RealStored::Order(real) => {
            let order = order(cast, real)?;
            Ok((order.placement.order, Stored::Order(order)))
        }
        RealStored::Aborted(tombstone) => {
            let order = cast.order(tombstone.order_no.as_str()).ok_or("a tombstone of an unknown order")?;
            let placement = tombstone.placement.as_ref();
            let known = placement.map(|it| cast.by_real(it).ok_or("a tombstone has another placement")).transpose()?;
            if tombstone.buyer.as_ref() != known.map(|both| &both.real.buyer) {
                return Err("a tombstone names another buyer".to_owned());
            }
            Ok((order, Stored::Aborted(known.map(|both| both.reference.clone()))))
        }
    }
}
