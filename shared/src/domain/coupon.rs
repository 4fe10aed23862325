//! Coupons: a signed right to pay less for one order of one activity. Like a token it is not stored when it is
//! issued: the signature admits it, and the item that the order transaction writes is its single use.

use serde::{Deserialize, Serialize};

use super::{
    Invalid,
    ids::ActivityId,
    money::{Money, PRICE_MAX},
    order_no::BASE32,
    token::{Forged, TokenKeys},
};

/// Most coupons that one call issues.
pub const COUPONS_MAX: u16 = 1_000;
/// Characters of a code: 25 bytes in base 32.
const CODE_CHARS: usize = 40;
/// Bytes of the signature that a code carries: short enough to be typed, and guessed once in 2^80 tries.
const MAC_BYTES: usize = 10;
const FORMAT: u8 = 1;
/// What is signed begins with this, so that no coupon is a token and no token a coupon.
const PURPOSE: &[u8] = b"holdfast coupon";

/// The text of a coupon: 40 characters of Crockford's base 32.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CouponCode(String);

impl CouponCode {
    /// Only the canonical spelling. Whether it was issued is another question: [`Coupon::verify`].
    ///
    /// # Errors
    /// When it is not 40 characters of the alphabet.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() == CODE_CHARS && BASE32.decode(text.as_bytes()).is_ok() {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("coupon", "must be 40 characters of 0-9 A-Z without I L O U"))
        }
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for CouponCode {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::parse(&text)
    }
}

impl From<CouponCode> for String {
    fn from(code: CouponCode) -> Self {
        code.0
    }
}

/// What a coupon takes off an order's total: 1 to 100,000,000,000 minor units.
///
/// # Errors
/// When it is another number.
pub fn discount(minor: u64) -> Result<Money, Invalid> {
    if (1..=PRICE_MAX).contains(&minor) {
        Ok(Money::from_minor(minor))
    } else {
        Err(Invalid::new("discount", "must be 1 to 100000000000 minor units"))
    }
}

/// A coupon as an order carries it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coupon {
    pub code: CouponCode,
    /// What it takes off the total, which never falls below zero.
    pub discount: Money,
}

impl Coupon {
    /// Issues one. `id` are 64 random bits that make it another one than the rest.
    ///
    /// # Errors
    /// When the discount is not one.
    pub fn issue(keys: &TokenKeys, activity: &ActivityId, off: Money, id: [u8; 8]) -> Result<Self, Invalid> {
        let off = discount(off.minor())?;
        let (key_id, mac_of) = keys.signer();
        let mut bytes = vec![FORMAT, key_id];
        // The bound on discounts leaves the first three bytes zero.
        bytes.extend_from_slice(&off.minor().to_be_bytes()[3..]);
        bytes.extend_from_slice(&id);
        let mac = mac_of(&signed(activity, &bytes));
        bytes.extend_from_slice(&mac[..MAC_BYTES]);
        Ok(Self { code: CouponCode(BASE32.encode(&bytes)), discount: off })
    }

    /// Reads a code that was issued for this activity. The signature is compared in constant time.
    ///
    /// # Errors
    /// When it was not issued, or for another activity.
    pub fn verify(keys: &TokenKeys, activity: &ActivityId, code: &CouponCode) -> Result<Self, Forged> {
        let bytes = BASE32.decode(code.as_str().as_bytes()).map_err(|_| Forged)?;
        let (body, mac) = bytes.split_at_checked(bytes.len().saturating_sub(MAC_BYTES)).ok_or(Forged)?;
        let ([FORMAT, key_id, amount @ ..], true) = (body, body.len() == 15) else { return Err(Forged) };
        keys.check_truncated(*key_id, &signed(activity, body), mac)?;
        let minor = amount[..5].iter().fold(0, |minor, byte| minor << 8 | u64::from(*byte));
        Ok(Self { code: code.clone(), discount: discount(minor).map_err(|_| Forged)? })
    }
}

/// What the signature covers: the purpose, the activity by its length and name, the code's own bytes.
fn signed(activity: &ActivityId, body: &[u8]) -> Vec<u8> {
    let name = activity.as_str().as_bytes();
    // An activity's id is at most 64 characters.
    let length = [u8::try_from(name.len()).unwrap_or(u8::MAX)];
    [PURPOSE, &length, name, body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::token::SigningKey;

    fn keys(id: u8, previous: Option<u8>) -> TokenKeys {
        let key = |id| SigningKey::new(id, vec![id; 32]).unwrap();
        TokenKeys::new(key(id), previous.map(key)).unwrap()
    }

    fn activity(id: &str) -> ActivityId {
        ActivityId::parse(id).unwrap()
    }

    #[test]
    fn a_coupon_says_what_it_takes_off_and_is_of_one_activity() {
        let (keys, sale) = (keys(1, None), activity("sale"));
        for minor in [1, 500, PRICE_MAX] {
            let coupon = Coupon::issue(&keys, &sale, Money::from_minor(minor), [7; 8]).unwrap();
            assert_eq!(Coupon::verify(&keys, &sale, &coupon.code).unwrap(), coupon);
            assert_eq!(CouponCode::parse(coupon.code.as_str()).unwrap(), coupon.code);
            assert_eq!(Coupon::verify(&keys, &activity("sales"), &coupon.code), Err(Forged));
        }
        for minor in [0, PRICE_MAX + 1] {
            assert!(Coupon::issue(&keys, &sale, Money::from_minor(minor), [7; 8]).is_err());
        }
        let another = |id| Coupon::issue(&keys, &sale, Money::from_minor(5), [id; 8]).unwrap();
        assert_ne!(another(1).code, another(2).code);
    }

    #[test]
    fn a_coupon_lives_as_long_as_its_key_does() {
        let sale = activity("sale");
        let coupon = Coupon::issue(&keys(1, None), &sale, Money::from_minor(5), [7; 8]).unwrap();
        assert!(Coupon::verify(&keys(2, Some(1)), &sale, &coupon.code).is_ok());
        assert_eq!(Coupon::verify(&keys(3, Some(2)), &sale, &coupon.code), Err(Forged));
    }

    #[test]
    fn every_altered_character_and_every_other_spelling_is_refused() {
        let (keys, sale) = (keys(1, None), activity("sale"));
        let coupon = Coupon::issue(&keys, &sale, Money::from_minor(500), [7; 8]).unwrap();
        let text = coupon.code.as_str();
        for at in 0..text.len() {
            for other in "0129AZ".chars().filter(|other| !text[at..].starts_with(*other)) {
                let altered = format!("{}{other}{}", &text[..at], &text[at + 1..]);
                let refused = Coupon::verify(&keys, &sale, &CouponCode::parse(&altered).unwrap());
                assert_eq!(refused, Err(Forged), "character {at}");
            }
        }
        let spellings = [text.to_lowercase(), format!("{text}0"), text[1..].to_owned(), format!(" {}", &text[1..])];
        for other in spellings.iter().map(String::as_str).chain(["", "IIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIIII"]) {
            assert!(CouponCode::parse(other).is_err(), "{other}");
        }
    }
}
