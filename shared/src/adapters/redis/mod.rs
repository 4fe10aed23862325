//! Redis.
