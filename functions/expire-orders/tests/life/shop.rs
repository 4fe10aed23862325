//! A running sale with one SKU, and everybody who has to do with its orders.

use std::{sync::Arc, time::Duration};

use harness::{Backend, Options, contract::Contract, events, http::Call, sample};
use holdfast::{
    app::{
        expire_orders::{ExpireOrders, ExpiryReport},
        reconcile::{OnDemand, Reconcile},
    },
    domain::{
        activity::Activity,
        ids::{ActivityId, BuyerId},
        order_no::OrderNo,
        time::UnixMillis,
        token::{Page, Token, TokenId},
    },
    lambda::http::HttpHandler,
    ports::{Clock, OrderLife as _, OrderStore as _, StockStore as _, SystemClock},
};
use serde_json::{Value, json};
use tokio::time::Instant;

pub const SKU: &str = "phone";
pub const PRICE: u64 = 49_900;
pub type Answer = (u16, Value);

/// A clock that is ahead by so many minutes.
#[derive(Clone, Copy)]
struct Ahead(i64);

impl Clock for Ahead {
    fn now(&self) -> UnixMillis {
        SystemClock.now().plus_ms(self.0 * 60_000)
    }
}

pub struct Shop {
    pub backend: Backend,
    pub activity: Activity,
    place: place_order::Handler,
    cancel: cancel_order::Handler,
    payment: payment::Handler,
    console: console::Handler,
    contract: Contract,
}

impl Shop {
    /// A sale of so many units in one bucket, one per buyer, unless `fields` says otherwise.
    pub async fn open(stock: u64, fields: &Value) -> Self {
        let backend = Backend::start(Options::default()).await.unwrap();
        let draft = sample::with(sample::with(sample::activity(SKU, stock), &json!({"buckets": 1})), fields);
        let activity = events::open(&backend.wiring, "sale", &draft).await;
        let keys = || Arc::clone(&backend.keys);
        Self {
            place: place_order::handler(backend.another_process(), keys()),
            cancel: cancel_order::handler(backend.another_process(), keys()),
            payment: payment::handler(backend.another_process(), Arc::new(harness::webhook_secrets())),
            console: console::handler(backend.another_process()),
            contract: Contract::load(),
            activity,
            backend,
        }
    }

    async fn call(&self, handler: &impl HttpHandler, call: Call) -> Answer {
        let response = handler.handle(call.request().unwrap()).await;
        self.contract.check(call.route, &response).unwrap();
        harness::http::read(&response)
    }

    /// A token as the issuing function makes it, and the number of its order.
    pub fn token(&self, buyer: &str) -> (String, String) {
        let mut id = [0_u8; 16];
        id.fill_with(|| fastrand::u8(..));
        let (activity, buyer) = (ActivityId::parse("sale").unwrap(), BuyerId::parse(buyer).unwrap());
        let id = TokenId::from_bytes(id);
        let order_no = OrderNo::derive(&activity, &buyer, &id).as_str().to_owned();
        let expires_at = SystemClock.now().plus_ms(300_000);
        (self.backend.keys.sign(&Token { activity, buyer, page: Page::default(), id, expires_at }), order_no)
    }

    pub async fn submit(&self, buyer: &str, token: &str) -> Answer {
        let body = json!({"token": token, "lines": [{"sku": SKU, "quantity": 1}]});
        let call = Call::new("POST /v1/activities/{activity}/orders").path("activity", "sale").buyer(buyer).json(&body);
        self.call(&self.place, call).await
    }

    /// One unit with a new token, patiently: what a process remembers of sold-out buckets lives a second.
    pub async fn order(&self, buyer: &str) -> Answer {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let answer = self.submit(buyer, &self.token(buyer).0).await;
            if answer.0 < 429 && answer.1["code"] != "sold_out" || Instant::now() > deadline {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// An order that must be accepted; answers its number.
    pub async fn buy(&self, buyer: &str) -> String {
        let (status, body) = self.order(buyer).await;
        assert_eq!(status, 201, "{body}");
        body["order_no"].as_str().unwrap().to_owned()
    }

    pub async fn cancel(&self, buyer: &str, order_no: &str, body: &Value) -> Answer {
        let call = Call::new("POST /v1/activities/{activity}/orders/{order_no}/cancel")
            .path("activity", "sale")
            .path("order_no", order_no)
            .buyer(buyer)
            .json(body);
        self.call(&self.cancel, call).await
    }

    /// A signed event of the whole price, with these fields instead.
    pub async fn tell(&self, event_id: &str, order_no: &str, fields: &Value) -> Answer {
        let event = json!({
            "event_id": event_id, "activity": "sale", "order_no": order_no, "status": "paid", "amount": PRICE,
            "currency": "EUR"
        });
        let body = sample::with(event, fields).to_string();
        let signature = harness::webhook_secrets().sign(body.as_bytes(), SystemClock.now());
        let call = Call::new("POST /v1/payments/webhook").header("holdfast-signature", signature).text(body);
        self.call(&self.payment, call).await
    }

    /// What a payment of the whole price comes to.
    pub async fn pay(&self, event_id: &str, order_no: &str) -> Value {
        let (status, body) = self.tell(event_id, order_no, &json!({})).await;
        assert_eq!(status, 200, "money is never answered with an error: {body}");
        body["outcome"].clone()
    }

    /// An operator's call of a single order.
    pub async fn operate(&self, route: &'static str, order_no: &str, body: &Value) -> Answer {
        let call = Call::new(route).path("activity", "sale").path("order_no", order_no).operator("olga").json(body);
        self.call(&self.console, call).await
    }

    pub async fn adjust(&self, key: &str, delta: i64) -> Answer {
        let call = Call::new("POST /v1/admin/activities/{activity}/adjust")
            .path("activity", "sale")
            .operator("olga")
            .header("idempotency-key", key)
            .json(&json!({"sku": SKU, "delta": delta, "reason": "more came"}));
        self.call(&self.console, call).await
    }

    pub async fn end(&self) -> Answer {
        let call = Call::new("POST /v1/admin/activities/{activity}/end").path("activity", "sale").operator("olga");
        self.call(&self.console, call).await
    }

    /// The expiry of a time so many minutes from now.
    pub async fn expire(&self, minutes: i64) -> ExpiryReport {
        let wiring = self.backend.another_process();
        let (store, gate, messages) = (wiring.database, wiring.gate, wiring.queues);
        let run = ExpireOrders { store, gate, messages, clock: Ahead(minutes) };
        run.run(Instant::now() + Duration::from_mins(1)).await.unwrap()
    }

    /// Whether anything is stored under the number, and as what.
    pub async fn stored(&self, order_no: &str) -> Option<holdfast::domain::order::Stored> {
        self.backend.wiring.database.order(&OrderNo::parse(order_no).unwrap()).await.unwrap()
    }

    /// Why money of this order is due back, one for each payment.
    pub async fn refunds(&self, order_no: &str) -> Vec<Value> {
        let due = self.backend.wiring.database.refunds(&OrderNo::parse(order_no).unwrap()).await.unwrap();
        due.iter().map(|refund| json!(refund.reason)).collect()
    }

    /// So many units are left in both stores, and a full reconciliation finds nothing to say.
    pub async fn agrees_on(&self, available: u64) {
        use holdfast::ports::StockGate as _;
        let wiring = self.backend.another_process();
        let skus: Vec<_> = self.activity.skus.iter().map(|offer| offer.sku.clone()).collect();
        let stock = wiring.database.stock(&self.activity, &skus).await.unwrap();
        assert_eq!(stock.iter().map(|item| item.available).sum::<u64>(), available, "the database");
        let mut free = 0;
        for bucket in self.activity.buckets.all() {
            let state = wiring.gate.read_bucket(&self.activity, bucket).await.unwrap();
            free += state.skus.iter().map(|sku| sku.stock).sum::<i64>();
        }
        assert_eq!(free, i64::try_from(available).unwrap(), "Redis");
        let pass = Reconcile { store: wiring.database, gate: wiring.gate, clock: SystemClock };
        let ran = pass.run_activity(&self.activity.id, Instant::now() + Duration::from_mins(1)).await.unwrap();
        let OnDemand::Done(report) = ran else { unreachable!("no pass was made") };
        assert!(report.complete && report.faults == 0 && report.findings.is_empty(), "{report:?}");
    }
}
