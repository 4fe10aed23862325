//! The length of the queue limits admission, by whichever function measures it, and frees it again.

#![recursion_limit = "256"]
#![allow(clippy::unwrap_used)]

use aws_lambda_events::sqs::SqsEvent;
use harness::{Backend, Options};
use holdfast::{
    app::watch_backlog::{HOLD_MS, WatchBacklog, Watched},
    domain::{
        ids::{ActivityId, Bucket, BuyerId},
        order_no::OrderNo,
        time::UnixMillis,
    },
    lambda::Wiring,
    ports::{AdmissionStore as _, Clock, Messages as _, RollBack, RollBackReason, SystemClock},
};
use servers::{Fault, FaultKind};

const MAX: u64 = 4;

/// A clock of the test's.
#[derive(Clone, Copy)]
struct At(i64);

impl Clock for At {
    fn now(&self) -> UnixMillis {
        SystemClock.now().plus_ms(self.0)
    }
}

async fn send(backend: &Backend, messages: usize) {
    let message = RollBack {
        format: holdfast::domain::FORMAT,
        activity: ActivityId::parse("sale").unwrap(),
        order_no: OrderNo::parse("03PMZ9TWHB6V08WN8MG9SWRMDG").unwrap(),
        buyer: BuyerId::parse("alice").unwrap(),
        home: Bucket::new(0).unwrap(),
        buckets: Vec::new(),
        reason: RollBackReason::CommitUnknown,
    };
    for _ in 0..messages {
        backend.wiring.queues.send_roll_back(&message, 600).await.unwrap();
    }
}

async fn watch(backend: &Backend, after_ms: i64) -> Watched {
    let Wiring { database, queues, .. } = backend.wiring.clone();
    WatchBacklog::new(database, queues, At(after_ms), MAX, "test").run().await.unwrap()
}

#[tokio::test]
async fn the_consumer_limits_admission_and_an_operator_sees_why() {
    let mut backend = Backend::start(Options::default()).await.unwrap();
    backend.wiring.backlog_max = MAX;
    send(&backend, 5).await;
    let handler = roll_back::handler(backend.wiring.clone());
    handler.handle(SqsEvent::default()).await;
    let stored = backend.wiring.database.admission().await.unwrap();
    assert!(stored.is_limited(SystemClock.now()) && !stored.is_limited(At(HOLD_MS).now()), "it runs out by itself");
    assert_eq!(stored.limited_by.as_deref(), Some("system:roll-back"));
    assert_eq!(stored.reason.as_deref(), Some("5 messages in the roll-back queue, more than 4 allow"));
    // A process measures once in ten seconds.
    backend.sqs.control().reset_counts();
    for _ in 0..5 {
        handler.handle(SqsEvent::default()).await;
    }
    assert_eq!(backend.sqs.control().count("GetQueueAttributes"), 0);
}

#[tokio::test]
async fn it_is_freed_under_half_and_not_before() {
    let backend = Backend::start(Options::default()).await.unwrap();
    send(&backend, 4).await;
    assert_eq!(watch(&backend, 0).await, Watched::Free);
    send(&backend, 1).await;
    assert_eq!(watch(&backend, 0).await, Watched::Limited);
    assert_eq!(watch(&backend, 1_000).await, Watched::StillLimited);
    // Still too long when most of the time is over: it is renewed.
    assert_eq!(watch(&backend, HOLD_MS - 1_000).await, Watched::StillLimited);
    assert!(backend.wiring.database.admission().await.unwrap().is_limited(At(HOLD_MS + 60_000).now()));
    let url = backend.queues.roll_back_url.as_ref().unwrap();
    backend.sdk.sqs.purge_queue().queue_url(url).send().await.unwrap();
    send(&backend, 3).await;
    assert_eq!(watch(&backend, HOLD_MS).await, Watched::StillLimited, "between half and whole nothing changes");
    backend.sdk.sqs.purge_queue().queue_url(url).send().await.unwrap();
    send(&backend, 2).await;
    assert_eq!(watch(&backend, HOLD_MS).await, Watched::Lifted);
    assert!(!backend.wiring.database.admission().await.unwrap().is_limited(At(HOLD_MS + 1).now()));
    assert_eq!(watch(&backend, HOLD_MS + 2).await, Watched::Free);
}

/// Messages are settled whether the queue can be measured or not.
#[tokio::test]
async fn a_queue_that_cannot_be_measured_stops_no_message() {
    let mut backend = Backend::start(Options::default()).await.unwrap();
    backend.wiring.backlog_max = MAX;
    send(&backend, 5).await;
    backend.sqs.control().inject(Fault::standing("GetQueueAttributes", FaultKind::Error500));
    let settled = roll_back::handler(backend.wiring.clone()).handle(SqsEvent::default()).await;
    assert!(settled.batch_item_failures.is_empty());
    assert!(!backend.wiring.database.admission().await.unwrap().is_limited(SystemClock.now()));
}
