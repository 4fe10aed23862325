//! Where long jobs stopped.

use super::{
    Database,
    calls::bad_item,
    change::Change,
    codec::{Item, check_format, number, text, text_of},
    keys::{self, Key},
};
use crate::{
    domain::FORMAT,
    ports::{Cursor, Fault, ProgressStore},
};

impl ProgressStore for Database {
    async fn progress(&self, job: &str) -> Result<Option<Cursor>, Fault> {
        const OPERATION: &str = "read progress";
        let Some(item) = self.get(OPERATION, Key::progress(job)).await? else { return Ok(None) };
        check_format(&item).map_err(bad_item(OPERATION))?;
        let cursor = text_of(&item, keys::CURSOR).map_err(bad_item(OPERATION))?;
        Ok(Some(Cursor(cursor.to_owned())))
    }

    async fn save_progress(&self, job: &str, at: Option<&Cursor>) -> Result<(), Fault> {
        let key = Key::progress(job);
        let change = match at {
            None => Change::delete(key),
            Some(Cursor(cursor)) => {
                let mut item: Item = key.into_item();
                item.insert(keys::FORMAT.to_owned(), number(FORMAT));
                item.insert(keys::CURSOR.to_owned(), text(cursor));
                Change::put(item)
            }
        };
        self.write("save progress", &self.tables.table, change).await.map(drop)
    }
}
