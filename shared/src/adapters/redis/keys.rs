//! Names of all keys and hash fields in Redis. Every key of a bucket has the tag `{activity:bucket}`,
//! so one script reaches all of them on a cluster; an activity id has no braces and no colon.

use crate::domain::{
    ids::{ActivityId, Bucket, BuyerId},
    lease::LockName,
    limit::ScopeKey,
};

/// Field of the orders key that is there from preheat on. A hash that loses its last field is
/// deleted together with its expiry; with this one it never is, and when it is missing, memory is lost.
pub const SENTINEL: &str = "#";

/// Field of the bucket key: the configuration that the bucket works by. Without it, memory is lost.
pub const CONTROL: &str = "@control";
/// Field of the bucket key: orders admitted in the current second.
pub const ADMITTED: &str = "@admitted";

/// The keys of one bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketKeys {
    /// Hash: [`CONTROL`] → `version|start (ms)|end (ms)|orders per second`; [`ADMITTED`] →
    /// `second|orders admitted in it`; SKU → `free|sold|on sale (1 or 0)|allotted|version`.
    /// One hash with few fields, because every order reads and writes most of it in one go.
    pub bucket: String,
    /// Hash: order number → record; [`mark_field`] → `order_no=units;…`; and [`SENTINEL`].
    pub orders: String,
    /// Stream: the last changes, one entry each: operation → order number and units.
    pub ledger: String,
}

impl BucketKeys {
    #[must_use]
    pub fn new(activity: &ActivityId, bucket: Bucket) -> Self {
        let key = |name: &str| format!("{}:{name}", prefix(activity, bucket));
        Self { bucket: key("bucket"), orders: key("orders"), ledger: key("ledger") }
    }

    /// In the order that every script expects.
    #[must_use]
    pub fn all(self) -> Vec<String> {
        vec![self.bucket, self.orders, self.ledger]
    }

    /// Those that the scripts need which only read.
    #[must_use]
    pub fn read(self) -> Vec<String> {
        vec![self.bucket, self.orders]
    }
}

/// String: tokens that the buyer took in the current window.
#[must_use]
pub fn tokens(activity: &ActivityId, home: Bucket, buyer: &BuyerId) -> String {
    // The first pair of braces is the tag: a buyer's own come later.
    format!("{}:tokens:{}", prefix(activity, home), buyer.as_str())
}

/// String: the owner of a lock. It lives as long as the lease.
#[must_use]
pub fn lock(name: &LockName) -> String {
    format!("hf:lock:{{{}}}", name.as_str())
}

/// The field of the orders key that lists a buyer's orders in one scope. An order number has no `|`,
/// a scope has none either, and the buyer comes last.
#[must_use]
pub fn mark_field(scope: &ScopeKey, buyer: &BuyerId) -> String {
    format!("{}|{}", scope.as_str(), buyer.as_str())
}

/// Whether a field of the orders key is a buyer's mark.
#[must_use]
pub fn is_mark(field: &str) -> bool {
    field.contains('|')
}

fn prefix(activity: &ActivityId, bucket: Bucket) -> String {
    format!("hf:{{{activity}:{bucket}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f15_all_keys_of_a_bucket_share_their_tag_whatever_the_buyer_is_called() {
        let (activity, bucket) = (ActivityId::parse("sale").unwrap(), Bucket::new(3).unwrap());
        let buyer = BuyerId::parse("}{a:b}|x").unwrap();
        let mut keys = BucketKeys::new(&activity, bucket).all();
        keys.push(tokens(&activity, bucket, &buyer));
        for key in keys {
            let tag = key.split_once('{').unwrap().1.split_once('}').unwrap().0;
            assert_eq!(tag, "sale:3", "{key}");
        }
    }
}
