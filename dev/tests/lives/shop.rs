//! A sale with all functions, and what its buyers, operators and payment provider call.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use dev::checks;
use dev::faults::skew::Skewed;
use dev::functions::{Functions, HttpFunction};
use dev::stores::Stores;
use dev::wire;
use harness::contract::Contract;
use harness::http::{Call, read};
use harness::{Backend, Options, events, sample, webhook_secrets};
use holdfast::app::expire_orders::{ExpireOrders, ExpiryReport};
use holdfast::app::reconcile::{OnDemand, Reconcile};
use holdfast::domain::activity::Activity;
use holdfast::domain::ids::{BuyerId, Sku};
use holdfast::domain::order::{Order, Stored};
use holdfast::domain::order_no::OrderNo;
use holdfast::domain::payment::RefundReason;
use holdfast::lambda::Wiring;
use holdfast::ports::{Clock as _, OrderLife as _, OrderStore as _, StockGate as _, StockStore as _, SystemClock};
use serde_json::{Value, json};
use tokio::time::Instant;

pub const SKU: &str = "phone";
pub const PRICE: u64 = 49_900;
/// Every activity's time to pay.
pub const PAYMENT_MINUTES: i64 = 15;
/// A clock by which every order is past its deadline.
pub const AFTERWARDS: Skewed = Skewed(|_| (PAYMENT_MINUTES + 1) * 60_000);

static CONTRACT: LazyLock<Contract> = LazyLock::new(Contract::load);

pub type Answer = (u16, Value);

pub struct Shop {
    pub backend: Backend,
    pub functions: Functions,
    pub activity: Activity,
    stores: Stores,
}

impl Shop {
    /// A sale of so many units over four buckets, one per buyer unless `fields` says otherwise.
    pub async fn open(stock: u64, fields: &Value) -> Self {
        let backend = Backend::start(Options::default()).await.unwrap();
        let draft = sample::with(sample::activity(SKU, stock), fields);
        let activity = events::open(&backend.wiring, "sale", &draft).await;
        let functions = wire::functions(&backend.wiring, &backend.keys);
        let stores = Stores::new(&backend).unwrap();
        Self { backend, functions, activity, stores }
    }

    async fn call(&self, function: &HttpFunction, call: Call) -> Answer {
        let response = function(call.request().unwrap()).await;
        CONTRACT.check(call.route, &response).unwrap();
        read(&response)
    }

    pub fn token(&self, buyer: &str) -> String {
        self.backend.keys.sign(&holdfast::domain::token::Token {
            activity: self.activity.id.clone(),
            buyer: BuyerId::parse(buyer).unwrap(),
            page: holdfast::domain::token::Page::default(),
            id: holdfast::domain::token::TokenId::from_bytes(fastrand::u128(..).to_be_bytes()),
            expires_at: SystemClock.now().plus_ms(300_000),
        })
    }

    /// The number of a token's submission.
    pub fn number(&self, token: &str) -> String {
        let token = self.backend.keys.verify(token).unwrap();
        OrderNo::derive(&token.activity, &token.buyer, &token.id).as_str().to_owned()
    }

    pub async fn submit(&self, buyer: &str, token: &str, quantity: u32) -> Answer {
        self.submit_body(buyer, &json!({"token": token, "lines": [{"sku": SKU, "quantity": quantity}]})).await
    }

    pub async fn submit_body(&self, buyer: &str, body: &Value) -> Answer {
        let call = Call::new("POST /v1/activities/{activity}/orders").path("activity", "sale").buyer(buyer);
        self.call(&self.functions.place_order, call.json(body)).await
    }

    pub async fn issue_coupons(&self, body: &Value) -> Answer {
        let call = Call::new("POST /v1/admin/activities/{activity}/coupons").path("activity", "sale");
        self.call(&self.functions.issue_token, call.operator("olivia").json(body)).await
    }

    /// The order, again until the answer is final.
    pub async fn submit_until_final(&self, buyer: &str, token: &str, quantity: u32) -> Answer {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let answer = self.submit(buyer, token, quantity).await;
            if !matches!(answer.0, 202 | 429 | 503) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// An order of one unit, again while its bucket has taken its orders for this second.
    pub async fn submit_patiently(&self, buyer: &str, token: &str) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !matches!(self.submit(buyer, token, 1).await.0, 200 | 201) {
            assert!(Instant::now() < deadline);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// An order of one unit; its number.
    pub async fn order(&self, buyer: &str) -> String {
        let (status, body) = self.submit(buyer, &self.token(buyer), 1).await;
        assert_eq!(status, 201, "{buyer}: {body}");
        body["order_no"].as_str().unwrap().to_owned()
    }

    pub async fn cancel(&self, buyer: &str, order_no: &str, body: &Value) -> Answer {
        let call = Call::new("POST /v1/activities/{activity}/orders/{order_no}/cancel");
        let call = call.path("activity", "sale").path("order_no", order_no).buyer(buyer).json(body);
        self.call(&self.functions.cancel_order, call).await
    }

    /// What the provider tells of one unit's price.
    pub async fn tell(&self, order_no: &str, event: &str, status: &str) -> Answer {
        self.tell_with(order_no, event, status, &json!({})).await
    }

    pub async fn tell_with(&self, order_no: &str, event: &str, status: &str, fields: &Value) -> Answer {
        let body = json!({
            "event_id": event, "activity": "sale", "order_no": order_no, "status": status, "amount": PRICE,
            "currency": "EUR"
        });
        let body = sample::with(body, fields).to_string();
        let signature = webhook_secrets().sign(body.as_bytes(), SystemClock.now());
        let call = Call::new("POST /v1/payments/webhook").header("holdfast-signature", signature).text(body);
        self.call(&self.functions.payment, call).await
    }

    /// Pays, and has to succeed.
    pub async fn pay(&self, order_no: &str) {
        let (status, body) = self.tell(order_no, &format!("pay-{order_no}"), "paid").await;
        assert_eq!((status, &body["outcome"]), (200, &json!("paid")), "{body}");
    }

    /// `cancel` or `refund`.
    pub async fn operate(&self, verb: &str, order_no: &str, body: &Value) -> Answer {
        let call = Call::new(match verb {
            "cancel" => "POST /v1/admin/activities/{activity}/orders/{order_no}/cancel",
            _ => "POST /v1/admin/activities/{activity}/orders/{order_no}/refund",
        });
        let call = call.path("activity", "sale").path("order_no", order_no).operator("olivia").json(body);
        self.call(&self.functions.console, call).await
    }

    pub async fn adjust(&self, delta: i64, key: &str) -> Answer {
        let call = Call::new("POST /v1/admin/activities/{activity}/adjust").path("activity", "sale");
        let call = call.operator("olivia").header("idempotency-key", key);
        let body = json!({"sku": SKU, "delta": delta, "reason": "counted again"});
        self.call(&self.functions.console, call.json(&body)).await
    }

    pub async fn admin(&self, route: &'static str, body: &Value) -> Answer {
        let call = Call::new(route).path("activity", "sale").operator("olivia").json(body);
        self.call(&self.functions.console, call).await
    }

    /// One run of the expiry by this clock.
    pub async fn expire(&self, clock: Skewed) -> ExpiryReport {
        let Wiring { database, gate, queues, .. } = self.backend.another_process();
        let run = ExpireOrders { store: database, gate, messages: queues, clock };
        run.run(Instant::now() + Duration::from_mins(1)).await.unwrap()
    }

    /// As if nobody had paid in time.
    pub async fn let_expire(&self) {
        let report = self.expire(AFTERWARDS).await;
        assert!(report.complete && report.faults == 0, "{report:?}");
    }

    pub async fn stored(&self, order_no: &str) -> Option<Stored> {
        self.backend.wiring.database.order(&OrderNo::parse(order_no).unwrap()).await.unwrap()
    }

    pub async fn committed(&self, order_no: &str) -> Order {
        match self.stored(order_no).await {
            Some(Stored::Order(order)) => order,
            other => unreachable!("{order_no}: {other:?}"),
        }
    }

    /// `PAID` and so on; empty where nothing is stored.
    pub async fn status(&self, order_no: &str) -> &'static str {
        self.stored(order_no).await.map_or("", |stored| stored.status().as_str())
    }

    /// What goes back, by payment.
    pub async fn refunds(&self, order_no: &str) -> Vec<(String, RefundReason)> {
        let refunds = self.backend.wiring.database.refunds(&OrderNo::parse(order_no).unwrap()).await.unwrap();
        refunds.into_iter().map(|due| (due.event_id.as_str().to_owned(), due.reason)).collect()
    }

    /// Units available in the database, and free in Redis.
    pub async fn left(&self) -> (u64, i64) {
        let skus = [Sku::parse(SKU).unwrap()];
        let stock = self.backend.wiring.database.stock(&self.activity, &skus).await.unwrap();
        let mut free = 0;
        for bucket in self.activity.buckets.all() {
            let state = self.backend.wiring.gate.read_bucket(&self.activity, bucket).await.unwrap();
            free += state.skus.iter().map(|sku| sku.stock).sum::<i64>();
        }
        (stock.iter().map(|item| item.available).sum(), free)
    }

    /// What the public sees of the stock, in a process that has seen nothing yet.
    pub async fn shown(&self) -> String {
        let query = wire::functions(&self.backend.another_process(), &self.backend.keys).query;
        let call = Call::new("GET /v1/activities/{activity}").path("activity", "sale");
        let (status, body) = self.call(&query, call).await;
        assert_eq!(status, 200);
        body["skus"][0]["available"].as_str().unwrap().to_owned()
    }

    /// What the stock item says of its last change: operation, operator, reference.
    pub async fn last_change(&self, sku: &Sku, bucket: u16) -> [String; 3] {
        let text = |value: String| AttributeValue::S(value);
        let get = self.backend.sdk.dynamodb.get_item().table_name(&self.backend.sdk.tables.table).consistent_read(true);
        let get = get.key("pk", text(format!("S#sale#{sku}#{bucket}"))).key("sk", text("S".to_owned()));
        let item = get.send().await.unwrap().item.unwrap();
        ["op", "operator", "ref"].map(|name| item[name].as_s().unwrap().clone())
    }

    /// Everything compared: nothing is found, and limits, sums and stores are as they have to be.
    pub async fn agree(&self) {
        let found = self.reconcile().await;
        assert_eq!(found, json!({}), "reconciliation found something");
        self.holds().await;
    }

    /// The findings of one whole pass, by kind.
    pub async fn reconcile(&self) -> Value {
        let Wiring { database, gate, .. } = self.backend.another_process();
        let run = Reconcile { store: database, gate, clock: SystemClock };
        match run.run_activity(&self.activity.id, Instant::now() + Duration::from_mins(1)).await.unwrap() {
            OnDemand::Done(report) if report.complete => serde_json::to_value(&report.findings).unwrap(),
            other => unreachable!("{other:?}"),
        }
    }

    pub async fn holds(&self) {
        let snapshot = self.stores.snapshot("sale").await.unwrap().unwrap();
        for check in checks::invariants(&snapshot, &[]).iter().filter(|check| ["2", "3", "5"].contains(&check.id)) {
            assert!(check.holds(), "{check:?}");
        }
    }
}

pub fn code(answer: &Answer) -> (u16, &str) {
    (answer.0, answer.1["code"].as_str().unwrap_or_default())
}

pub fn outcome(answer: &Answer) -> &str {
    answer.1["outcome"].as_str().unwrap_or_default()
}

/// The same shop for many tasks.
pub type Shared = Arc<Shop>;
