//! The Redis cluster.

use std::time::Duration;

use redis::cluster::ClusterClient;
use servers::RedisCluster;

/// Keys enough for every primary: of 300 random slots, all of one third cannot be missed.
const KEYS: u16 = 300;

async fn eval_everywhere(cluster: &RedisCluster) {
    let client = ClusterClient::new(cluster.urls()).unwrap();
    let mut connection = client.get_async_connection().await.unwrap();
    let script = redis::Script::new("return redis.call('INCR', KEYS[1])");
    for index in 0..KEYS {
        let key = format!("{{{index}}}:count");
        let count: u16 = script.key(key).invoke_async(&mut connection).await.unwrap();
        assert!(count > 0);
    }
}

#[tokio::test]
async fn scripts_run_on_all_slots_before_and_after_a_primary_is_killed() {
    let mut cluster = RedisCluster::start().await.unwrap();
    assert_eq!(cluster.urls().len(), 6);
    eval_everywhere(&cluster).await;
    cluster.kill_primary(1);
    cluster.until_complete(Duration::from_secs(30)).await.unwrap();
    eval_everywhere(&cluster).await;
}
