//! The order number: the name of a submission, the same for every retry of it, whoever computes it
//! and whatever was forgotten. It is what makes every later step idempotent.

use data_encoding::{Encoding, Specification};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::LazyLock;

use super::{
    Invalid,
    ids::{ActivityId, BuyerId},
    token::TokenId,
};

/// Characters of an order number.
pub const ORDER_NO_CHARS: usize = 26;
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// First 128 bits of SHA-256 over length-prefixed (activity, buyer, token id), as 26 upper-case
/// Crockford base-32 characters. Not a timestamp and not a counter, so it tells nothing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OrderNo(String);

/// Crockford's base 32, upper case.
pub(super) static BASE32: LazyLock<Encoding> = LazyLock::new(|| {
    let mut spec = Specification::new();
    spec.symbols.push_str(std::str::from_utf8(CROCKFORD).unwrap_or_default());
    spec.encoding().unwrap_or(data_encoding::BASE32_NOPAD)
});

impl OrderNo {
    #[must_use]
    pub fn derive(activity: &ActivityId, buyer: &BuyerId, token: &TokenId) -> Self {
        let mut hasher = Sha256::new();
        for part in [activity.as_str().as_bytes(), buyer.as_str().as_bytes(), token.as_bytes()] {
            hasher.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hasher.update(part);
        }
        Self(BASE32.encode(&hasher.finalize()[..16]))
    }

    /// Only the canonical spelling: 26 characters of the alphabet that stand for exactly 128 bits.
    ///
    /// # Errors
    /// When it is anything else.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let invalid = || Invalid::new("order_no", "must be 26 characters of 0-9 A-Z without I L O U");
        let bytes = BASE32.decode(text.as_bytes()).map_err(|_| invalid())?;
        if bytes.len() == 16 { Ok(Self(text.to_owned())) } else { Err(invalid()) }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The 128 bits that it stands for: a short form for holding many.
    #[must_use]
    pub fn as_u128(&self) -> u128 {
        let bytes = BASE32.decode(self.0.as_bytes()).unwrap_or_default();
        bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
    }
}

impl TryFrom<String> for OrderNo {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<OrderNo> for String {
    fn from(order_no: OrderNo) -> Self {
        order_no.0
    }
}

impl std::fmt::Display for OrderNo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_no(activity: &str, buyer: &str, id: u8) -> OrderNo {
        OrderNo::derive(
            &ActivityId::parse(activity).unwrap(),
            &BuyerId::parse(buyer).unwrap(),
            &TokenId::from_bytes([id; 16]),
        )
    }

    #[test]
    fn f27_the_same_submission_has_the_same_number_for_ever() {
        // A literal: a change of the rule would orphan every order of a running sale.
        assert_eq!(order_no("sale", "alice", 7).as_str(), "03PMZ9TWHB6V08WN8MG9SWRMDG");
        assert_ne!(order_no("sale", "alice", 7), order_no("sale", "alice", 8));
        assert_ne!(order_no("salea", "lice", 7), order_no("sale", "alice", 7));
    }

    #[test]
    fn only_the_canonical_spelling_parses() {
        let good = order_no("sale", "alice", 7);
        assert_eq!(OrderNo::parse(good.as_str()).unwrap(), good);
        assert!(OrderNo::parse(&good.as_str().to_lowercase()).is_err());
        assert!(OrderNo::parse(&good.as_str()[1..]).is_err());
        assert!(OrderNo::parse(&format!("{good}0")).is_err());
        // The last character carries two bits of padding that must be zero.
        assert!(OrderNo::parse(&format!("{}Z", &good.as_str()[..25])).is_err());
        assert!(OrderNo::parse("IIIIIIIIIIIIIIIIIIIIIIIIII").is_err());
    }
}
