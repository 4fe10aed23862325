//! The ports' real sides, one folder per technology.

pub mod aws;
pub mod dynamodb;
pub mod redis;
pub mod secrets_manager;
pub mod sqs;
