//! The local runner's own tests.

mod events;
mod gateway;
mod jwt;
