//! Orders end to end against real servers, through the handler: the last unit, one buyer many times,
//! replays, refusals, and every part of the backend failing.

#![allow(clippy::unwrap_used)]

mod calls;
mod degraded;
mod degraded_parts;
mod elsewhere;
mod failures;
mod last_unit;
mod limited;
mod memory;
mod refusals;
mod replays;
mod shop;
