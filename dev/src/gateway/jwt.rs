//! The JWT authorizer of the HTTP API, with a local issuer: HS256 with a secret of this process.

use std::collections::BTreeMap;

use data_encoding::BASE64URL_NOPAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value, json};
use sha2::Sha256;

use super::routes::OPERATE_SCOPE;

/// Life of an access token from `POST /dev/login`, in seconds.
pub const LOGIN_LIFE_S: i64 = 24 * 3600;
/// Roles whose access tokens carry [`OPERATE_SCOPE`].
const OPERATING_ROLES: [&str; 2] = ["operator", "auditor"];
const ISSUER: &str = "https://login.holdfast.localhost";
const AUDIENCE: &str = "holdfast";

/// Issues and checks access tokens.
pub struct Authorizer {
    secret: Vec<u8>,
}

/// What a valid token says, as the authorizer hands it to a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Every claim as text: the gateway has no other type.
    pub claims: BTreeMap<String, String>,
    pub scopes: Vec<String>,
}

/// The token is missing, not ours, or not valid now. The gateway does not tell which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unauthorized;

impl Authorizer {
    /// An authorizer whose tokens are valid with the same secret only.
    #[must_use]
    pub fn new(secret: Vec<u8>) -> Self {
        Self { secret }
    }

    /// The access token of a buyer or, with groups, of an operator or auditor.
    #[must_use]
    pub fn login(&self, sub: &str, groups: &[String], now_s: i64) -> String {
        let mut claims = json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": sub, "iat": now_s, "exp": now_s + LOGIN_LIFE_S,
        });
        if !groups.is_empty() {
            claims["groups"] = json!(groups);
        }
        if groups.iter().any(|group| OPERATING_ROLES.contains(&group.as_str())) {
            claims["scope"] = json!(OPERATE_SCOPE);
        }
        self.sign(&json!({ "alg": "HS256", "typ": "JWT" }), &claims)
    }

    /// A token of any header and claims, signed with the secret: tests make bad ones with it.
    #[must_use]
    pub fn sign(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| BASE64URL_NOPAD.encode(value.to_string().as_bytes());
        let signed = format!("{}.{}", encode(header), encode(claims));
        let mac = self.mac(signed.as_bytes()).map(|mac| mac.finalize().into_bytes().to_vec());
        format!("{signed}.{}", BASE64URL_NOPAD.encode(&mac.unwrap_or_default()))
    }

    fn mac(&self, signed: &[u8]) -> Option<Hmac<Sha256>> {
        // HMAC takes keys of any length, so this is never `None`.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).ok()?;
        mac.update(signed);
        Some(mac)
    }

    /// Checks an `Authorization` header: with or without `Bearer`, as the gateway takes it.
    ///
    /// # Errors
    /// When signature, algorithm, issuer, audience or times are not right.
    pub fn check(&self, header: Option<&str>, now_s: i64) -> Result<Identity, Unauthorized> {
        let token = header.ok_or(Unauthorized)?.trim();
        let token = token.strip_prefix("Bearer ").or_else(|| token.strip_prefix("bearer ")).unwrap_or(token).trim();
        let (signed, signature) = token.rsplit_once('.').ok_or(Unauthorized)?;
        let (header, claims) = signed.split_once('.').ok_or(Unauthorized)?;
        let header = object(header)?;
        // Never the token's own choice: `none` and every other algorithm are refused.
        if header.get("alg").and_then(Value::as_str) != Some("HS256") {
            return Err(Unauthorized);
        }
        let signature = BASE64URL_NOPAD.decode(signature.as_bytes()).map_err(|_| Unauthorized)?;
        let mac = self.mac(signed.as_bytes()).ok_or(Unauthorized)?;
        mac.verify_slice(&signature).map_err(|_| Unauthorized)?;
        let claims = object(claims)?;
        check_claims(&claims, now_s)?;
        Ok(Identity { scopes: scopes(&claims), claims: claims.iter().map(|(k, v)| (k.clone(), text(v))).collect() })
    }
}

fn object(part: &str) -> Result<Map<String, Value>, Unauthorized> {
    let bytes = BASE64URL_NOPAD.decode(part.as_bytes()).map_err(|_| Unauthorized)?;
    serde_json::from_slice(&bytes).map_err(|_| Unauthorized)
}

fn check_claims(claims: &Map<String, Value>, now_s: i64) -> Result<(), Unauthorized> {
    let issued_here = claims.get("iss").and_then(Value::as_str) == Some(ISSUER);
    let for_us = match claims.get("aud").or_else(|| claims.get("client_id")) {
        Some(Value::String(audience)) => audience == AUDIENCE,
        Some(Value::Array(audiences)) => audiences.iter().any(|audience| audience == AUDIENCE),
        _ => false,
    };
    let expires = claims.get("exp").and_then(Value::as_i64).ok_or(Unauthorized)?;
    let begun = |name: &str| match claims.get(name) {
        None => true,
        Some(time) => time.as_i64().is_some_and(|time| time <= now_s),
    };
    let valid_now = now_s < expires && begun("nbf") && begun("iat");
    if issued_here && for_us && valid_now { Ok(()) } else { Err(Unauthorized) }
}

fn scopes(claims: &Map<String, Value>) -> Vec<String> {
    match claims.get("scope").or_else(|| claims.get("scp")) {
        Some(Value::String(scopes)) => scopes.split_ascii_whitespace().map(str::to_owned).collect(),
        Some(Value::Array(scopes)) => scopes.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// A claim as the gateway spells it: arrays as `[operator finance]`, objects as `map[a:1]`.
fn text(claim: &Value) -> String {
    let joined = |parts: Vec<String>| parts.join(" ");
    match claim {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", joined(items.iter().map(text).collect())),
        Value::Object(fields) => {
            format!("map[{}]", joined(fields.iter().map(|(name, value)| format!("{name}:{}", text(value))).collect()))
        }
        other => other.to_string(),
    }
}
