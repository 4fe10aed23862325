//! The order token: a signed right to submit one order. It is not stored anywhere: the signature
//! admits it, and the order record that the admitting script writes is its single use.

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};
use sha2::Sha256;

use super::{
    FORMAT, Invalid,
    ids::{ActivityId, BuyerId},
    readable,
    time::UnixMillis,
};

/// Life of a token, in milliseconds.
pub const TOKEN_LIFE_MS: i64 = 300_000;
/// Longest token text that is looked at, in bytes.
pub const TOKEN_MAX_BYTES: usize = 1_024;
/// Longest page name, in bytes.
pub const PAGE_MAX_BYTES: usize = 64;
/// Shortest signing secret, in bytes.
pub const SECRET_MIN_BYTES: usize = 32;
const MAC_BYTES: usize = 32;

/// 128 random bits that make each token another submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TokenId([u8; 16]);

impl TokenId {
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// The page that a token was issued for: 0 to 64 visible ASCII characters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page(String);

impl Page {
    /// # Errors
    /// When it is longer than 64 bytes or has anything but visible ASCII.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() <= PAGE_MAX_BYTES && text.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("page", "must be at most 64 visible ASCII characters"))
        }
    }
}

/// What a token says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub activity: ActivityId,
    pub buyer: BuyerId,
    pub page: Page,
    pub id: TokenId,
    pub expires_at: UnixMillis,
}

/// A token that was not issued by us, was altered, or is spelled in another way than we spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the token was not issued here")]
pub struct Forged;

/// One signing key and the id by which a token names it.
pub struct SigningKey {
    id: u8,
    secret: SecretSlice<u8>,
}

impl SigningKey {
    /// # Errors
    /// When the secret is shorter than 32 bytes.
    pub fn new(id: u8, secret: Vec<u8>) -> Result<Self, Invalid> {
        if secret.len() < SECRET_MIN_BYTES {
            return Err(Invalid::new("token key", "must be at least 32 bytes"));
        }
        Ok(Self { id, secret: secret.into() })
    }

    fn mac(&self, body: &[u8]) -> Option<Hmac<Sha256>> {
        // HMAC takes keys of any length, so this is never `None`.
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.expose_secret()).ok()?;
        mac.update(body);
        Some(mac)
    }
}

/// The key that signs, and the one before it, which still verifies while keys rotate.
pub struct TokenKeys {
    current: SigningKey,
    previous: Option<SigningKey>,
}

impl TokenKeys {
    /// # Errors
    /// When both keys have the same id.
    pub fn new(current: SigningKey, previous: Option<SigningKey>) -> Result<Self, Invalid> {
        if previous.as_ref().is_some_and(|key| key.id == current.id) {
            return Err(Invalid::new("token keys", "must have different ids"));
        }
        Ok(Self { current, previous })
    }

    /// The token as text: base64url of the body and its HMAC-SHA-256.
    #[must_use]
    pub fn sign(&self, token: &Token) -> String {
        let mut bytes = encode(self.current.id, token);
        if let Some(mac) = self.current.mac(&bytes) {
            bytes.extend_from_slice(&mac.finalize().into_bytes());
        }
        BASE64URL_NOPAD.encode(&bytes)
    }

    /// Checks the signature in constant time, then reads the token. Expiry is not judged here: an
    /// expired token may still be the name of an order.
    ///
    /// # Errors
    /// When the text is not exactly what [`TokenKeys::sign`] writes with one of the two keys.
    pub fn verify(&self, text: &str) -> Result<Token, Forged> {
        if text.len() > TOKEN_MAX_BYTES {
            return Err(Forged);
        }
        // Strict decoding: no padding, no other alphabet, no stray bits, so one spelling only.
        let bytes = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| Forged)?;
        let (body, mac) = bytes.split_at_checked(bytes.len().saturating_sub(MAC_BYTES)).ok_or(Forged)?;
        let key_id = *body.get(1).ok_or(Forged)?;
        self.key(key_id)?.mac(body).ok_or(Forged)?.verify_slice(mac).map_err(|_| Forged)?;
        decode(body).ok_or(Forged)
    }
}

impl TokenKeys {
    /// The id of the key that signs, and what it makes of a text.
    pub(super) fn signer(&self) -> (u8, impl Fn(&[u8]) -> [u8; MAC_BYTES]) {
        let mac =
            |body: &[u8]| self.current.mac(body).map(|mac| mac.finalize().into_bytes().into()).unwrap_or_default();
        (self.current.id, mac)
    }

    /// Whether the key of this id made a MAC of the text that begins so. Compared in constant time.
    pub(super) fn check_truncated(&self, key_id: u8, body: &[u8], mac: &[u8]) -> Result<(), Forged> {
        let own = self.key(key_id)?.mac(body).ok_or(Forged)?;
        own.verify_truncated_left(mac).map_err(|_| Forged)
    }

    fn key(&self, id: u8) -> Result<&SigningKey, Forged> {
        std::iter::once(&self.current).chain(self.previous.as_ref()).find(|key| key.id == id).ok_or(Forged)
    }
}

fn encode(key_id: u8, token: &Token) -> Vec<u8> {
    let mut bytes = vec![u8::try_from(FORMAT).unwrap_or(u8::MAX), key_id];
    for text in [token.activity.as_str(), token.buyer.as_str(), &token.page.0] {
        // All three are bounded to 255 bytes or fewer by their types.
        bytes.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(token.id.as_bytes());
    bytes.extend_from_slice(&token.expires_at.get().to_be_bytes());
    bytes
}

fn decode(body: &[u8]) -> Option<Token> {
    let (format, rest) = body.split_first()?;
    if !readable(u32::from(*format)) {
        return None;
    }
    let rest = rest.get(1..)?;
    let (activity, rest) = text(rest)?;
    let (buyer, rest) = text(rest)?;
    let (page, rest) = text(rest)?;
    let (id, rest) = rest.split_first_chunk::<16>()?;
    let (expires_at, rest) = rest.split_first_chunk::<8>()?;
    if !rest.is_empty() {
        return None;
    }
    Some(Token {
        activity: ActivityId::parse(activity).ok()?,
        buyer: BuyerId::parse(buyer).ok()?,
        page: Page::parse(page).ok()?,
        id: TokenId(*id),
        expires_at: UnixMillis::new(i64::from_be_bytes(*expires_at)),
    })
}

fn text(bytes: &[u8]) -> Option<(&str, &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let (text, rest) = rest.split_at_checked(usize::from(*length))?;
    Some((std::str::from_utf8(text).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u8, fill: u8) -> SigningKey {
        SigningKey::new(id, vec![fill; 32]).unwrap()
    }

    fn token() -> Token {
        Token {
            activity: ActivityId::parse("sale").unwrap(),
            buyer: BuyerId::parse("alice").unwrap(),
            page: Page::parse("/phone").unwrap(),
            id: TokenId([9; 16]),
            expires_at: UnixMillis::new(1_000),
        }
    }

    #[test]
    fn a_token_survives_one_rotation_and_not_two() {
        let old = TokenKeys::new(key(1, 1), None).unwrap();
        let text = old.sign(&token());
        assert_eq!(old.verify(&text).unwrap(), token());
        let rotated = TokenKeys::new(key(2, 2), Some(key(1, 1))).unwrap();
        assert_eq!(rotated.verify(&text).unwrap(), token());
        let twice = TokenKeys::new(key(3, 3), Some(key(2, 2))).unwrap();
        assert_eq!(twice.verify(&text), Err(Forged));
        // The same id with another secret is a forgery.
        assert_eq!(TokenKeys::new(key(1, 5), None).unwrap().verify(&text), Err(Forged));
        assert!(TokenKeys::new(key(1, 1), Some(key(1, 2))).is_err());
        assert!(SigningKey::new(1, vec![0; 31]).is_err());
    }

    #[test]
    fn every_altered_byte_and_every_other_spelling_is_refused() {
        let keys = TokenKeys::new(key(1, 1), None).unwrap();
        let text = keys.sign(&token());
        for at in 0..text.len() {
            for other in [b'A', b'B', b'_', b'='] {
                let mut bytes = text.clone().into_bytes();
                if bytes[at] == other {
                    continue;
                }
                bytes[at] = other;
                assert_eq!(keys.verify(&String::from_utf8(bytes).unwrap()), Err(Forged), "byte {at}");
            }
        }
        for other in [format!("{text}="), format!(" {text}"), format!("{text}\n"), text[1..].to_owned(), String::new()]
        {
            assert_eq!(keys.verify(&other), Err(Forged));
        }
        assert_eq!(keys.verify(&"A".repeat(TOKEN_MAX_BYTES + 1)), Err(Forged));
    }
}
