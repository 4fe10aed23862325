//! What happens to orders: cancelled, paid, expired, refunded, paid too late; stock adjusted, sales ended. Every
//! function as it is deployed, on real servers; each answer is held to the HTTP contract, and after each test
//! reconciliation has nothing to find.

#![allow(clippy::unwrap_used)]

mod adjusting;
mod admitting;
mod cancelling;
mod coupons;
mod expiring;
mod faults;
mod paying;
mod quota;
mod races;
mod rebalancing;
mod refunding;
mod shop;
mod telemetry;
