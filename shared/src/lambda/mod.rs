//! What the functions share: reading requests, problem documents, batches, telemetry and wiring.

pub mod batch;
pub mod emf;
pub mod http;
pub mod problem;
pub mod run;
pub mod start;
pub mod telemetry;
pub mod views;
pub mod wiring;

pub use start::{Needs, Start};
pub use telemetry::Telemetry;
pub use wiring::Wiring;
