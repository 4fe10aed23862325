//! One activity on a running stack, and the calls of its buyers.

use std::sync::Arc;

use harness::{events, sample};
use holdfast::domain::ids::{ActivityId, BuyerId};
use holdfast::domain::token::{Page, TOKEN_LIFE_MS, Token, TokenId, TokenKeys};
use holdfast::ports::{Clock as _, SystemClock};
use serde_json::{Value, json};

use crate::gateway::jwt::Authorizer;
use crate::sale::client::Call;
use crate::stack::{Stack, StartError};

/// The SKU that is there to be sold.
pub const SKU: &str = "phone";
/// Orders a second that a bucket admits: the most there is, so that it is not what limits.
const BUCKET_RATE: u32 = 500;

/// An activity that runs, and what signs for its buyers.
pub struct Shop {
    keys: Arc<TokenKeys>,
    authorizer: Arc<Authorizer>,
    activity: ActivityId,
}

impl Shop {
    /// Opens an activity with so many units, changed by these fields; orders are taken at once.
    ///
    /// # Errors
    /// When the name is none.
    pub async fn open(stack: &Stack, name: &str, units: u64, fields: &Value) -> Result<Arc<Self>, StartError> {
        let draft = sample::with(sample::activity(SKU, units), &json!({ "bucket_rate": BUCKET_RATE }));
        let activity = events::open(&stack.backend.wiring, name, &sample::with(draft, fields)).await;
        let authorizer = Arc::clone(&stack.authorizer);
        Ok(Arc::new(Self { keys: stack.keys(), authorizer, activity: activity.id }))
    }

    /// One unit for this buyer, with a token that is made here: a token is stored nowhere, and what is measured is
    /// the order.
    ///
    /// # Errors
    /// When the buyer's name is none.
    pub fn order(&self, buyer: u32, sku: &str) -> Result<Call, StartError> {
        self.order_of(buyer, &json!([{ "sku": sku, "quantity": 1 }]))
    }

    /// What a buyer posts to a path of the activity.
    #[must_use]
    pub fn post(&self, buyer: u32, rest: &str, body: &Value) -> Call {
        Call::post(self.path(rest), &self.login(buyer), body.to_string())
    }

    /// What an operator posts to a path of the activity.
    #[must_use]
    pub fn operate(&self, rest: &str, body: &Value) -> Call {
        let groups = ["operator".to_owned()];
        let login = self.authorizer.login("olivia", &groups, SystemClock.now().get() / 1_000);
        Call::post(format!("/v1/admin/activities/{}{rest}", self.activity), &login, body.to_string())
    }

    /// The payment of an order, as the provider tells it.
    #[must_use]
    pub fn pay(&self, order_no: &str, amount: u64) -> Call {
        let body = json!({
            "event_id": format!("pay-{order_no}"), "activity": self.activity.as_str(), "order_no": order_no,
            "status": "paid", "amount": amount, "currency": "EUR"
        })
        .to_string();
        let signature = harness::webhook_secrets().sign(body.as_bytes(), SystemClock.now());
        let call = Call::post("/v1/payments/webhook".to_owned(), "", body);
        Call { access_token: None, header: Some(("holdfast-signature", signature)), ..call }
    }

    /// An order of these lines, with a token that is made here.
    ///
    /// # Errors
    /// When the buyer's name is none.
    pub fn order_of(&self, buyer: u32, lines: &Value) -> Result<Call, StartError> {
        let token = token(&self.keys, &self.activity, &name(buyer))?;
        Ok(self.post(buyer, "/orders", &json!({ "token": token, "lines": lines })))
    }

    /// The public page.
    #[must_use]
    pub fn see_activity(&self) -> Call {
        Call::get(self.path(""), None)
    }

    /// An order of this buyer.
    #[must_use]
    pub fn see_order(&self, buyer: u32, order_no: &str) -> Call {
        Call::get(self.path(&format!("/orders/{order_no}")), Some(&self.login(buyer)))
    }

    /// All orders of this buyer.
    #[must_use]
    pub fn see_orders(&self, buyer: u32) -> Call {
        Call::get(self.path("/orders"), Some(&self.login(buyer)))
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/activities/{}{rest}", self.activity)
    }

    fn login(&self, buyer: u32) -> String {
        self.authorizer.login(&name(buyer), &[], SystemClock.now().get() / 1_000)
    }
}

fn name(buyer: u32) -> String {
    format!("buyer-{buyer}")
}

/// A token as the function issues it, of a submission of its own.
///
/// # Errors
/// When the buyer's name is none.
pub fn token(keys: &TokenKeys, activity: &ActivityId, buyer: &str) -> Result<String, StartError> {
    let mut id = [0; 16];
    id.fill_with(|| fastrand::u8(..));
    Ok(keys.sign(&Token {
        activity: activity.clone(),
        buyer: BuyerId::parse(buyer)?,
        page: Page::default(),
        id: TokenId::from_bytes(id),
        expires_at: SystemClock.now().plus_ms(TOKEN_LIFE_MS),
    }))
}
