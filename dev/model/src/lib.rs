//! The order protocol as a state machine.

pub mod reference;
