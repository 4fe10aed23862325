//! Holdfast: flash-sale ordering that never sells a unit twice, never gives a buyer two orders and
//! never loses a unit.
//!
//! Dependencies point one way: functions → `lambda`, `adapters`, `app` → `ports` → `domain`. Beside them stands
//! `telemetry`, for whoever has something to count.
//! `domain`, `ports` and `app` name no AWS, Redis or Lambda type; `tests/tidy.rs` checks that.

pub mod adapters;
pub mod app;
pub mod config;
pub mod domain;
pub mod lambda;
pub mod ports;
pub mod telemetry;
