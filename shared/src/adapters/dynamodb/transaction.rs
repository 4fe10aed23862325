//! The order transaction: the order, the buyer's guards and every stock item it takes from, or
//! nothing.

use std::collections::BTreeMap;

use aws_sdk_dynamodb::{
    error::ProvideErrorMetadata,
    operation::transact_write_items::TransactWriteItemsError,
    types::{AttributeValue, CancellationReason, TransactWriteItem},
};
use tokio::time::Instant;

use super::{
    Database,
    calls::bad_item,
    change::Change,
    codec::{self, BadItem, Item, number, text},
    coupons::use_coupon,
    keys::{self, Key},
    orders::order_item,
    retry::{BUYER, Patience, may_pass},
    stock::{NEXT_VERSION, set_mark},
};
use crate::{
    adapters::aws::Witness,
    domain::{
        FORMAT,
        buckets::ACTIONS_MAX,
        ids::{Bucket, Sku},
        limit::{Charge, PLACEMENTS_MAX},
        order::{Event, Order, Part},
        stock::{ChangeMark, Operation},
    },
    ports::{Commit, Effect, Fault},
    telemetry::{self, Metric},
};

const OPERATION: &str = "order transaction";
/// Most actions of any transaction: the service's own limit. An order is placed with fewer
/// ([`ACTIONS_MAX`]), so that what ends the greatest one, its refund included, has room.
const TRANSACTION_MAX: usize = 100;
/// Who marks the stock that orders take.
const OPERATOR: &str = "place-order";
/// The code of an action that nothing spoke against.
const NO_OBJECTION: &str = "None";
const CONDITION_FAILED: &str = "ConditionalCheckFailed";

/// What one action of a transaction is about, so that its reason can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Order,
    /// Takes quota.
    Guard,
    /// Uses a coupon up.
    Coupon,
    /// Takes so many units.
    Stock(Sku, Bucket, u64),
    /// Gives something back, or puts something beside the order. Only what nobody planned for refuses it.
    Other,
}

/// What a cancelled transaction's reasons mean together.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Cancelled {
    Outcome(Commit),
    /// A conflict or throttling: try again.
    MayPass,
    /// Something that no one planned for.
    Broken(String),
}

impl Database {
    /// See [`crate::ports::OrderStore::commit`].
    pub(super) async fn commit_order(&self, order: &Order, limit_max: u32) -> Result<Commit, Fault> {
        let changes = order_changes(order, limit_max).map_err(bad_item(OPERATION))?;
        bounded(OPERATION, &changes, ACTIONS_MAX)?;
        let began_at = Instant::now();
        let answer = self.transact(OPERATION, changes, BUYER).await;
        telemetry::record_since(Metric::TransactionTime, began_at);
        answer
    }

    /// All of these changes or none of them. `Exists`: the order is not as its condition needs it.
    pub(super) async fn transact(
        &self,
        operation: &'static str,
        changes: Vec<(Action, Change)>,
        patience: Patience,
    ) -> Result<Commit, Fault> {
        bounded(operation, &changes, TRANSACTION_MAX)?;
        let table = &self.tables.table;
        let pair = |(action, change): (Action, Change)| Ok((action, change.into_action(table)?));
        let pairs = changes.into_iter().map(pair).collect::<Result<Vec<_>, BadItem>>();
        let (actions, request): (Vec<Action>, Vec<TransactWriteItem>) =
            pairs.map_err(bad_item(operation))?.into_iter().unzip();
        let witness = Witness::default();
        for tried in 0..patience.tries {
            patience.pause(tried).await;
            // A new request each time, with the SDK's own client request token: what was cancelled
            // under one token must be judged anew.
            telemetry::count(Metric::TransactionTries, 1);
            let transaction = self.client.transact_write_items().set_transact_items(Some(request.clone()));
            let Err(error) = transaction.customize().interceptor(witness.clone()).send().await else {
                return Ok(Commit::Committed);
            };
            let cancelled = match error.as_service_error() {
                Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                    classify(&actions, cancelled.cancellation_reasons())
                }
                Some(other) if other.code().is_some_and(may_pass) => Cancelled::MayPass,
                _ => return Err(witness.fault(operation, error)),
            };
            match cancelled {
                // Also after an attempt in doubt: should that one still arrive, the claim that follows
                // every refusal decides between the two.
                Cancelled::Outcome(commit) => return Ok(commit),
                Cancelled::MayPass => telemetry::count(Metric::TransactionConflicts, 1),
                Cancelled::Broken(what) => return Err(witness.fault(operation, what)),
            }
        }
        match witness.effect() {
            Effect::None => Ok(Commit::Busy),
            Effect::Unknown => Err(witness.fault(operation, "an attempt was not answered, and later ones collided")),
        }
    }
}

/// Refuses what is too much before anything is sent.
fn bounded(operation: &'static str, changes: &[(Action, Change)], most: usize) -> Result<(), Fault> {
    if changes.len() <= most {
        return Ok(());
    }
    Err(Fault::not_applied(operation, format!("{} actions are more than {most}", changes.len())))
}

fn order_changes(order: &Order, limit_max: u32) -> Result<Vec<(Action, Change)>, BadItem> {
    let mut changes = vec![(Action::Order, Change::put(order_item(order)?).only_before(Event::Place).traced())];
    for charge in &order.placement.charges {
        changes.push((Action::Guard, charge_guard(order, charge, limit_max)));
    }
    changes.extend(use_coupon(order));
    changes.extend(take_parts(order, &order.parts, OPERATOR));
    Ok(changes)
}

/// Takes an order's parts from their stock items.
pub fn take_parts<'a>(
    order: &'a Order,
    parts: &'a [Part],
    operator: &'a str,
) -> impl Iterator<Item = (Action, Change)> + 'a {
    merged(parts).into_iter().map(move |((sku, bucket), units)| {
        (Action::Stock(sku.clone(), bucket, units), take_stock(order, (sku, bucket), units, operator))
    })
}

/// Units by stock item: one item may appear once only.
pub fn merged(parts: &[Part]) -> BTreeMap<(&Sku, Bucket), u64> {
    let mut units: BTreeMap<(&Sku, Bucket), u64> = BTreeMap::new();
    for part in parts {
        *units.entry((&part.sku, part.bucket)).or_default() += u64::from(part.units);
    }
    units
}

/// Counts the order in one scope of its buyer, within the limit in units and placements.
fn charge_guard(order: &Order, charge: &Charge, limit_max: u32) -> Change {
    let placement = &order.placement;
    let room = i64::from(limit_max) - i64::from(charge.units);
    let entry = Item::from([
        (keys::ORDER_NO.to_owned(), text(placement.order_no.as_str())),
        (keys::UNITS.to_owned(), number(charge.units)),
    ]);
    let counted = "#format = :format AND #units <= :room AND size(#orders) < :placements";
    // The first order of a scope finds no guard; it must keep the limit all the same.
    let condition = if room >= 0 { format!("attribute_not_exists(#pk) OR ({counted})") } else { counted.to_owned() };
    Change::update(
        Key::guard(&placement.activity, &placement.buyer, &charge.scope),
        "SET #format = :format, #orders = list_append(if_not_exists(#orders, :none), :entry) ADD #units :units",
    )
    .only_if(condition)
    .value("format", number(FORMAT))
    .value("none", AttributeValue::L(Vec::new()))
    .value("entry", AttributeValue::L(vec![AttributeValue::M(entry)]))
    .value("units", number(charge.units))
    .value("room", number(room))
    .value("placements", AttributeValue::N(PLACEMENTS_MAX.to_string()))
}

/// Takes units from one stock item that is on sale and has them.
fn take_stock(order: &Order, (sku, bucket): (&Sku, Bucket), units: u64, operator: &str) -> Change {
    let placement = &order.placement;
    let mark = ChangeMark {
        operation: Operation::Order,
        operator: operator.to_owned(),
        reference: placement.order_no.as_str().to_owned(),
    };
    let change = Change::update(
        Key::stock(&placement.activity, sku, bucket),
        &format!("SET #available = #available - :units, {NEXT_VERSION}"),
    )
    .only_if("#format = :format AND #on_sale = :on_sale AND #available >= :units")
    .value("format", number(FORMAT))
    .value("units", number(units))
    .value("on_sale", AttributeValue::Bool(true));
    set_mark(change, &mark)
}

/// Every reason is read by itself; of all that they say, the first in this order counts: the order is
/// stored, a conflict or throttling, the limit, the coupon, the sale switch, the stock, anything else.
fn classify(actions: &[Action], reasons: &[CancellationReason]) -> Cancelled {
    let broken = || Cancelled::Broken(format!("cancelled for {:?}", codes(reasons)));
    if reasons.len() != actions.len() {
        return broken();
    }
    let (mut collided, mut limited, mut used, mut frozen, mut short) = (false, false, false, false, Vec::new());
    for (action, reason) in actions.iter().zip(reasons) {
        match (action, reason.code().unwrap_or(NO_OBJECTION)) {
            (_, NO_OBJECTION) | (Action::Other, CONDITION_FAILED) => {}
            (Action::Order, CONDITION_FAILED) => return Cancelled::Outcome(Commit::Exists),
            (Action::Guard, CONDITION_FAILED) => limited |= is_readable(reason),
            (Action::Coupon, CONDITION_FAILED) => used |= is_readable(reason),
            (Action::Stock(sku, bucket, units), CONDITION_FAILED) => match stock_refusal(reason.item(), *units) {
                Some(StockRefusal::Frozen) => frozen = true,
                Some(StockRefusal::Short) => short.push((sku.clone(), *bucket)),
                None => {}
            },
            (_, code) => collided |= may_pass(code),
        }
    }
    if collided {
        Cancelled::MayPass
    } else if limited {
        Cancelled::Outcome(Commit::LimitReached)
    } else if used {
        Cancelled::Outcome(Commit::CouponUsed)
    } else if frozen {
        Cancelled::Outcome(Commit::Frozen)
    } else if !short.is_empty() {
        Cancelled::Outcome(Commit::Short(short))
    } else {
        broken()
    }
}

/// Whether the condition failed on an item that is as it should be: one in another format has not been judged
/// right, and that is no refusal.
fn is_readable(reason: &CancellationReason) -> bool {
    reason.item().is_none_or(|item| codec::check_format(item).is_ok())
}

enum StockRefusal {
    Frozen,
    Short,
}

/// Why a stock item refused, by the item as it was then. `None` when it does not tell.
fn stock_refusal(item: Option<&Item>, units: u64) -> Option<StockRefusal> {
    let Some(item) = item.filter(|item| !item.is_empty()) else { return Some(StockRefusal::Short) };
    codec::check_format(item).ok()?;
    if !codec::truth(item, keys::ON_SALE).ok()? {
        return Some(StockRefusal::Frozen);
    }
    (codec::whole(item, keys::AVAILABLE).ok()? < units).then_some(StockRefusal::Short)
}

fn codes(reasons: &[CancellationReason]) -> Vec<&str> {
    reasons.iter().map(|reason| reason.code().unwrap_or(NO_OBJECTION)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stock item as the reason of its action tells it.
    fn stored(on_sale: bool, available: u64) -> Item {
        Item::from([
            (keys::FORMAT.to_owned(), number(FORMAT)),
            (keys::ON_SALE.to_owned(), AttributeValue::Bool(on_sale)),
            (keys::AVAILABLE.to_owned(), number(available)),
        ])
    }

    fn of_another_format() -> Item {
        Item::from([(keys::FORMAT.to_owned(), number(FORMAT + 1))])
    }

    fn reason(code: &str, item: Option<Item>) -> CancellationReason {
        CancellationReason::builder().code(code).set_item(item).build()
    }

    /// The order, one guard, two units of stock in each of two buckets; one letter for each reason.
    fn verdict(reasons: &str) -> Cancelled {
        let stock = |bucket| Action::Stock(Sku::parse("a").unwrap(), Bucket::new(bucket).unwrap(), 2);
        let reason = |letter| match letter {
            '-' => reason("None", None),
            'x' => reason(CONDITION_FAILED, None),
            'f' => reason(CONDITION_FAILED, Some(stored(false, 0))),
            'F' => reason(CONDITION_FAILED, Some(stored(false, 9))),
            's' => reason(CONDITION_FAILED, Some(stored(true, 1))),
            'e' => reason(CONDITION_FAILED, Some(stored(true, 2))),
            '2' => reason(CONDITION_FAILED, Some(of_another_format())),
            'c' => reason("TransactionConflict", None),
            't' => reason("ThrottlingError", None),
            'p' => reason("ProvisionedThroughputExceeded", None),
            'v' => reason("ValidationError", None),
            _ => reason("ItemCollectionSizeLimitExceeded", None),
        };
        let reasons: Vec<_> = reasons.chars().map(reason).collect();
        classify(&[Action::Order, Action::Guard, stock(0), stock(1)], &reasons)
    }

    fn short(buckets: &[u16]) -> Cancelled {
        let part = |bucket: &u16| (Sku::parse("a").unwrap(), Bucket::new(*bucket).unwrap());
        Cancelled::Outcome(Commit::Short(buckets.iter().map(part).collect()))
    }

    #[test]
    fn every_reason_by_itself() {
        let rows = [
            ("x---", Cancelled::Outcome(Commit::Exists)),
            ("-x--", Cancelled::Outcome(Commit::LimitReached)),
            // Never put on sale there.
            ("--x-", short(&[0])),
            ("---s", short(&[1])),
            ("--f-", Cancelled::Outcome(Commit::Frozen)),
            ("---F", Cancelled::Outcome(Commit::Frozen)),
        ];
        for (reasons, expected) in rows {
            assert_eq!(verdict(reasons), expected, "{reasons}");
        }
        for at in 0..4 {
            for code in ['c', 't', 'p', 'v', '?'] {
                let reasons: String = (0..4).map(|action| if action == at { code } else { '-' }).collect();
                let may_pass = verdict(&reasons) == Cancelled::MayPass;
                assert_eq!(may_pass, "ctp".contains(code), "{reasons}");
                assert_eq!(matches!(verdict(&reasons), Cancelled::Broken(_)), !may_pass, "{reasons}");
            }
        }
    }

    #[test]
    fn of_several_reasons_the_first_in_precedence_counts() {
        let rows = [
            ("xxss", Cancelled::Outcome(Commit::Exists)),
            ("xcct", Cancelled::Outcome(Commit::Exists)),
            ("xv??", Cancelled::Outcome(Commit::Exists)),
            ("-xct", Cancelled::MayPass),
            ("-cfs", Cancelled::MayPass),
            ("cxss", Cancelled::MayPass),
            ("--pv", Cancelled::MayPass),
            ("-xfs", Cancelled::Outcome(Commit::LimitReached)),
            ("-x-v", Cancelled::Outcome(Commit::LimitReached)),
            ("--fs", Cancelled::Outcome(Commit::Frozen)),
            ("--sf", Cancelled::Outcome(Commit::Frozen)),
            ("--vf", Cancelled::Outcome(Commit::Frozen)),
            ("--xs", short(&[0, 1])),
            ("--sv", short(&[0])),
        ];
        for (reasons, expected) in rows {
            assert_eq!(verdict(reasons), expected, "{reasons}");
        }
    }

    #[test]
    fn a_coupon_ranks_after_the_limit_and_before_the_stock() {
        let actions = [
            Action::Order,
            Action::Guard,
            Action::Coupon,
            Action::Stock(Sku::parse("a").unwrap(), Bucket::new(0).unwrap(), 2),
        ];
        let failed = |item| reason(CONDITION_FAILED, item);
        let none = || reason(NO_OBJECTION, None);
        let stock = || failed(Some(stored(true, 1)));
        let verdict = |order, guard, coupon, stock| classify(&actions, &[order, guard, coupon, stock]);
        let used = Cancelled::Outcome(Commit::CouponUsed);
        assert_eq!(verdict(none(), none(), failed(None), none()), used);
        assert_eq!(verdict(none(), none(), failed(None), stock()), used);
        assert_eq!(verdict(none(), failed(None), failed(None), stock()), Cancelled::Outcome(Commit::LimitReached));
        assert_eq!(verdict(failed(None), none(), failed(None), none()), Cancelled::Outcome(Commit::Exists));
        assert_eq!(verdict(none(), none(), failed(None), reason("TransactionConflict", None)), Cancelled::MayPass);
        let unreadable = verdict(none(), none(), failed(Some(of_another_format())), none());
        assert!(matches!(unreadable, Cancelled::Broken(_)), "{unreadable:?}");
    }

    #[test]
    fn reasons_that_do_not_add_up_are_no_business_result() {
        // Enough and on sale, yet refused; written in another format; a reason too few or too many.
        for reasons in ["--e-", "--2-", "-2--", "----", "x--", "x----", ""] {
            assert!(matches!(verdict(reasons), Cancelled::Broken(_)), "{reasons}");
        }
    }
}
