//! The audit trail, in a table of its own that has no stream.

use super::{
    Database,
    calls::{Page, bad_item},
    change::Change,
    codec::{decode, encode},
    keys::{self, Key, audit_rows},
};
use crate::{
    domain::ids::{ActivityId, Bucket, Sku},
    ports::{AuditRow, AuditStore, Cursor, Fault},
};

/// Rows of one page.
const PAGE_MAX: i32 = 200;

impl AuditStore for Database {
    async fn record(&self, row: &AuditRow) -> Result<(), Fault> {
        const OPERATION: &str = "record audit row";
        let mut item = encode(row).map_err(bad_item(OPERATION))?;
        item.extend(audit_key(row).into_item());
        // Without a condition: the same row again overwrites itself.
        self.write(OPERATION, &self.tables.audit_table, Change::put(item)).await.map(drop)
    }

    async fn rows(
        &self,
        activity: &ActivityId,
        sku: &Sku,
        bucket: Bucket,
        after: Option<&Cursor>,
    ) -> Result<(Vec<AuditRow>, Option<Cursor>), Fault> {
        const OPERATION: &str = "read audit rows";
        let rows = audit_rows(activity, sku, bucket);
        let after = after.map(|Cursor(sk)| Key { pk: rows.clone(), sk: sk.clone() }.into_item());
        let page = Page { index: None, partition: (keys::PK, rows), after, limit: PAGE_MAX };
        let (items, next) = self.page(OPERATION, &self.tables.audit_table, page).await?;
        let rows = items.into_iter().map(decode).collect::<Result<_, _>>().map_err(bad_item(OPERATION))?;
        Ok((rows, keys::cursor(next.as_ref()).map_err(bad_item(OPERATION))?))
    }
}

fn audit_key(row: &AuditRow) -> Key {
    let untracked = row.operation.is_none().then_some(row.event_id.as_str());
    Key::audit(audit_rows(&row.activity, &row.sku, row.bucket), row.version, untracked)
}
