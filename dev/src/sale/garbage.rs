//! Requests that make no sense, and what each must be answered.

use serde_json::{Value, json};

use super::client::Call;

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Garbage {
    BadJson,
    ForgedToken,
    /// A token that was issued to somebody else.
    OthersToken,
    QuantityZero,
    QuantityNegative,
    QuantityHuge,
    QuantityText,
    QuantityFraction,
    UnknownSku,
    UnknownActivity,
    UnknownRoute,
    UnknownOrder,
    NoAccessToken,
    ForgedAccessToken,
    NotAnOperator,
    WrongContentType,
}

/// What must come back: the status, and the problem's code where it is the function that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    pub status: u16,
    pub code: Option<&'static str>,
}

const fn expected(status: u16, code: &'static str) -> Expected {
    Expected { status, code: Some(code) }
}

const fn from_gateway(status: u16) -> Expected {
    Expected { status, code: None }
}

impl Garbage {
    pub const ALL: [Self; 16] = [
        Self::BadJson,
        Self::ForgedToken,
        Self::OthersToken,
        Self::QuantityZero,
        Self::QuantityNegative,
        Self::QuantityHuge,
        Self::QuantityText,
        Self::QuantityFraction,
        Self::UnknownSku,
        Self::UnknownActivity,
        Self::UnknownRoute,
        Self::UnknownOrder,
        Self::NoAccessToken,
        Self::ForgedAccessToken,
        Self::NotAnOperator,
        Self::WrongContentType,
    ];

    #[must_use]
    pub const fn expected(self) -> Expected {
        match self {
            Self::BadJson
            | Self::QuantityZero
            | Self::QuantityNegative
            | Self::QuantityHuge
            | Self::QuantityText
            | Self::QuantityFraction => expected(400, "invalid_request"),
            Self::ForgedToken | Self::OthersToken => expected(403, "token_invalid"),
            Self::UnknownSku => expected(404, "unknown_sku"),
            Self::UnknownActivity => expected(404, "unknown_activity"),
            Self::UnknownOrder => expected(404, "unknown_order"),
            Self::WrongContentType => expected(415, "unsupported_media_type"),
            Self::UnknownRoute => from_gateway(404),
            Self::NoAccessToken | Self::ForgedAccessToken => from_gateway(401),
            Self::NotAnOperator => from_gateway(403),
        }
    }

    /// The request. `stranger` is the access token of a buyer who was never seen before, `owner` that of
    /// the buyer whom `token` was issued to.
    #[must_use]
    pub fn call(self, activity: &str, stranger: &str, owner: &str, token: &str) -> Call {
        let access_token = if self == Self::UnknownSku { owner } else { stranger };
        let orders = format!("/v1/activities/{activity}/orders");
        let order = |token: &str, sku: &str, quantity: Value| {
            let body = json!({ "token": token, "lines": [{ "sku": sku, "quantity": quantity }] });
            Call::post(orders.clone(), access_token, body.to_string())
        };
        let quantity = |quantity: Value| order(token, "phone", quantity);
        match self {
            Self::BadJson => Call::post(orders, access_token, "{\"token\": \"…\", \"lines\": [".to_owned()),
            Self::ForgedToken => order(&forge(token), "phone", json!(1)),
            Self::OthersToken => order(token, "phone", json!(1)),
            Self::QuantityZero => quantity(json!(0)),
            Self::QuantityNegative => quantity(json!(-1)),
            Self::QuantityHuge => quantity(json!(u64::MAX)),
            Self::QuantityText => quantity(json!("many")),
            Self::QuantityFraction => quantity(json!(0.5)),
            // Whoever has no token of his own does not get this far.
            Self::UnknownSku => order(token, "nothing-we-sell", json!(1)),
            Self::UnknownActivity => {
                Call::post("/v1/activities/no-such-sale/tokens".to_owned(), access_token, "{}".to_owned())
            }
            Self::UnknownRoute => Call::get(format!("/v2/activities/{activity}"), Some(access_token)),
            Self::UnknownOrder => Call::get(format!("{orders}/00000000000000000000000000"), Some(access_token)),
            Self::NoAccessToken => Call::get(orders, None),
            Self::ForgedAccessToken => Call::get(orders, Some(&forge(access_token))),
            Self::NotAnOperator => {
                Call::post(format!("/v1/admin/activities/{activity}/freeze"), access_token, "{}".to_owned())
            }
            Self::WrongContentType => {
                let mut call = Call::post(orders, access_token, "{}".to_owned());
                call.content_type = Some("text/plain");
                call
            }
        }
    }
}

/// The same text with one character changed in the middle.
fn forge(token: &str) -> String {
    let mut bytes = token.as_bytes().to_vec();
    if let Some(byte) = bytes.get_mut(token.len() / 2) {
        *byte = if *byte == b'A' { b'B' } else { b'A' };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
