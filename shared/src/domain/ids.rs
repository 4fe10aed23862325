//! Identifiers, parsed once at the edge. Inside there are no bare strings for ids.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Invalid;

/// Longest activity id and SKU, in characters.
pub const ID_MAX_CHARS: usize = 64;
/// Longest buyer id (`sub` claim), in bytes.
pub const BUYER_MAX_BYTES: usize = 255;
/// Most buckets of one activity. A bucket is one Redis slot and one database item per SKU.
pub const BUCKETS_MAX: u16 = 64;

/// Letters, digits, `_ . -`, starting with a letter or digit. Braces never pass, so an id cannot move
/// a key to another cluster slot; `#`, `|`, `=` and `,` never pass, so ids can be joined with them.
fn parse_id(field: &'static str, text: &str) -> Result<String, Invalid> {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    let all_allowed = text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if starts_well && all_allowed && text.len() <= ID_MAX_CHARS {
        Ok(text.to_owned())
    } else {
        Err(Invalid::new(field, "must be 1 to 64 of A-Z a-z 0-9 _ . - and start with a letter or digit"))
    }
}

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            /// # Errors
            /// When the text is not 1–64 of the allowed characters.
            pub fn parse(text: &str) -> Result<Self, Invalid> {
                parse_id($field, text).map(Self)
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(text: String) -> Result<Self, Invalid> {
                Self::parse(&text)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id!(
    /// One flash sale.
    ActivityId,
    "activity"
);
text_id!(
    /// One stock keeping unit of an activity.
    Sku,
    "sku"
);

/// The buyer: the authorizer's `sub` claim, compared byte for byte. Personal: `Debug` and logs show
/// only [`BuyerId::log_id`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BuyerId(String);

impl BuyerId {
    /// # Errors
    /// When the text is empty, longer than 255 bytes or has anything but visible ASCII.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let visible = text.bytes().all(|b| b.is_ascii_graphic());
        if visible && !text.is_empty() && text.len() <= BUYER_MAX_BYTES {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("sub", "must be 1 to 255 visible ASCII characters"))
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A short hash that tells buyers apart in logs without naming them.
    #[must_use]
    pub fn log_id(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        data_encoding::HEXLOWER.encode(&digest[..6])
    }

    /// The bucket where this buyer's orders and marks live. Fixed while the number of buckets is,
    /// which is why that number cannot change after preheat.
    #[must_use]
    pub fn home(&self, buckets: BucketCount) -> Bucket {
        let digest = Sha256::digest(self.0.as_bytes());
        let mut first = [0_u8; 8];
        first.copy_from_slice(&digest[..8]);
        let index = u64::from_be_bytes(first) % u64::from(buckets.get());
        Bucket(u16::try_from(index).unwrap_or(0))
    }
}

impl TryFrom<String> for BuyerId {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<BuyerId> for String {
    fn from(id: BuyerId) -> Self {
        id.0
    }
}

impl std::fmt::Debug for BuyerId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BuyerId({})", self.log_id())
    }
}

/// Index of a bucket, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct Bucket(u16);

impl Bucket {
    /// # Errors
    /// When the index is 64 or more.
    pub fn new(index: u16) -> Result<Self, Invalid> {
        if index < BUCKETS_MAX { Ok(Self(index)) } else { Err(Invalid::new("bucket", "must be below 64")) }
    }

    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl TryFrom<u16> for Bucket {
    type Error = Invalid;
    fn try_from(index: u16) -> Result<Self, Invalid> {
        Self::new(index)
    }
}

impl From<Bucket> for u16 {
    fn from(bucket: Bucket) -> Self {
        bucket.0
    }
}

impl std::fmt::Display for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// How many buckets an activity has: 1 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct BucketCount(u16);

impl BucketCount {
    /// # Errors
    /// When the count is not 1 to 64.
    pub fn new(count: u16) -> Result<Self, Invalid> {
        if (1..=BUCKETS_MAX).contains(&count) {
            Ok(Self(count))
        } else {
            Err(Invalid::new("buckets", "must be 1 to 64"))
        }
    }

    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }

    /// Every bucket, in order.
    pub fn all(self) -> impl DoubleEndedIterator<Item = Bucket> + Clone {
        (0..self.0).map(Bucket)
    }
}

impl TryFrom<u16> for BucketCount {
    type Error = Invalid;
    fn try_from(count: u16) -> Result<Self, Invalid> {
        Self::new(count)
    }
}

impl From<BucketCount> for u16 {
    fn from(count: BucketCount) -> Self {
        count.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f15_ids_that_could_leave_their_slot_or_their_field_are_refused() {
        for bad in ["", "{a}", "a{b", "a:b", "a#b", "a|b", "a=b", "a,b", "-a", ".a", "_a", "a b", "é", "a\n"] {
            assert!(ActivityId::parse(bad).is_err(), "{bad:?}");
            assert!(Sku::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Sku::parse(&"a".repeat(64)).is_ok());
        assert!(Sku::parse(&"a".repeat(65)).is_err());
    }

    #[test]
    fn buyers_are_visible_ascii_and_never_printed() {
        for bad in ["", "a b", "a\t", "ü", "\u{7f}"] {
            assert!(BuyerId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(BuyerId::parse(&"x".repeat(256)).is_err());
        let buyer = BuyerId::parse("auth0|alice@example.org").unwrap();
        assert!(!format!("{buyer:?}").contains("alice"));
    }

    #[test]
    fn homes_spread_over_all_buckets() {
        let buckets = BucketCount::new(8).unwrap();
        let mut seen = [0_u32; 8];
        for n in 0..8_000 {
            seen[usize::from(BuyerId::parse(&format!("u{n}")).unwrap().home(buckets).get())] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1150).contains(&n)), "{seen:?}");
    }
}
