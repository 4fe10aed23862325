//! Quantities and money: bounded whole numbers, no floats.

use serde::{Deserialize, Serialize};

use super::Invalid;

/// Most units of one line of an order.
pub const QUANTITY_MAX: u32 = 1_000;
/// Most units of one SKU put on sale. Far below 2^53, where Lua's numbers stop being exact.
pub const STOCK_MAX: u64 = 1_000_000_000;
/// Highest price of one unit, in minor units: 20 lines of 1,000 units stay below 2^53.
pub const PRICE_MAX: u64 = 100_000_000_000;

/// Units of one line of an order: 1 to 1,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u32", into = "u32")]
pub struct Quantity(u32);

impl Quantity {
    /// # Errors
    /// When the number is not 1 to 1,000.
    pub fn new(units: u32) -> Result<Self, Invalid> {
        if (1..=QUANTITY_MAX).contains(&units) {
            Ok(Self(units))
        } else {
            Err(Invalid::new("quantity", "must be a whole number from 1 to 1000"))
        }
    }

    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Quantity {
    type Error = Invalid;
    fn try_from(units: u32) -> Result<Self, Invalid> {
        Self::new(units)
    }
}

impl From<Quantity> for u32 {
    fn from(quantity: Quantity) -> Self {
        quantity.0
    }
}

/// An amount in whole minor units (cents) of the activity's currency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Money(u64);

impl Money {
    #[must_use]
    pub const fn from_minor(minor: u64) -> Self {
        Self(minor)
    }

    /// The price of one unit.
    ///
    /// # Errors
    /// When it is above [`PRICE_MAX`].
    pub fn price(minor: u64) -> Result<Self, Invalid> {
        if minor <= PRICE_MAX {
            Ok(Self(minor))
        } else {
            Err(Invalid::new("price", "must be 0 to 100000000000 minor units"))
        }
    }

    #[must_use]
    pub const fn minor(self) -> u64 {
        self.0
    }

    /// This unit price for so many units. Cannot overflow: both are bounded.
    #[must_use]
    pub fn times(self, quantity: Quantity) -> Self {
        Self(self.0.saturating_mul(u64::from(quantity.get())))
    }
}

impl Money {
    /// What is left when so much is taken off; never below zero.
    #[must_use]
    pub const fn less(self, off: Self) -> Self {
        Self(self.0.saturating_sub(off.0))
    }
}

impl std::iter::Sum for Money {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        Self(amounts.fold(0, |sum, amount| sum.saturating_add(amount.0)))
    }
}

/// ISO 4217 code: three capital letters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Currency(String);

impl Currency {
    /// # Errors
    /// When the text is not three capital ASCII letters.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() == 3 && text.bytes().all(|b| b.is_ascii_uppercase()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("currency", "must be three capital letters (ISO 4217)"))
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Currency {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<Currency> for String {
    fn from(currency: Currency) -> Self {
        currency.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_one_to_a_thousand() {
        assert!(Quantity::new(0).is_err());
        assert!(Quantity::new(1).is_ok());
        assert!(Quantity::new(1_000).is_ok());
        assert!(Quantity::new(1_001).is_err());
        for bad in ["-1", "1.5", "\"2\"", "1e3", "4294967296", "null", "true"] {
            assert!(serde_json::from_str::<Quantity>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_largest_order_is_still_an_exact_double() {
        let line = Money::price(PRICE_MAX).unwrap().times(Quantity::new(QUANTITY_MAX).unwrap());
        let total: Money = std::iter::repeat_n(line, 20).sum();
        assert!(total.minor() < 1 << 53);
    }

    #[test]
    fn currencies_are_three_capitals() {
        assert!(Currency::parse("EUR").is_ok());
        for bad in ["", "eur", "EU", "EURO", "€UR"] {
            assert!(Currency::parse(bad).is_err(), "{bad}");
        }
    }
}
