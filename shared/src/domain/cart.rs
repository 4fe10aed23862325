//! The lines of an order: merged, ordered and hashed before anything is checked.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{
    Invalid,
    activity::Activity,
    coupon::CouponCode,
    ids::Sku,
    money::{Money, Quantity},
};

/// Most lines of one order, as sent.
pub const LINES_MAX: usize = 20;

/// What a buyer asks for: 1 to 20 lines, one per SKU, in SKU order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart(Vec<(Sku, Quantity)>);

impl Cart {
    /// Lines of the same SKU are added up before any check.
    ///
    /// # Errors
    /// When there are none or more than 20 lines, or when one SKU adds up to more than 1,000 units.
    pub fn new(lines: impl IntoIterator<Item = (Sku, Quantity)>) -> Result<Self, Invalid> {
        let mut merged: BTreeMap<Sku, u32> = BTreeMap::new();
        let mut count = 0;
        for (sku, quantity) in lines {
            count += 1;
            if count > LINES_MAX {
                break;
            }
            *merged.entry(sku).or_default() += quantity.get();
        }
        if !(1..=LINES_MAX).contains(&count) {
            return Err(Invalid::new("lines", "must be 1 to 20 lines"));
        }
        let lines: Result<_, _> = merged.into_iter().map(|(sku, units)| Ok((sku, Quantity::new(units)?))).collect();
        lines.map(Self)
    }

    #[must_use]
    pub fn lines(&self) -> &[(Sku, Quantity)] {
        &self.0
    }

    /// The lines with the activity's prices, fixed from here on; or the first SKU it does not sell.
    ///
    /// # Errors
    /// The SKU that the activity does not sell.
    pub fn priced(&self, activity: &Activity) -> Result<Vec<OrderLine>, Sku> {
        let price = |sku: &Sku| activity.offer(sku).map(|offer| offer.price).ok_or_else(|| sku.clone());
        self.0
            .iter()
            .map(|(sku, quantity)| Ok(OrderLine { price: price(sku)?, sku: sku.clone(), quantity: *quantity }))
            .collect()
    }

    /// Of these lines, and of the coupon where there is one.
    #[must_use]
    pub fn hash(&self, coupon: Option<&CouponCode>) -> LinesHash {
        LinesHash::of(self.0.iter().map(|(sku, quantity)| (sku, *quantity)), coupon)
    }
}

/// One line of an order, with the price of one unit at admission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderLine {
    pub sku: Sku,
    pub quantity: Quantity,
    pub price: Money,
}

/// What all lines cost together.
#[must_use]
pub fn total(lines: &[OrderLine]) -> Money {
    lines.iter().map(|line| line.price.times(line.quantity)).sum()
}

/// 128 bits of SHA-256 over the merged lines and the coupon, in hexadecimal: tells whether a retry of a submission
/// asks for the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinesHash(String);

impl LinesHash {
    fn of<'a>(lines: impl Iterator<Item = (&'a Sku, Quantity)>, coupon: Option<&CouponCode>) -> Self {
        let mut hasher = Sha256::new();
        for (sku, quantity) in lines {
            // A SKU has no NUL and is at most 64 characters, so this cannot be read two ways.
            hasher.update(sku.as_str().as_bytes());
            hasher.update([0]);
            hasher.update(quantity.get().to_be_bytes());
        }
        if let Some(coupon) = coupon {
            // No SKU is empty, so no line reads like this.
            hasher.update([0]);
            hasher.update(coupon.as_str().as_bytes());
        }
        Self(data_encoding::HEXLOWER.encode(&hasher.finalize()[..16]))
    }

    /// # Errors
    /// When the text is not 32 lower-case hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let hex = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if hex && text.len() == 32 {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("lines_hash", "must be 32 hexadecimal digits"))
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for LinesHash {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<LinesHash> for String {
    fn from(hash: LinesHash) -> Self {
        hash.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cart(lines: &[(&str, u32)]) -> Result<Cart, Invalid> {
        Cart::new(lines.iter().map(|(sku, q)| (Sku::parse(sku).unwrap(), Quantity::new(*q).unwrap())))
    }

    #[test]
    fn lines_of_one_sku_are_added_up_and_order_does_not_matter() {
        let a = cart(&[("b", 1), ("a", 2), ("b", 3)]).unwrap();
        let b = cart(&[("a", 2), ("b", 4)]).unwrap();
        assert_eq!(a, b);
        assert_eq!(a.hash(None), b.hash(None));
        assert_ne!(a.hash(None), cart(&[("a", 4), ("b", 2)]).unwrap().hash(None));
        // A literal: a change of the rule would make every retry of a running sale another order.
        assert_eq!(a.hash(None).as_str(), "f4771b3db6411b72fd0ffdf61c8f4c01");
        let coupon = |digit: &str| CouponCode::parse(&digit.repeat(40)).unwrap();
        assert_ne!(a.hash(Some(&coupon("0"))), a.hash(None));
        assert_ne!(a.hash(Some(&coupon("0"))), a.hash(Some(&coupon("1"))));
    }

    #[test]
    fn carts_are_bounded() {
        assert!(cart(&[]).is_err());
        assert!(cart(&[("a", 1); 20]).is_ok());
        assert!(cart(&[("a", 1); 21]).is_err());
        assert!(cart(&[("a", 600), ("a", 401)]).is_err());
    }
}
