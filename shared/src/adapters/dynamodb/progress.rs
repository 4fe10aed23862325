//! Where long jobs stopped, and whose turn it is.

use super::{
    Database,
    calls::{Written, bad_item},
    change::Change,
    codec::{BadItem, Item, check_format, number, text, text_of, whole},
    keys::{self, Key},
};
use crate::{
    domain::{FORMAT, lease::Fence, time::UnixMillis},
    ports::{Cursor, Fault, ProgressStore, Saved},
};

impl ProgressStore for Database {
    async fn progress(&self, job: &str) -> Result<Option<Cursor>, Fault> {
        const OPERATION: &str = "read progress";
        let item = self.get(OPERATION, Key::progress(job)).await?;
        item.map_or(Ok(None), |item| cursor(&item).map_err(bad_item(OPERATION)))
    }

    async fn take_turn(&self, job: &str) -> Result<(Fence, Option<Cursor>), Fault> {
        const OPERATION: &str = "take a turn";
        let next = "SET #fence = if_not_exists(#fence, :none) + :one, #format = if_not_exists(#format, :format)";
        let change = Change::update(Key::progress(job), next);
        let change = change.value("none", number(0)).value("one", number(1)).value("format", number(FORMAT));
        match self.write(OPERATION, &self.tables.table, change).await? {
            Written::Done(Some(item)) => {
                let fence = whole(&item, keys::FENCE).map(Fence::new);
                let read = fence.and_then(|fence| Ok((fence, cursor(&item)?)));
                read.map_err(bad_item(OPERATION))
            }
            Written::Done(None) | Written::Refused(_) => Err(Fault::maybe_applied(OPERATION, "nothing was answered")),
        }
    }

    async fn save_progress(
        &self,
        job: &str,
        fence: Fence,
        at: Option<&Cursor>,
        keep_until: Option<UnixMillis>,
    ) -> Result<Saved, Fault> {
        let (mut set, mut remove) = ("SET #fence = :fence, #format = :format".to_owned(), String::new());
        let mut values = vec![("fence", number(fence.get())), ("format", number(FORMAT))];
        match at {
            Some(Cursor(cursor)) => {
                set.push_str(", #cursor = :cursor");
                values.push(("cursor", text(cursor)));
            }
            None => remove.push_str(" REMOVE #cursor"),
        }
        if let Some(until) = keep_until {
            set.push_str(", #expires_at = :expires_at");
            values.push(("expires_at", number(until.get() / 1_000)));
        }
        let change = Change::update(Key::progress(job), &(set + &remove))
            .only_if("attribute_not_exists(#fence) OR #fence <= :fence");
        let change = values.into_iter().fold(change, |change, (name, value)| change.value(name, value));
        Ok(match self.write("save progress", &self.tables.table, change).await? {
            Written::Done(_) => Saved::Done,
            Written::Refused(_) => Saved::Conflict,
        })
    }
}

fn cursor(item: &Item) -> Result<Option<Cursor>, BadItem> {
    check_format(item)?;
    let there = item.contains_key(keys::CURSOR).then(|| text_of(item, keys::CURSOR));
    there.map(|cursor| cursor.map(|cursor| Cursor(cursor.to_owned()))).transpose()
}
