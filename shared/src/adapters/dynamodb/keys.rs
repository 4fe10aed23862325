//! Every key and attribute name of both tables, in one place.

use aws_sdk_dynamodb::types::AttributeValue;

use super::codec::{BadItem, Item, text_of};
use crate::{
    domain::{
        coupon::CouponCode,
        ids::{ActivityId, Bucket, BuyerId, Sku},
        limit::ScopeKey,
        order_no::OrderNo,
        payment::PaymentId,
        stock::MoveId,
        time::UnixMillis,
    },
    ports::Cursor,
};

pub const PK: &str = "pk";
pub const SK: &str = "sk";
/// On every item: the format that it is written in.
pub const FORMAT: &str = "format";
/// On dead items: when the table drops them, in seconds since 1970.
pub const EXPIRES_AT: &str = "expires_at";

/// The only index: committed orders by home bucket and payment deadline. Keys only; its two
/// attributes are never updated, so a later change of the order costs no index write.
pub const HOME_INDEX: &str = "home_orders";
/// `activity#bucket`.
pub const HOME: &str = "home";
/// `pay_before#order_no`.
pub const DUE: &str = "due";

pub const STATUS: &str = "status";
pub const UNITS: &str = "units";
pub const ORDERS: &str = "orders";
pub const ORDER_NO: &str = "order_no";
pub const AVAILABLE: &str = "available";
pub const VERSION: &str = "version";
pub const ON_SALE: &str = "on_sale";
/// The mark of the system's last change of a stock item: what, who, what for.
pub const OP: &str = "op";
pub const OPERATOR: &str = "operator";
pub const REF: &str = "ref";
/// The trace that an item's last write belongs to, for the relay.
pub const TRACE: &str = "trace";
pub const CURSOR: &str = "cursor";
/// Whose turn a job is: only raised.
pub const FENCE: &str = "fence";
/// On audit rows: which stream event told of the change, and whether the row fills a gap.
pub const EVENT_ID: &str = "event_id";
pub const FILLED: &str = "filled";

const ORDER_PREFIX: &str = "O#";
const ORDER_SORT: &str = "O";
/// Digits of a version in an audit key, so that rows sort by it.
const VERSION_DIGITS: usize = 20;

/// The primary key of an item.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub pk: String,
    pub sk: String,
}

impl Key {
    fn new(pk: String, sk: impl Into<String>) -> Self {
        Self { pk, sk: sk.into() }
    }

    pub fn order(order_no: &OrderNo) -> Self {
        Self::new(format!("{ORDER_PREFIX}{order_no}"), ORDER_SORT)
    }

    pub fn guard(activity: &ActivityId, buyer: &BuyerId, scope: &ScopeKey) -> Self {
        Self::new(guards(activity, buyer), format!("G#{}", scope.as_str()))
    }

    pub fn stock(activity: &ActivityId, sku: &Sku, bucket: Bucket) -> Self {
        Self::new(format!("S#{activity}#{sku}#{bucket}"), "S")
    }

    /// The use of a coupon.
    pub fn coupon(activity: &ActivityId, code: &CouponCode) -> Self {
        Self::new(format!("C#{activity}#{}", code.as_str()), "C")
    }

    /// A change of allotments.
    pub fn stock_move(activity: &ActivityId, id: &MoveId) -> Self {
        Self::new(format!("M#{activity}"), id.as_str())
    }

    pub fn activity(id: &str) -> Self {
        Self::new(ACTIVITIES.to_owned(), id)
    }

    /// Where an activity goes that is over for good: a partition of its own, so that no listing reads it.
    pub fn archived(id: &ActivityId) -> Self {
        Self::new(format!("AX#{id}"), "A")
    }

    /// Money that goes back, by the order that it was paid for.
    pub fn refund(order_no: &OrderNo, payment: &PaymentId) -> Self {
        Self::new(refunds(order_no), payment.as_str())
    }

    pub fn progress(job: &str) -> Self {
        Self::new("P".to_owned(), job)
    }

    /// Findings of one run in one bucket, in the order of time.
    pub fn findings(activity: &ActivityId, at: UnixMillis, bucket: Bucket, fence: u64, number: u32) -> Self {
        Self::new(findings(activity), format!("{at:.3}#{bucket}#{fence}#{number:05}"))
    }

    /// The state of admission.
    pub fn admission() -> Self {
        Self::new("P".to_owned(), "admission")
    }

    /// A row of the audit table. An untracked change has its event in the key as well, so that it can
    /// neither hide nor replace the tracked change of that version.
    pub fn audit(item: String, version: u64, untracked_event: Option<&str>) -> Self {
        let sort = untracked_event.map_or_else(String::new, |event| format!("#{event}"));
        Self::new(item, format!("{version:0VERSION_DIGITS$}{sort}"))
    }

    pub fn into_item(self) -> Item {
        Item::from([(PK.to_owned(), AttributeValue::S(self.pk)), (SK.to_owned(), AttributeValue::S(self.sk))])
    }
}

/// Partition of all activities.
pub const ACTIVITIES: &str = "A";

/// Partition of all guards of a buyer in an activity.
pub fn guards(activity: &ActivityId, buyer: &BuyerId) -> String {
    format!("B#{activity}#{}", buyer.as_str())
}

/// Partition of what goes back of the payments for an order.
pub fn refunds(order_no: &OrderNo) -> String {
    format!("F#{order_no}")
}

/// Partition of the index: the orders whose home is this bucket.
pub fn home(activity: &ActivityId, bucket: Bucket) -> String {
    format!("{activity}#{bucket}")
}

/// Partition of what reconciliations found in an activity.
pub fn findings(activity: &ActivityId) -> String {
    format!("R#{activity}")
}

/// A cursor before the first audit row of the version after this one: behind every event of this one.
pub fn after_version(version: u64) -> Cursor {
    Cursor(format!("{version:0VERSION_DIGITS$}~"))
}

/// Partition of the audit rows of one stock item.
pub fn audit_rows(activity: &ActivityId, sku: &Sku, bucket: Bucket) -> String {
    format!("{activity}#{sku}#{bucket}")
}

/// The bucket in the index's partition key.
pub fn home_bucket(home: &str) -> Option<u16> {
    home.rsplit_once('#')?.1.parse().ok()
}

/// A cursor within a known partition: the sort key to go on after.
pub fn cursor(last: Option<&Item>) -> Result<Option<Cursor>, BadItem> {
    last.map(|key| text_of(key, SK).map(|sk| Cursor(sk.to_owned()))).transpose()
}

/// The order in the key of an order's item.
pub fn order_no(pk: &str) -> Option<OrderNo> {
    OrderNo::parse(pk.strip_prefix(ORDER_PREFIX)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_literally_these() {
        let (activity, sku) = (ActivityId::parse("sale").unwrap(), Sku::parse("phone").unwrap());
        let (buyer, bucket) = (BuyerId::parse("auth0|a#b").unwrap(), Bucket::new(7).unwrap());
        let number = OrderNo::parse("03PMZ9TWHB6V08WN8MG9SWRMDG").unwrap();
        let scope: ScopeKey = serde_json::from_str("\"S#phone\"").unwrap();
        let cases = [
            (Key::order(&number), "O#03PMZ9TWHB6V08WN8MG9SWRMDG", "O"),
            (Key::guard(&activity, &buyer, &scope), "B#sale#auth0|a#b", "G#S#phone"),
            (Key::stock(&activity, &sku, bucket), "S#sale#phone#7", "S"),
            (Key::activity("sale"), "A", "sale"),
            (Key::progress("reconcile#sale"), "P", "reconcile#sale"),
            (Key::audit(audit_rows(&activity, &sku, bucket), 42, None), "sale#phone#7", "00000000000000000042"),
            (
                Key::audit(audit_rows(&activity, &sku, bucket), 42, Some("e1")),
                "sale#phone#7",
                "00000000000000000042#e1",
            ),
        ];
        for (key, pk, sk) in cases {
            assert_eq!((key.pk.as_str(), key.sk.as_str()), (pk, sk));
        }
        assert_eq!(home_bucket(&home(&activity, bucket)), Some(7));
        assert_eq!(order_no("O#03PMZ9TWHB6V08WN8MG9SWRMDG"), Some(number));
        assert_eq!(order_no("S#03PMZ9TWHB6V08WN8MG9SWRMDG"), None);
    }
}
