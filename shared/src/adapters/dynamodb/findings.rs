//! What reconciliations found, in the main table, with an expiry.

use super::{
    Database,
    calls::{Page, bad_item},
    change::Change,
    codec::{Item, decode, encode, number, whole},
    keys::{self, Key},
};
use crate::{
    domain::{ids::ActivityId, time::UnixMillis},
    ports::{Cursor, Fault, FindingPage, FindingStore},
};

/// Items of one page: each has up to 100 rows, some 30 KB.
const PAGE_MAX: i32 = 20;

impl FindingStore for Database {
    async fn keep_findings(&self, page: &FindingPage, until: UnixMillis) -> Result<(), Fault> {
        const OPERATION: &str = "keep findings";
        let mut item = encode(page).map_err(bad_item(OPERATION))?;
        item.extend(Key::findings(&page.activity, page.at, page.bucket, page.fence, page.number).into_item());
        item.insert(keys::EXPIRES_AT.to_owned(), number(until.get() / 1_000));
        self.write(OPERATION, &self.tables.table, Change::put(item)).await.map(drop)
    }

    async fn findings(
        &self,
        activity: &ActivityId,
        now: UnixMillis,
        after: Option<&Cursor>,
    ) -> Result<(Vec<FindingPage>, Option<Cursor>), Fault> {
        const OPERATION: &str = "list findings";
        let partition = keys::findings(activity);
        let after = after.map(|Cursor(sk)| Key { pk: partition.clone(), sk: sk.clone() }.into_item());
        let page = Page { newest_first: true, ..Page::of((keys::PK, partition), after, PAGE_MAX) };
        let (items, next) = self.page(OPERATION, &self.tables.table, page).await?;
        // The table drops what has expired within days, not at once.
        let alive = |item: &Item| whole(item, keys::EXPIRES_AT).is_ok_and(|at| at > now.get().unsigned_abs() / 1_000);
        let pages = items.into_iter().filter(alive).map(decode).collect::<Result<_, _>>();
        Ok((pages.map_err(bad_item(OPERATION))?, keys::cursor(next.as_ref()).map_err(bad_item(OPERATION))?))
    }
}
