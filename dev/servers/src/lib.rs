//! Real local servers for the runner and the tests: DynamoDB, SQS, Redis and a Redis cluster.
//!
//! Each server listens on a free port of 127.0.0.1 and is gone when its value is dropped. The two
//! AWS services have a front layer that counts calls and injects faults through [`Control`].
//! The HTTP servers have threads of their own, so a test may pause its clock or block its runtime.

mod cluster;
mod conflicts;
mod dynamodb;
mod faults;
mod front;
mod process;
mod proxy;
mod redis;
mod sqs;
mod wait;

pub use cluster::RedisCluster;
pub use dynamodb::{Dynamodb, DynamodbOptions};
pub use faults::{Control, Fault, FaultKind};
pub use proxy::{Flow, Proxy, ProxyCounts, Tripwire, Weather};
pub use redis::{Redis, RedisOptions};
pub use sqs::Sqs;
