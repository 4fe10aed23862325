//! A running sale with one SKU, and buyers.

use std::{sync::Arc, time::Duration};

use harness::{Backend, Options, events, http::Call, sample};
use holdfast::{
    domain::{
        activity::Activity,
        ids::{ActivityId, BuyerId},
        rate::SharedRate,
        time::UnixMillis,
        token::{Page, Token, TokenId},
    },
    lambda::{Wiring, http::HttpHandler as _},
    ports::{Clock as _, SystemClock},
};
use place_order::Handler;
use serde_json::{Value, json};
use tokio::time::Instant;

pub const SKU: &str = "phone";
/// For tests in which the rate of orders past Redis is not what matters.
pub const UNBOUNDED: SharedRate = SharedRate { per_second: 1_000_000, processes: 1 };
/// Too little for even one order in a test's time.
pub const NOTHING: SharedRate = SharedRate { per_second: 1, processes: 100_000 };

pub struct Shop {
    pub backend: Backend,
    pub handler: Handler,
    pub activity: Activity,
}

impl Shop {
    /// A sale of so many units, one per buyer unless `fields` says otherwise.
    pub async fn open(stock: u64, fields: &Value) -> Self {
        Self::open_with(Options::default(), stock, fields).await
    }

    pub async fn open_with(options: Options, stock: u64, fields: &Value) -> Self {
        let mut backend = Backend::start(options).await.unwrap();
        backend.wiring.degraded_rate = UNBOUNDED;
        let draft = sample::with(sample::activity(SKU, stock), fields);
        let activity = events::open(&backend.wiring, "sale", &draft).await;
        let handler = place_order::handler(backend.wiring.clone(), Arc::clone(&backend.keys));
        Self { backend, handler, activity }
    }

    /// The function in another process.
    pub fn another_process(&self, degraded_rate: SharedRate) -> Handler {
        let wiring = Wiring { degraded_rate, ..self.backend.another_process() };
        place_order::handler(wiring, Arc::clone(&self.backend.keys))
    }

    /// Orders until the answer is final, as a patient client does.
    pub async fn order_patiently(&self, buyer: &str, token: &str) -> (u16, Value) {
        let deadline = Instant::now() + Duration::from_mins(1);
        loop {
            let answer = self.order(buyer, token, 1).await;
            if !matches!(answer.0, 202 | 429 | 503) {
                return answer;
            }
            assert!(Instant::now() < deadline, "{answer:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Starts Redis again, empty.
    pub async fn restart_redis(&mut self) {
        self.backend.redis.as_mut().unwrap().restart().await.unwrap();
    }

    /// Runs a command of Redis past the product.
    pub async fn redis<T: redis::FromRedisValue>(&self, command: &redis::Cmd) -> T {
        let client = redis::Client::open(self.backend.redis_config.urls[0].as_str()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        command.query_async(&mut connection).await.unwrap()
    }

    /// A token as the issuing function makes it.
    pub fn token(&self, buyer: &str) -> String {
        self.token_until(buyer, SystemClock.now().plus_ms(300_000))
    }

    pub fn token_until(&self, buyer: &str, expires_at: UnixMillis) -> String {
        let mut id = [0_u8; 16];
        id.fill_with(|| fastrand::u8(..));
        self.backend.keys.sign(&Token {
            activity: ActivityId::parse("sale").unwrap(),
            buyer: BuyerId::parse(buyer).unwrap(),
            page: Page::default(),
            id: TokenId::from_bytes(id),
            expires_at,
        })
    }

    /// Orders so many units with this token; answers status and body.
    pub async fn order(&self, buyer: &str, token: &str, quantity: u32) -> (u16, Value) {
        self.order_body(buyer, &json!({"token": token, "lines": [{"sku": SKU, "quantity": quantity}]})).await
    }

    pub async fn order_body(&self, buyer: &str, body: &Value) -> (u16, Value) {
        order_with(&self.handler, buyer, body).await
    }

    /// Units available in the database, over all buckets.
    pub async fn available(&self) -> u64 {
        use holdfast::ports::StockStore as _;
        let skus: Vec<_> = self.activity.skus.iter().map(|offer| offer.sku.clone()).collect();
        let stock = self.backend.wiring.database.stock(&self.activity, &skus).await.unwrap();
        stock.iter().map(|item| item.available).sum()
    }

    /// Units free in Redis, over all buckets; `None` when a bucket's keys are gone.
    pub async fn free(&self) -> Option<i64> {
        use holdfast::ports::StockGate as _;
        let (gate, mut free) = (self.backend.another_process().gate, 0);
        for bucket in self.activity.buckets.all() {
            let state = gate.read_bucket(&self.activity, bucket).await.unwrap();
            if !state.present {
                return None;
            }
            free += state.skus.iter().map(|sku| sku.stock).sum::<i64>();
        }
        Some(free)
    }

    /// One reconciliation run, in a process of its own.
    pub async fn reconcile(&self) -> holdfast::app::reconcile::Report {
        let Wiring { database, gate, .. } = self.backend.another_process();
        let use_case = holdfast::app::reconcile::Reconcile { store: database, gate, clock: SystemClock };
        use_case.run(tokio::time::Instant::now() + std::time::Duration::from_mins(1)).await.unwrap()
    }

    /// Every message that waits in the roll-back queue, settled as the consumer does; answers how many.
    pub async fn settle_roll_backs(&self) -> usize {
        let url = self.backend.queues.roll_back_url.as_deref().unwrap();
        let wiring = self.backend.another_process();
        let consumer = holdfast::app::roll_back::RollBackOrder {
            cache: wiring.cache,
            store: wiring.database,
            gate: wiring.gate,
            clock: SystemClock,
        };
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
        let messages = loop {
            let receive = self.backend.sdk.sqs.receive_message().queue_url(url).max_number_of_messages(10);
            let messages = receive.send().await.unwrap().messages.unwrap_or_default();
            if !messages.is_empty() || tokio::time::Instant::now() > deadline {
                break messages;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        };
        for message in &messages {
            let message = serde_json::from_str(message.body().unwrap()).unwrap();
            let _ = consumer.run(&message).await.unwrap();
        }
        messages.len()
    }
}

pub async fn order_with(handler: &Handler, buyer: &str, body: &Value) -> (u16, Value) {
    let call = Call::new("POST /v1/activities/{activity}/orders").path("activity", "sale").buyer(buyer).json(body);
    harness::http::read(&handler.handle(call.request().unwrap()).await)
}

pub fn code(body: &Value) -> &str {
    body["code"].as_str().unwrap_or_default()
}
