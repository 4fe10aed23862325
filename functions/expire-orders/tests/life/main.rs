//! The life of orders end to end against real servers, through every function's handler: cancelled, paid,
//! expired, paid too late, refunded; stock adjusted and a sale ended meanwhile. After each, both stores agree.

#![allow(clippy::unwrap_used)]

mod cancels;
mod operators;
mod payments;
mod shop;
