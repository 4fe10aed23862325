//! Both stores read raw, from outside the product: its tables, scanned, and its Redis keys, whole. Only
//! names and spellings are shared with the product, none of its decisions.

mod database;
mod gate;
pub mod snapshot;
pub mod state;

use std::collections::BTreeMap;
use std::sync::Arc;

use harness::{Backend, Clients};

pub use self::gate::Reader;
use self::snapshot::{Snapshot, StockKey};
use crate::gateway::local::{StateError, StateReader};

/// Reads both stores. Cheap to clone.
#[derive(Clone)]
pub struct Stores {
    sdk: Clients,
    redis: Reader,
}

impl Stores {
    /// # Errors
    /// When the URL of Redis makes no sense.
    pub fn new(backend: &Backend) -> Result<Self, redis::RedisError> {
        let url = backend.redis_config.urls.first().map_or("", String::as_str);
        Ok(Self::with(backend, Reader::Single(Box::new(redis::Client::open(url)?))))
    }

    /// With another way to Redis than the functions': past what stands between them and it.
    #[must_use]
    pub fn with(backend: &Backend, redis: Reader) -> Self {
        Self { sdk: backend.sdk.clone(), redis }
    }

    /// Everything that both stores hold of one activity; `None` when there is no such activity. Not of
    /// one instant while the activity runs.
    ///
    /// # Errors
    /// When a store does not answer or holds what cannot be read.
    pub async fn snapshot(&self, activity: &str) -> Result<Option<Snapshot>, String> {
        let Some(mut snapshot) = database::read(&self.sdk, activity).await? else {
            return Ok(None);
        };
        if snapshot.activity.uses_gate {
            snapshot.gate = Some(gate::read(&self.redis, &snapshot.activity).await?);
        }
        Ok(Some(snapshot))
    }

    /// Units that the database has left per stock item.
    ///
    /// # Errors
    /// When the database does not answer or an item cannot be read.
    pub async fn available(&self, activity: &str) -> Result<BTreeMap<StockKey, i64>, String> {
        database::available(&self.sdk, activity).await
    }

    /// Removes everything that the gate has of an activity.
    ///
    /// # Errors
    /// When Redis does not answer, or is a cluster: those are never shared with other runs.
    pub async fn forget_gate(&self, activity: &str) -> Result<(), String> {
        match &self.redis {
            Reader::Single(client) => gate::forget(client, activity).await.map_err(|error| error.to_string()),
            Reader::Cluster(_) => Err("a cluster ends with its run".to_owned()),
        }
    }

    /// The reader behind `GET /dev/state`.
    #[must_use]
    pub fn state_reader(self) -> StateReader {
        Arc::new(move |activity| {
            let stores = self.clone();
            Box::pin(async move {
                let snapshot = stores.snapshot(&activity).await.map_err(StateError::Broken)?;
                Ok(state::document(&snapshot.ok_or(StateError::UnknownActivity)?))
            })
        })
    }
}
