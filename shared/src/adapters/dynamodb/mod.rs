//! DynamoDB: orders, guards, stock, activities and progress in one table, the audit trail in its own.

mod activities;
mod admission;
mod audit;
mod calls;
mod change;
mod codec;
mod coupons;
mod findings;
mod image;
mod keys;
mod life;
mod moves;
mod orders;
mod progress;
mod retry;
mod schema;
mod stock;
mod transaction;

use std::sync::Arc;

use aws_sdk_dynamodb::Client;

pub use codec::BadItem;
pub use image::{Image, read_image, read_trace};
pub use orders::TOMBSTONE_LIFE_MS;

use super::aws::LazyClient;
use crate::config::TableConfig;

/// Both tables. Cheap to clone; clones share their connections.
#[derive(Clone, Debug)]
pub struct Database {
    client: LazyClient<Client>,
    tables: Arc<TableConfig>,
}

impl Database {
    #[must_use]
    pub fn new(client: impl Into<LazyClient<Client>>, tables: TableConfig) -> Self {
        Self { client: client.into(), tables: Arc::new(tables) }
    }
}
