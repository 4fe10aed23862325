//! A local Redis cluster: three primaries with a replica each.

use std::io;
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, FromRedisValue, cmd};

use crate::redis::{Redis, Settings, free_port};
use crate::tls::Certificate;
use crate::wait;

/// The hash slots of the primaries, as Redis divides them itself.
const SLOTS: [(u16, u16); 3] = [(0, 5460), (5461, 10922), (10923, 16383)];
/// The number of hash slots of every Redis cluster.
const SLOT_COUNT: u32 = 16_384;
/// Silence after which a node is taken for failed. A replica takes over one to two seconds later.
const NODE_TIMEOUT_MS: &str = "1000";
/// How long the nodes may take to agree; a loaded machine needs some seconds.
const FORM_LIMIT: Duration = Duration::from_secs(30);

/// Six `redis-server` processes on free ports of 127.0.0.1 that form a cluster, killed on drop.
#[derive(Debug)]
pub struct RedisCluster {
    /// Primaries first, then the replica of each in the same order.
    nodes: Vec<Redis>,
}

impl RedisCluster {
    /// Starts a cluster; every node finds it complete and every replica has its primary's data
    /// when this returns, which takes some seconds.
    ///
    /// # Errors
    /// As [`Redis::start`], when a node refuses a command, or when they do not agree in 30 s.
    pub async fn start() -> io::Result<Self> {
        Self::start_with(None).await
    }

    /// The same, whose nodes speak TLS, too, with this certificate: see [`Self::tls_urls`].
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with(certificate: Option<&Certificate>) -> io::Result<Self> {
        let mut nodes = Vec::new();
        for _ in 0..SLOTS.len() * 2 {
            nodes.push(Redis::start_with(|| settings(certificate)).await?);
        }
        let cluster = Self { nodes };
        cluster.form().await?;
        Ok(cluster)
    }

    /// The address of every node, `redis://127.0.0.1:port`, those of killed nodes included.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.url().to_owned()).collect()
    }

    /// The same for TLS; nothing without a certificate.
    #[must_use]
    pub fn tls_urls(&self) -> Vec<String> {
        self.nodes.iter().filter_map(Redis::tls_url).collect()
    }

    /// Kills the `index`th of the three first primaries with SIGKILL. Its replica takes over:
    /// see [`Self::until_complete`]. Does nothing when there is no such primary.
    pub fn kill_primary(&mut self, index: usize) {
        if let Some(primary) = self.nodes[..SLOTS.len()].get_mut(index) {
            primary.stop_hard();
        }
    }

    /// Lets the nodes serve what they have when slots of others are not served, as managed clusters do.
    ///
    /// # Errors
    /// When a node refuses.
    pub async fn serve_partly(&self) -> io::Result<()> {
        for node in self.nodes.iter().filter(|node| node.is_running()) {
            let mut set = cmd("CONFIG");
            ask::<()>(node, set.arg("SET").arg("cluster-require-full-coverage").arg("no")).await?;
        }
        Ok(())
    }

    /// Kills the `index`th primary and, before it, its replica: nobody takes over.
    pub fn kill_shard(&mut self, index: usize) {
        if let Some(replica) = self.nodes[SLOTS.len()..].get_mut(index) {
            replica.stop_hard();
        }
        self.kill_primary(index);
    }

    /// Suspends the `index`th primary and, before it, its replica, with SIGSTOP.
    ///
    /// # Errors
    /// When one of them is stopped.
    pub fn pause_shard(&self, index: usize) -> io::Result<()> {
        for node in self.nodes.iter().skip(index).step_by(SLOTS.len()).collect::<Vec<_>>().into_iter().rev() {
            node.pause()?;
        }
        Ok(())
    }

    /// Waits until all running nodes have taken a killed one for failed.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after `limit`.
    pub async fn until_failed(&self, limit: Duration) -> io::Result<()> {
        wait::until("the dead node is known", limit, async || {
            for node in self.nodes.iter().filter(|node| node.is_running()) {
                let info = ask::<String>(node, cmd("CLUSTER").arg("INFO")).await?;
                if info.lines().any(|line| line == "cluster_slots_fail:0") {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    }

    /// Starts the `index`th primary again after [`Self::kill_shard`]: empty, on its port, with its slots.
    ///
    /// # Errors
    /// As [`Redis::restart`].
    pub async fn revive_primary(&mut self, index: usize) -> io::Result<()> {
        match self.nodes[..SLOTS.len()].get_mut(index) {
            Some(primary) => primary.restart().await,
            None => Err(io::Error::new(io::ErrorKind::NotFound, "there is no such primary")),
        }
    }

    /// Waits until all running nodes find that every slot has a primary, and that it is one that
    /// runs: right after a kill the others do not know of it yet and find everything well.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] after `limit`.
    pub async fn until_complete(&self, limit: Duration) -> io::Result<()> {
        let running: Vec<_> = self.nodes.iter().filter(|node| node.is_running()).collect();
        let ports: Vec<_> = running.iter().map(|node| node.port()).collect();
        wait::until("the cluster is complete", limit, async || {
            for node in &running {
                if !finds_complete(node, &ports).await {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await
    }

    async fn form(&self) -> io::Result<()> {
        let (primaries, replicas) = self.nodes.split_at(SLOTS.len());
        for (epoch, node) in (1_u16..).zip(&self.nodes) {
            // Unlike epochs spare the nodes the rounds in which they would settle them.
            ask::<()>(node, cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(epoch)).await?;
        }
        for (primary, (first, last)) in primaries.iter().zip(SLOTS) {
            let mut add = cmd("CLUSTER");
            ask::<()>(primary, add.arg("ADDSLOTSRANGE").arg(first).arg(last)).await?;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            // Everybody meets everybody: gossip alone would take seconds.
            for other in &self.nodes[index + 1..] {
                let mut meet = cmd("CLUSTER");
                meet.arg("MEET").arg("127.0.0.1").arg(other.port());
                ask::<()>(node, meet.arg(other.bus_port())).await?;
            }
        }
        for (primary, replica) in primaries.iter().zip(replicas) {
            let id: String = ask(primary, cmd("CLUSTER").arg("MYID")).await?;
            wait::until("the replica knows its primary", FORM_LIMIT, async || {
                let mut replicate = cmd("CLUSTER");
                // Refused until the two have met.
                let done = ask::<()>(replica, replicate.arg("REPLICATE").arg(&id)).await;
                Ok(done.ok())
            })
            .await?;
        }
        wait::until("the replicas have their data", FORM_LIMIT, async || {
            for replica in replicas {
                let info: String = ask(replica, cmd("INFO").arg("replication")).await?;
                if !info.contains("master_link_status:up") {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        })
        .await?;
        self.until_complete(FORM_LIMIT).await
    }
}

fn settings(certificate: Option<&Certificate>) -> io::Result<Settings> {
    let mut arguments = vec![
        ("--appendonly", "no"),
        ("--cluster-node-timeout", NODE_TIMEOUT_MS),
        // A replica takes over however old its data is: here only availability is asked for.
        ("--cluster-replica-validity-factor", "0"),
        // Five seconds by default, in which a replica has nothing to take over with.
        ("--repl-diskless-sync-delay", "0"),
    ];
    if certificate.is_some() {
        // Or nodes would tell clients of TLS the plain ports of the others.
        arguments.extend([("--tls-cluster", "yes"), ("--tls-replication", "yes")]);
    }
    let arguments = arguments.iter().flat_map(|(name, value)| [(*name).to_owned(), (*value).to_owned()]).collect();
    Settings { arguments, bus_port: Some(free_port()?), tls_port: None }.speaking_tls(certificate)
}

async fn finds_complete(node: &Redis, running: &[u16]) -> bool {
    let Ok(info) = ask::<String>(node, cmd("CLUSTER").arg("INFO")).await else {
        return false;
    };
    let Ok(nodes) = ask::<String>(node, cmd("CLUSTER").arg("NODES")).await else {
        return false;
    };
    info.lines().any(|line| line == "cluster_state:ok")
        && nodes.lines().count() == SLOTS.len() * 2
        && nodes.lines().map(|line| served_slots(line, running)).sum::<u32>() == SLOT_COUNT
}

/// How many slots a line of `CLUSTER NODES` gives to a primary with one of the `running` ports.
/// The line is `id host:port@bus flags primary ping pong epoch link slots…`.
fn served_slots(line: &str, running: &[u16]) -> u32 {
    let fields: Vec<_> = line.split_whitespace().collect();
    let address = fields.get(1).and_then(|address| address.split('@').next());
    let port = address.and_then(|address| address.rsplit(':').next()?.parse().ok());
    if !port.is_some_and(|port| running.contains(&port)) {
        return 0;
    }
    let slots = fields.iter().skip(8).filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<u32>().ok()? + 1 - first.parse::<u32>().ok()?)
    });
    slots.sum()
}

async fn ask<T: FromRedisValue>(node: &Redis, command: &Cmd) -> io::Result<T> {
    let mut connection = connect(node).await?;
    command.query_async(&mut connection).await.map_err(io::Error::other)
}

async fn connect(node: &Redis) -> io::Result<MultiplexedConnection> {
    let client = redis::Client::open(node.url()).map_err(io::Error::other)?;
    let connection = client.get_multiplexed_async_connection().await;
    connection.map_err(io::Error::other)
}
