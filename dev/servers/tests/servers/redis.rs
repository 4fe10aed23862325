//! The life of a Redis server.

use std::process::Command;
use std::time::{Duration, Instant};

use redis::AsyncCommands;
use redis::aio::MultiplexedConnection;
use servers::{Redis, RedisOptions};

pub async fn connect(url: &str) -> MultiplexedConnection {
    let client = redis::Client::open(url).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

/// Whether a process runs; one that nobody has reaped counts too.
fn runs(id: &str) -> bool {
    let mut probe = Command::new("sh");
    let found = probe.args(["-c", r#"kill -0 "$0""#, id]);
    found.output().unwrap().status.success()
}

async fn process_id(url: &str) -> String {
    let info: String = redis::cmd("INFO").query_async(&mut connect(url).await).await.unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("process_id:"));
    line.unwrap().to_owned()
}

async fn get(url: &str) -> Option<String> {
    connect(url).await.get("key").await.unwrap()
}

#[tokio::test]
async fn a_kill_loses_the_data_of_a_server_that_persists_nothing() {
    let mut server = Redis::start(RedisOptions::default()).await.unwrap();
    let url = format!("redis://127.0.0.1:{}", server.port());
    assert_eq!(server.url(), url);
    let () = connect(&url).await.set("key", "value").await.unwrap();
    server.stop_hard();
    assert!(redis::Client::open(url.as_str()).unwrap().get_connection().is_err());
    server.restart().await.unwrap();
    assert_eq!(get(&url).await, None);
}

#[tokio::test]
async fn a_kill_loses_nothing_with_an_append_only_file() {
    let options = RedisOptions { appendonly: true, ..RedisOptions::default() };
    let mut server = Redis::start(options).await.unwrap();
    let () = connect(server.url()).await.set("key", "value").await.unwrap();
    server.restart().await.unwrap();
    assert_eq!(get(server.url()).await.as_deref(), Some("value"));
}

#[tokio::test]
async fn a_full_server_refuses_writes() {
    let options = RedisOptions { maxmemory: Some("4mb".to_owned()), ..RedisOptions::default() };
    let server = Redis::start(options).await.unwrap();
    let mut connection = connect(server.url()).await;
    let value = "x".repeat(1 << 20);
    let mut refused = None;
    for index in 0..8 {
        if let Err(error) = connection.set::<_, _, ()>(index, &value).await {
            refused = Some(error);
        }
    }
    assert_eq!(refused.unwrap().code(), Some("OOM"));
}

#[tokio::test]
async fn a_paused_server_is_silent_and_answers_after() {
    let server = Redis::start(RedisOptions::default()).await.unwrap();
    let mut connection = connect(server.url()).await;
    server.pause().unwrap();
    let silent = connection.set::<_, _, ()>("key", "value").await.unwrap_err();
    assert!(silent.is_timeout(), "{silent}");
    server.resume().unwrap();
    // What was sent while it was paused has been applied: a timeout does not mean "not applied".
    assert_eq!(get(server.url()).await.as_deref(), Some("value"));
}

#[tokio::test]
async fn a_stopped_server_cannot_be_paused() {
    let mut server = Redis::start(RedisOptions::default()).await.unwrap();
    server.stop_hard();
    server.stop_hard();
    assert!(server.pause().is_err());
}

#[tokio::test]
async fn nothing_runs_after_a_drop_even_of_a_paused_server_or_in_a_panic() {
    let server = Redis::start(RedisOptions::default()).await.unwrap();
    let id = process_id(server.url()).await;
    server.pause().unwrap();
    drop(server);
    assert!(!runs(&id));

    let server = Redis::start(RedisOptions::default()).await.unwrap();
    let id = process_id(server.url()).await;
    let panicked = tokio::spawn(async move {
        let _server = server;
        panic!("a failed test");
    });
    assert!(panicked.await.unwrap_err().is_panic());
    assert!(!runs(&id));
}

/// Runs in a process of its own, started by the next test, and waits to be killed.
#[tokio::test]
#[ignore = "a part of the next test"]
async fn start_and_wait_to_be_killed() {
    let server = Redis::start(RedisOptions::default()).await.unwrap();
    let path = std::env::var("SERVERS_TEST_ID_FILE").unwrap();
    let id = process_id(server.url()).await;
    std::fs::write(format!("{path}.part"), id).unwrap();
    std::fs::rename(format!("{path}.part"), path).unwrap();
    std::future::pending::<()>().await;
}

#[test]
fn nothing_runs_after_this_process_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("id");
    let name = "redis::start_and_wait_to_be_killed";
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", name])
        .env("SERVERS_TEST_ID_FILE", &path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let id = until(|| std::fs::read_to_string(&path).ok());
    assert!(runs(&id));
    process.kill().unwrap();
    process.wait().unwrap();
    until(|| (!runs(&id)).then_some(()));
}

fn until<T>(mut probe: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(value) = probe() {
            return value;
        }
        assert!(Instant::now() < deadline, "not in ten seconds");
        std::thread::sleep(Duration::from_millis(5));
    }
}
