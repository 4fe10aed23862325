//! The servers, seen through the clients that the rest of the workspace uses.

mod clients;
mod cluster;
mod conflicts;
mod dynamodb;
mod redis;
mod sqs;
