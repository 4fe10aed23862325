//! The local runner: the whole system in one process with local servers, and a sale against it.
//! Never deployed.

pub mod background;
pub mod checks;
pub mod functions;
pub mod gateway;
pub mod pollers;
pub mod stack;
pub mod stores;
mod wire;
