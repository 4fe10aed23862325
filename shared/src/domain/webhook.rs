//! The payment provider's signature over a webhook's raw body.

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretSlice};
use sha2::Sha256;

use super::{Invalid, time::UnixMillis};

/// How far the signature's time may be from ours, either way, in seconds: an older one may be a replay.
pub const WINDOW_S: i64 = 300;
/// Shortest secret, in bytes.
pub const SECRET_MIN_BYTES: usize = 32;
/// Longest header that is looked at, in bytes.
pub const HEADER_MAX_BYTES: usize = 1_024;

/// The secrets that are valid now: while they rotate, the one before as well.
pub struct WebhookSecrets(Vec<SecretSlice<u8>>);

/// No valid signature. Which part is wrong is not told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no valid signature")]
pub struct NotSigned;

impl WebhookSecrets {
    /// # Errors
    /// When there is none, more than two, or one is shorter than 32 bytes.
    pub fn new(secrets: Vec<Vec<u8>>) -> Result<Self, Invalid> {
        if (1..=2).contains(&secrets.len()) && secrets.iter().all(|secret| secret.len() >= SECRET_MIN_BYTES) {
            Ok(Self(secrets.into_iter().map(SecretSlice::from).collect()))
        } else {
            Err(Invalid::new("webhook_secrets", "must be one or two of at least 32 bytes"))
        }
    }

    /// Checks `t=<unix s>,v1=<hex>` against the raw body, in constant time.
    ///
    /// # Errors
    /// When no signature in it is valid, or its time is more than five minutes off.
    pub fn verify(&self, header: &str, body: &[u8], now: UnixMillis) -> Result<(), NotSigned> {
        if header.len() > HEADER_MAX_BYTES {
            return Err(NotSigned);
        }
        let fields = || header.split(',').filter_map(|field| field.trim().split_once('='));
        let time = fields().find(|(name, _)| *name == "t").map(|(_, time)| time).ok_or(NotSigned)?;
        let sent_s: i64 = time.parse().map_err(|_| NotSigned)?;
        if (now.get() / 1_000).saturating_sub(sent_s).saturating_abs() > WINDOW_S {
            return Err(NotSigned);
        }
        let by =
            |secret, signature: &[u8]| mac(secret, time, body).is_some_and(|mac| mac.verify_slice(signature).is_ok());
        // All of them, whichever is the right one.
        let valid = |signature: &[u8]| self.0.iter().fold(false, |valid, secret| valid | by(secret, signature));
        let signatures = fields().filter(|(name, _)| *name == "v1");
        let decoded = signatures.filter_map(|(_, hex)| data_encoding::HEXLOWER.decode(hex.as_bytes()).ok());
        if decoded.fold(false, |any, signature| any | valid(&signature)) { Ok(()) } else { Err(NotSigned) }
    }

    /// The header that a provider with the first secret sends: for tests and the local runner.
    #[must_use]
    pub fn sign(&self, body: &[u8], now: UnixMillis) -> String {
        let time = (now.get() / 1_000).to_string();
        let mac = self.0.first().and_then(|secret| mac(secret, &time, body));
        let signature = mac.map(|mac| data_encoding::HEXLOWER.encode(&mac.finalize().into_bytes()));
        format!("t={time},v1={}", signature.unwrap_or_default())
    }
}

fn mac(secret: &SecretSlice<u8>, time: &str, body: &[u8]) -> Option<Hmac<Sha256>> {
    // HMAC takes keys of any length, so this is never `None`.
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret()).ok()?;
    for part in [time.as_bytes(), b".", body] {
        mac.update(part);
    }
    Some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_764_446_400_000;

    fn secrets(bytes: &[u8]) -> WebhookSecrets {
        WebhookSecrets::new(bytes.iter().map(|byte| vec![*byte; 32]).collect()).unwrap()
    }

    #[test]
    fn a_signature_is_valid_for_its_body_and_five_minutes_either_way() {
        let (ours, now) = (secrets(&[1]), UnixMillis::new(NOW));
        let header = ours.sign(b"{\"a\":1}", now);
        for (offset_s, valid) in [(0, true), (300, true), (-300, true), (301, false), (-301, false)] {
            let at = now.plus_ms(offset_s * 1_000);
            assert_eq!(ours.verify(&header, b"{\"a\":1}", at).is_ok(), valid, "{offset_s} s");
        }
        assert!(ours.verify(&header, b"{\"a\":2}", now).is_err());
        assert!(ours.verify(&header.replace("t=1", "t=2"), b"{\"a\":1}", now).is_err());
    }

    #[test]
    fn both_secrets_are_valid_while_they_rotate_and_no_other() {
        let (body, now) = (b"body".as_slice(), UnixMillis::new(NOW));
        let rotating = secrets(&[2, 1]);
        for (signer, valid) in [(1, true), (2, true), (3, false)] {
            assert_eq!(rotating.verify(&secrets(&[signer]).sign(body, now), body, now).is_ok(), valid);
        }
        // A provider that rotates too signs with both.
        let both = format!("{},{}", secrets(&[3]).sign(body, now), &secrets(&[1]).sign(body, now)[13..]);
        assert!(rotating.verify(&both, body, now).is_ok(), "{both}");
    }

    #[test]
    fn what_is_no_signature_is_refused() {
        let now = UnixMillis::new(NOW);
        let good = secrets(&[1]).sign(b"", now);
        let long = format!("{good},{}", "x".repeat(HEADER_MAX_BYTES));
        let upper = good.to_uppercase();
        for bad in
            ["", "t=", "v1=", "t=1764446400", "t=x,v1=00", "t=1764446400,v1=", "t=1764446400,v1=zz", &long, &upper]
        {
            assert_eq!(secrets(&[1]).verify(bad, b"", now), Err(NotSigned), "{bad}");
        }
        assert!(secrets(&[1]).verify(&format!("t={},v1=00", i64::MIN), b"", now).is_err());
    }

    #[test]
    fn short_secrets_are_refused() {
        for bad in [vec![], vec![vec![1; 31]], vec![vec![1; 32]; 3]] {
            assert!(WebhookSecrets::new(bad).is_err());
        }
    }
}
