//! The order protocol as a state machine.
