//! Activities: one partition, one item each.

use super::{
    Database,
    calls::{Page, Written, bad_item},
    change::Change,
    codec::{decode, encode, number},
    keys::{self, Key},
};
use crate::{
    domain::{activity::Activity, ids::ActivityId},
    ports::{ActivityStore, ArchiveStore, Cursor, Fault, Saved},
};

/// Activities of one page. An item has up to 100 SKUs, some 10 KB.
const PAGE_MAX: i32 = 50;

impl ActivityStore for Database {
    async fn activity(&self, id: &ActivityId) -> Result<Option<Activity>, Fault> {
        const OPERATION: &str = "read activity";
        let item = match self.get(OPERATION, Key::activity(id.as_str())).await? {
            None => self.get(OPERATION, Key::archived(id)).await?,
            item => item,
        };
        item.map(decode).transpose().map_err(bad_item(OPERATION))
    }

    async fn activities(&self, after: Option<&Cursor>) -> Result<(Vec<Activity>, Option<Cursor>), Fault> {
        const OPERATION: &str = "list activities";
        let after = after.map(|Cursor(id)| Key::activity(id).into_item());
        let partition = (keys::PK, keys::ACTIVITIES.to_owned());
        let page = Page::of(partition, after, PAGE_MAX);
        let (items, next) = self.page(OPERATION, &self.tables.table, page).await?;
        let activities = items.into_iter().map(decode).collect::<Result<_, _>>().map_err(bad_item(OPERATION))?;
        Ok((activities, keys::cursor(next.as_ref()).map_err(bad_item(OPERATION))?))
    }

    async fn save_activity(&self, activity: &Activity, expected: Option<u64>) -> Result<Saved, Fault> {
        const OPERATION: &str = "save activity";
        let mut item = encode(activity).map_err(bad_item(OPERATION))?;
        item.extend(Key::activity(activity.id.as_str()).into_item());
        let change = match expected {
            None => Change::put(item).only_if("attribute_not_exists(#pk)"),
            Some(version) => Change::put(item).only_if("#version = :version").value("version", number(version)),
        };
        match self.write(OPERATION, &self.tables.table, change).await? {
            Written::Done(_) => Ok(Saved::Done),
            Written::Refused(None) => Ok(Saved::Conflict),
            // The SDK repeats a call whose answer was lost: then it finds what it saved itself.
            Written::Refused(Some(there)) => {
                let there: Activity = decode(there).map_err(bad_item(OPERATION))?;
                Ok(if there == *activity { Saved::Done } else { Saved::Conflict })
            }
        }
    }
}

impl ArchiveStore for Database {
    async fn archive(&self, activity: &Activity) -> Result<bool, Fault> {
        const OPERATION: &str = "archive activity";
        let mut item = encode(activity).map_err(bad_item(OPERATION))?;
        item.extend(Key::archived(&activity.id).into_item());
        // The copy first: cut off in between, both are there, and the listed one counts.
        self.write(OPERATION, &self.tables.table, Change::put(item)).await?;
        let delete = Change::delete(Key::activity(activity.id.as_str()));
        let delete = delete.only_if("#version = :version").value("version", number(activity.version));
        Ok(matches!(self.write(OPERATION, &self.tables.table, delete).await?, Written::Done(_)))
    }
}
