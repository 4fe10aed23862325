//! The DynamoDB adapter against a real local server, through the real SDK.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // tests

mod admission;
mod claims;
mod commits;
mod coupons;
mod faults;
mod formats;
mod life;
mod listings;
mod moves;
mod payments;
mod races;
mod stock;
mod stream;
mod units;
mod unprocessed;
mod world;
