//! One use case per file. They name no AWS, Redis or Lambda type: what they need comes through ports.

pub mod activity_cache;
pub mod adjust_stock;
pub mod admin;
pub mod admission;
pub mod cancel_order;
mod carry_allotment;
mod commit_order;
pub mod end_order;
pub mod expire_orders;
pub mod fill_order;
pub mod findings;
mod give_back;
pub mod issue_coupons;
pub mod issue_token;
pub mod lease;
mod looks;
mod past_gate;
pub mod place_order;
pub mod query;
pub mod rebalance_stock;
pub mod reconcile;
pub mod relay;
pub mod roll_back;
pub mod settle_payment;
pub mod stock_memory;
mod submission;
pub mod watch_backlog;
