//! The order protocol as a state machine. See docs/protocol.md, "How it is checked".

mod actions;
pub mod check;
mod fill;
mod invariants;
mod jobs;
pub mod models;
mod place;
mod product;
pub mod protocol;
pub mod reference;
pub mod scenario;
mod settle;
pub mod state;
mod stores;
