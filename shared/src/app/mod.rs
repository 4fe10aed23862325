//! One use case per file. They name no AWS, Redis or Lambda type: what they need comes through ports.

pub mod activity_cache;
pub mod admin;
pub mod admission;
mod commit_order;
pub mod fill_order;
pub mod findings;
pub mod issue_token;
pub mod lease;
mod past_gate;
pub mod place_order;
pub mod query;
pub mod reconcile;
pub mod relay;
pub mod roll_back;
mod submission;
pub mod watch_backlog;
