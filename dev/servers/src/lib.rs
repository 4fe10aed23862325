//! Real local servers for the runner and the tests: DynamoDB, SQS, Secrets Manager, Redis and a Redis cluster.
//!
//! Each server listens on a free port of 127.0.0.1 and is gone when its value is dropped. The
//! AWS services have a front layer that counts calls and injects faults through [`Control`].
//! The HTTP servers have threads of their own, so a test may pause its clock or block its runtime.

mod cluster;
mod conflicts;
mod dynamodb;
mod faults;
mod front;
mod meter;
mod process;
mod proxy;
mod redis;
mod runtime_api;
mod secrets_manager;
mod sqs;
mod tls;
mod traces;
mod wait;
mod winterbaume;

pub use cluster::RedisCluster;
pub use dynamodb::{Dynamodb, DynamodbOptions};
pub use faults::{Control, Fault, FaultKind};
pub use process::Process;
pub use proxy::{Flow, Proxy, ProxyCounts, Tripwire, Weather};
pub use redis::{Redis, RedisOptions, free_port};
pub use runtime_api::{RuntimeApi, trace_id};
pub use secrets_manager::SecretsManager;
pub use sqs::Sqs;
pub use tls::Certificate;
pub use wait::until;
