//! The servers, seen through the clients that the rest of the workspace uses.

#![allow(clippy::unwrap_used, reason = "clippy.toml allows it in tests, and these are their helpers")]

mod clients;
mod cluster;
mod conflicts;
mod dynamodb;
mod proxy;
mod redis;
mod sqs;
