//! The local runner: the whole system in one process with local servers, and a sale against it.
//! Never deployed.

pub mod args;
pub mod background;
pub mod bench;
pub mod checks;
pub mod commands;
pub mod cost;
pub mod faults;
pub mod functions;
pub mod fuzz;
pub mod gateway;
pub mod invoke;
pub mod plan;
pub mod pollers;
pub mod report;
pub mod sale;
pub mod size;
pub mod stack;
pub mod stores;
pub mod wire;
