//! Whole passes against real servers: what is found by changes alone, what makes a pass compare all of a
//! bucket, how a pass is cut off and goes on, who may go on, and what is kept of it.

#![allow(clippy::unwrap_used, clippy::panic, clippy::large_futures)] // tests: a whole backend is in each

mod changes;
mod cut_off;
mod kept;
mod midnight;
mod trail;
mod turns;
mod world;
