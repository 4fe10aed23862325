//! The breaker in front of real servers that stop, hang, refuse and return.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use holdfast::{
    adapters::redis::Gate,
    ports::{Effect, Fault, OrderGate, PlaceAnswer, PlaceCall, StockGate},
};
use redis::{Client, cmd};
use servers::{Redis, RedisCluster, RedisOptions};

use super::support::{PATIENT_MS, Sale, bucket, config, now};

/// So long that a call which waits for it is told apart from one that does not.
const DEADLINE_MS: u64 = 1_000;
const LIMIT: Duration = Duration::from_secs(30);

async fn place(gate: &Gate, sale: &Sale, token: u8) -> Result<PlaceAnswer, Fault> {
    let placement = sale.placement("buyer", token, &[("a", 1)]);
    gate.place(PlaceCall { activity: &sale.activity, placement: &placement, look: false }).await
}

fn is_open(fault: &Fault) -> bool {
    fault.chain().contains("was not asked")
}

async fn preheated(urls: Vec<String>, cluster: bool) -> Sale {
    let sale = Sale::new(1, &[("a", 200)]);
    let patient = Gate::new(Some(config(urls, cluster, PATIENT_MS)));
    let _ = patient.preheat(&sale.activity, bucket(0), &sale.allotments, now()).await.unwrap();
    sale
}

/// Calls until one is refused without being sent.
async fn until_open(gate: &Gate, sale: &Sale) -> u32 {
    for calls in 1..=3 {
        let fault = place(gate, sale, 200).await.unwrap_err();
        if is_open(&fault) {
            return calls;
        }
    }
    panic!("three calls found nothing, and a fourth would be sent");
}

async fn until_closed(gate: &Gate, sale: &Sale) -> PlaceAnswer {
    let deadline = Instant::now() + LIMIT;
    loop {
        match place(gate, sale, 201).await {
            Ok(answer) => return answer,
            Err(fault) => assert!(Instant::now() < deadline, "{}", fault.chain()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_stopped_server_opens_it_and_a_probe_closes_it() {
    let mut server = Redis::start(RedisOptions::default()).await.unwrap();
    let sale = preheated(vec![server.url().to_owned()], false).await;
    let gate = Gate::new(Some(config(vec![server.url().to_owned()], false, DEADLINE_MS)));
    assert!(matches!(place(&gate, &sale, 1).await.unwrap(), PlaceAnswer::Admitted(_)));
    server.stop_hard();
    assert!(until_open(&gate, &sale).await <= 3);
    server.restart().await.unwrap();
    assert_eq!(until_closed(&gate, &sale).await, PlaceAnswer::MemoryLost);
    assert!(place(&gate, &sale, 2).await.is_ok(), "and stays closed");
}

/// What a function logs.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Once when it opens and once when it closes, however many calls there are and probes fail.
#[tokio::test]
async fn opening_and_closing_are_logged_once_each() {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let count = |event: &str| String::from_utf8(lines.0.lock().unwrap().clone()).unwrap().matches(event).count();
    let mut server = Redis::start(RedisOptions::default()).await.unwrap();
    let sale = preheated(vec![server.url().to_owned()], false).await;
    let gate = Gate::new(Some(config(vec![server.url().to_owned()], false, PATIENT_MS)));
    for _ in 0..3 {
        let _ = place(&gate, &sale, 1).await.unwrap();
    }
    server.stop_hard();
    // Until two probes have failed: their interval doubles from a quarter of a second.
    let mut sent = 0;
    let deadline = Instant::now() + LIMIT;
    while sent < 4 {
        sent += u32::from(!is_open(&place(&gate, &sale, 1).await.unwrap_err()));
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((count("breaker_open"), count("breaker_closed")), (1, 0));
    server.restart().await.unwrap();
    let _ = until_closed(&gate, &sale).await;
    let _ = place(&gate, &sale, 1).await.unwrap();
    assert_eq!((count("breaker_open"), count("breaker_closed")), (1, 1));
}

/// While it is open calls wait for nothing and send nothing.
#[tokio::test]
async fn a_hanging_server_costs_two_calls_and_then_nothing() {
    let server = Redis::start(RedisOptions::default()).await.unwrap();
    let sale = preheated(vec![server.url().to_owned()], false).await;
    let gate = Gate::new(Some(config(vec![server.url().to_owned()], false, DEADLINE_MS)));
    let _ = place(&gate, &sale, 1).await.unwrap();
    server.pause().unwrap();
    let first = place(&gate, &sale, 2).await.unwrap_err();
    assert_eq!(first.effect, Effect::Unknown, "{}", first.chain());
    // Its own second attempt was the second failure.
    let mut refused = 0;
    for token in 10..60 {
        let fault = place(&gate, &sale, token).await.unwrap_err();
        if is_open(&fault) {
            assert_eq!(fault.effect, Effect::None);
            refused += 1;
        }
    }
    assert!(refused >= 45, "{refused}");
    server.resume().unwrap();
    assert!(matches!(until_closed(&gate, &sale).await, PlaceAnswer::Admitted(_)));
    // What was refused was never sent; the first call was.
    let patient = Gate::new(Some(config(vec![server.url().to_owned()], false, PATIENT_MS)));
    let sold = patient.read_bucket(&sale.activity, bucket(0)).await.unwrap().skus[0].sold;
    let sent = 50 - refused;
    assert!((3..=3 + i64::from(sent)).contains(&sold), "{sold} of which {sent} were probes");
}

/// Business answers and the errors of a server that is well do not count.
#[tokio::test]
async fn what_a_healthy_server_answers_never_opens_it() {
    let server = Redis::start(RedisOptions::default()).await.unwrap();
    let sale = preheated(vec![server.url().to_owned()], false).await;
    let gate = Gate::new(Some(config(vec![server.url().to_owned()], false, PATIENT_MS)));
    let client = Client::open(server.url()).unwrap();
    let mut raw = client.get_multiplexed_async_connection().await.unwrap();
    // A key of another type, and a script that is not known any more.
    let key = format!("hf:{{{}:0}}:orders", sale.activity.id);
    for _ in 0..5 {
        cmd("SCRIPT").arg("FLUSH").exec_async(&mut raw).await.unwrap();
        assert!(place(&gate, &sale, 1).await.is_ok());
    }
    cmd("DEL").arg(&key).exec_async(&mut raw).await.unwrap();
    cmd("SET").arg(&key).arg("x").exec_async(&mut raw).await.unwrap();
    for _ in 0..5 {
        let listed = gate.list_records(&sale.activity.id, bucket(0), 0).await;
        assert!(listed.is_err_and(|fault| !is_open(&fault)));
    }
    assert_eq!(place(&gate, &sale, 2).await.unwrap(), PlaceAnswer::BadData);
}

/// A server that answers, but takes no orders, is left alone until it does.
#[tokio::test]
async fn a_server_that_takes_no_orders_opens_it() {
    for (setting, broken, well) in [("maxmemory", "1", "0"), ("min-replicas-to-write", "1", "0")] {
        let server = Redis::start(RedisOptions::default()).await.unwrap();
        let sale = preheated(vec![server.url().to_owned()], false).await;
        let gate = Gate::new(Some(config(vec![server.url().to_owned()], false, PATIENT_MS)));
        let client = Client::open(server.url()).unwrap();
        let mut raw = client.get_multiplexed_async_connection().await.unwrap();
        let mut set = async |value: &str| cmd("CONFIG").arg("SET").arg(setting).arg(value).exec_async(&mut raw).await;
        set(broken).await.unwrap();
        assert_eq!(until_open(&gate, &sale).await, 3, "{setting}");
        set(well).await.unwrap();
        assert!(matches!(until_closed(&gate, &sale).await, PlaceAnswer::Admitted(_)), "{setting}");
    }
}

/// One dead node of a cluster: its slots are not asked any more, those of others answer all the while.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_node_of_a_cluster_leaves_the_other_slots_alone() {
    let mut servers = RedisCluster::start().await.unwrap();
    servers.serve_partly().await.unwrap();
    let gate = Gate::new(Some(config(servers.urls(), true, DEADLINE_MS)));
    let mut sales = Vec::new();
    for _ in 0..12 {
        sales.push(preheated(servers.urls(), true).await);
    }
    for sale in &sales {
        assert!(place(&gate, sale, 1).await.is_ok());
    }
    servers.kill_shard(1);
    servers.until_failed(LIMIT).await.unwrap();
    // Every slot is asked often; those that are open are those that have no node.
    let (mut well, mut sick) = (0, 0);
    for sale in &sales {
        let mut last = None;
        for token in 0..4 {
            last = Some(place(&gate, sale, token).await);
        }
        match last.unwrap() {
            Ok(_) => well += 1,
            Err(fault) => {
                assert!(is_open(&fault), "{}", fault.chain());
                sick += 1;
            }
        }
    }
    assert!(well > 0 && sick > 0, "{well} {sick}");
    // Whoever answered goes on answering while the others are refused and probed.
    let mut answered = 0;
    for token in 10..40 {
        for sale in &sales {
            answered += u32::from(place(&gate, sale, token).await.is_ok());
        }
    }
    assert_eq!(answered, well * 30);
    servers.revive_primary(1).await.unwrap();
    for sale in &sales {
        // Any answer: the revived node has nothing.
        let _ = until_closed(&gate, sale).await;
    }
}

/// A node that hangs: whoever meets it waits once or twice, and nobody else does. The connections to the
/// other nodes are not given up with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_node_of_a_cluster_does_not_hold_up_calls_to_the_others() {
    let servers = RedisCluster::start().await.unwrap();
    servers.serve_partly().await.unwrap();
    let mut sales = Vec::new();
    for _ in 0..12 {
        sales.push(preheated(servers.urls(), true).await);
    }

    let gate = Gate::new(Some(config(servers.urls(), true, DEADLINE_MS)));
    let mut well = Vec::new();
    for sale in &sales {
        assert!(place(&gate, sale, 1).await.is_ok());
    }
    servers.pause_shard(2).unwrap();
    for sale in &sales {
        if place(&gate, sale, 2).await.is_ok() {
            well.push(sale);
        }
    }
    assert!(!well.is_empty() && well.len() < sales.len());
    for token in 10..40 {
        // The others meet the node again and again: as probes, and each gives its connection up.
        futures_util::future::join_all(sales.iter().map(|sale| place(&gate, sale, token))).await;
        for sale in &well {
            let answer = place(&gate, sale, token).await;
            assert!(answer.is_ok(), "{token}: {}", answer.unwrap_err().chain());
        }
    }
}
