//! The local runner's own tests.

mod events;
mod gateway;
mod invariants;
mod jwt;
mod plan;
mod pollers;
mod report;
mod snapshots;
