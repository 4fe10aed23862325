//! The local runner's own tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests are tests

mod events;
mod gateway;
mod invariants;
mod jwt;
mod mappings;
mod plan;
mod pollers;
mod report;
mod snapshots;
mod whole;
