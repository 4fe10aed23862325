//! The ports' real sides, one folder per technology.

pub mod dynamodb;
pub mod redis;
pub mod sqs;
