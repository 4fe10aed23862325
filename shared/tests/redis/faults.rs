//! Servers that stop, hang, refuse or move.

use std::time::{Duration, Instant};

use holdfast::{
    adapters::redis::Gate,
    domain::order::Take,
    ports::{Effect, Fault, OrderGate, PlaceAnswer, PlaceCall, Restocked, StockGate, TokenGate},
};
use redis::{Client, Cmd, cmd};
use secrecy::SecretString;
use servers::{Redis, RedisCluster, RedisOptions};

use super::support::{PATIENT_MS, Sale, bucket, config, now};

/// What the configured deadline is in these tests.
const DEADLINE_MS: u64 = 60;
/// Longest that a call may take: two deadlines, one connecting, the pauses, and a busy machine.
const LONGEST: Duration = Duration::from_millis(1_200);

struct Scene {
    server: Redis,
    gate: Gate,
    sale: Sale,
}

impl Scene {
    async fn start() -> Self {
        let server = Redis::start(RedisOptions::default()).await.unwrap();
        let patient = Gate::new(Some(config(vec![server.url().to_owned()], false, PATIENT_MS)));
        let sale = Sale::new(1, &[("a", 50)]);
        let _ = patient.preheat(&sale.activity, bucket(0), &sale.allotments, now()).await.unwrap();
        let gate = Gate::new(Some(config(vec![server.url().to_owned()], false, DEADLINE_MS)));
        Self { server, gate, sale }
    }

    async fn place(&self, token: u8) -> Result<PlaceAnswer, Fault> {
        place(&self.gate, &self.sale, token).await
    }

    /// Until the machine has time for it.
    async fn placed(&self, token: u8) -> PlaceAnswer {
        placed(&self.gate, &self.sale, token).await
    }

    async fn admin(&self, command: &mut Cmd) {
        let client = Client::open(self.server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        command.query_async::<()>(&mut connection).await.unwrap();
    }

    async fn set(&self, name: &str, value: &str) {
        self.admin(cmd("CONFIG").arg("SET").arg(name).arg(value)).await;
    }
}

async fn place(gate: &Gate, sale: &Sale, token: u8) -> Result<PlaceAnswer, Fault> {
    let placement = sale.placement("secret-buyer", token, &[("a", 1)]);
    gate.place(PlaceCall { activity: &sale.activity, placement: &placement, look: false }).await
}

async fn placed(gate: &Gate, sale: &Sale, token: u8) -> PlaceAnswer {
    let mut last = None;
    for _ in 0..100 {
        match place(gate, sale, token).await {
            Ok(answer) => return answer,
            Err(fault) => last = Some(fault.chain()),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{last:?}");
}

fn admitted(answer: &PlaceAnswer) -> bool {
    matches!(answer, PlaceAnswer::Admitted(_) | PlaceAnswer::Replayed(_))
}

/// The fault, which came soon enough and tells nothing personal.
async fn fault(scene: &Scene, token: u8) -> Fault {
    let started = Instant::now();
    let fault = scene.place(token).await.unwrap_err();
    assert!(started.elapsed() < LONGEST, "{:?}: {}", started.elapsed(), fault.chain());
    assert!(!fault.chain().contains("secret"), "{}", fault.chain());
    fault
}

#[tokio::test]
async fn without_a_configuration_nothing_is_applied() {
    let sale = Sale::new(1, &[("a", 1)]);
    let fault = place(&Gate::new(None), &sale, 1).await.unwrap_err();
    assert_eq!(fault.effect, Effect::None);
    assert!(fault.chain().starts_with("place_order failed (not applied)"), "{}", fault.chain());
    let gate = Gate::new(Some(config(vec!["not a url".to_owned()], false, DEADLINE_MS)));
    assert_eq!(place(&gate, &sale, 1).await.unwrap_err().effect, Effect::None);
}

#[tokio::test]
async fn a_stopped_server_is_told_fast_as_not_applied_and_works_when_it_is_back() {
    let mut scene = Scene::start().await;
    assert!(admitted(&scene.placed(1).await));
    scene.server.stop_hard();
    // The connection learns of it by itself; until then a call may be lost on it.
    let deadline = Instant::now() + Duration::from_secs(10);
    while fault(&scene, 2).await.effect != Effect::None {
        assert!(Instant::now() < deadline, "the connection is still used");
    }
    for _ in 0..3 {
        assert_eq!(fault(&scene, 2).await.effect, Effect::None);
    }
    scene.server.restart().await.unwrap();
    assert_eq!(scene.placed(2).await, PlaceAnswer::MemoryLost);
    let unreachable = Gate::new(Some(config(vec!["redis://127.0.0.1:1".to_owned()], false, DEADLINE_MS)));
    assert_eq!(place(&unreachable, &scene.sale, 1).await.unwrap_err().effect, Effect::None);
}

#[tokio::test]
async fn a_hanging_server_may_have_applied_it_and_works_when_it_goes_on() {
    let scene = Scene::start().await;
    assert!(admitted(&scene.placed(1).await));
    scene.server.pause().unwrap();
    assert_eq!(fault(&scene, 2).await.effect, Effect::Unknown);
    // The connection that hung is gone; without one, nothing is sent.
    assert_eq!(fault(&scene, 3).await.effect, Effect::None);
    scene.server.resume().unwrap();
    // What was sent before is carried out now: the number makes it one order.
    let PlaceAnswer::Replayed(record) = scene.placed(2).await else { panic!("the paused call was not carried out") };
    assert_eq!(record.held[0].1, 1);
    assert!(matches!(scene.placed(3).await, PlaceAnswer::Admitted(_)));
}

#[tokio::test]
async fn a_token_is_not_counted_again_when_its_reply_is_lost() {
    let scene = Scene::start().await;
    let sale = &scene.sale;
    let buyer = sale.placement("secret-buyer", 1, &[("a", 1)]).buyer;
    while scene.gate.allow_token(&sale.activity.id, bucket(0), &buyer, 9).await.is_err() {}
    scene.admin(&mut cmd("FLUSHALL")).await;
    scene.server.pause().unwrap();
    let fault = scene.gate.allow_token(&sale.activity.id, bucket(0), &buyer, 9).await.unwrap_err();
    assert_eq!(fault.effect, Effect::Unknown);
    scene.server.resume().unwrap();
    let patient = Gate::new(Some(config(vec![scene.server.url().to_owned()], false, PATIENT_MS)));
    for _ in 0..2 {
        assert_eq!(patient.allow_token(&sale.activity.id, bucket(0), &buyer, 3).await.unwrap(), Ok(()));
    }
    let counted = patient.allow_token(&sale.activity.id, bucket(0), &buyer, 3).await.unwrap();
    assert!(counted.is_err(), "the paused call counted once, the two others too");
}

#[tokio::test]
async fn a_full_memory_refuses_orders_before_the_first_write_and_still_restocks() {
    let scene = Scene::start().await;
    let sale = &scene.sale;
    assert!(admitted(&scene.placed(1).await));
    assert!(admitted(&scene.placed(2).await));
    scene.set("maxmemory", "1").await;
    let fault = fault(&scene, 3).await;
    assert_eq!(fault.effect, Effect::None);
    assert!(fault.chain().contains("OOM"), "{}", fault.chain());
    let placement = sale.placement("secret-buyer", 1, &[("a", 1)]);
    let restocked = scene.gate.restock(&sale.activity, &placement.order_no, bucket(0), Take::FIRST, false, None).await;
    assert_eq!(restocked.unwrap(), Restocked::Done { units: 1 });
    let second = sale.placement("secret-buyer", 2, &[("a", 1)]);
    let undone = scene.gate.undo(&sale.activity, &second, bucket(0)).await.unwrap();
    assert_eq!(undone, holdfast::ports::Undone::Done);
    scene.set("maxmemory", "0").await;
    let state = scene.gate.read_bucket(&sale.activity, bucket(0)).await.unwrap();
    assert_eq!((state.skus[0].stock, state.skus[0].sold), (50, 0), "the refused order left nothing");
    assert!(matches!(scene.placed(3).await, PlaceAnswer::Admitted(_)));
}

#[tokio::test]
async fn a_replica_is_an_infrastructure_fault_and_never_sold_out() {
    let scene = Scene::start().await;
    assert!(admitted(&scene.placed(1).await));
    scene.admin(cmd("REPLICAOF").arg("127.0.0.1").arg("1")).await;
    let fault = fault(&scene, 2).await;
    assert_eq!(fault.effect, Effect::None, "{}", fault.chain());
    scene.admin(cmd("REPLICAOF").arg("NO").arg("ONE")).await;
    assert!(admitted(&scene.placed(2).await));
}

#[tokio::test]
async fn a_password_is_used_and_never_told() {
    let scene = Scene::start().await;
    scene.set("requirepass", "secret-word").await;
    let refused = fault(&scene, 1).await;
    assert_eq!(refused.effect, Effect::None);
    let mut settings = config(vec![scene.server.url().to_owned()], false, PATIENT_MS);
    settings.password = Some(SecretString::from("secret-word"));
    assert!(admitted(&placed(&Gate::new(Some(settings.clone())), &scene.sale, 1).await));
    settings.password = Some(SecretString::from("secret-but-wrong"));
    let fault = place(&Gate::new(Some(settings)), &scene.sale, 1).await.unwrap_err();
    assert_eq!(fault.effect, Effect::None);
    assert!(!fault.chain().contains("secret"), "{}", fault.chain());
}

#[tokio::test]
async fn many_first_calls_open_one_connection() {
    let scene = Scene::start().await;
    let gate = Gate::new(Some(config(vec![scene.server.url().to_owned()], false, PATIENT_MS)));
    let mut placing = tokio::task::JoinSet::new();
    for token in 0..50 {
        let (gate, sale) = (gate.clone(), scene.sale.clone());
        placing.spawn(async move { place(&gate, &sale, token).await.unwrap() });
    }
    placing.join_all().await;
    let client = Client::open(scene.server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let clients: String = cmd("CLIENT").arg("LIST").query_async(&mut connection).await.unwrap();
    // This one, the gate's, and perhaps those of the servers crate and the scene that are not closed yet.
    assert_eq!(
        clients.lines().filter(|line| line.contains("cmd=evalsha") || line.contains("cmd=eval ")).count(),
        1,
        "{clients}"
    );
}

#[tokio::test]
async fn a_cluster_that_loses_a_primary_serves_again() {
    let mut servers = RedisCluster::start().await.unwrap();
    let gate = Gate::new(Some(config(servers.urls(), true, DEADLINE_MS)));
    let sales: Vec<Sale> = (0..12).map(|_| Sale::new(1, &[("a", 50)])).collect();
    for sale in &sales {
        while gate.preheat(&sale.activity, bucket(0), &sale.allotments, now()).await.is_err() {}
        assert!(admitted(&placed(&gate, sale, 1).await));
    }
    servers.kill_primary(0);
    let mut faults = 0;
    for sale in &sales {
        if let Err(fault) = place(&gate, sale, 2).await {
            assert!(!fault.chain().contains("secret"));
            faults += 1;
        }
    }
    assert!(faults < sales.len(), "the other primaries serve on");
    servers.until_complete(Duration::from_secs(30)).await.unwrap();
    for sale in &sales {
        let answer = placed(&gate, sale, 2).await;
        assert!(admitted(&answer), "{answer:?}");
    }
}
