//! The audit trail, in a table of its own that has no stream.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    Database,
    calls::{Page, Written, bad_item},
    change::Change,
    codec::{decode, encode, text},
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
        item.extend(audit_key(row, row.operation.is_none()).into_item());
        // The same row again overwrites itself. Another one under its key is of a version that somebody set
        // back: both stay.
        let change = Change::put(item.clone())
            .only_if("attribute_not_exists(#pk) OR #event_id = :event_id OR #filled = :filled")
            .value(keys::EVENT_ID, text(&row.event_id))
            .value(keys::FILLED, AttributeValue::Bool(true));
        match self.write(OPERATION, &self.tables.audit_table, change).await? {
            Written::Done(_) => Ok(()),
            Written::Refused(_) => {
                item.extend(audit_key(row, true).into_item());
                self.write(OPERATION, &self.tables.audit_table, Change::put(item)).await.map(drop)
            }
        }
    }

    async fn fill(&self, row: &AuditRow) -> Result<bool, Fault> {
        const OPERATION: &str = "fill a gap";
        let mut item = encode(row).map_err(bad_item(OPERATION))?;
        item.extend(audit_key(row, false).into_item());
        let change = Change::put(item).only_if("attribute_not_exists(#pk)");
        let written = self.write(OPERATION, &self.tables.audit_table, change).await?;
        Ok(matches!(written, Written::Done(_)))
    }

    async fn rows_after(
        &self,
        activity: &ActivityId,
        sku: &Sku,
        bucket: Bucket,
        version: u64,
    ) -> Result<(Vec<AuditRow>, Option<Cursor>), Fault> {
        self.rows(activity, sku, bucket, Some(&keys::after_version(version))).await
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
        let page = Page::of((keys::PK, rows), after, PAGE_MAX);
        let (items, next) = self.page(OPERATION, &self.tables.audit_table, page).await?;
        let rows = items.into_iter().map(decode).collect::<Result<_, _>>().map_err(bad_item(OPERATION))?;
        Ok((rows, keys::cursor(next.as_ref()).map_err(bad_item(OPERATION))?))
    }
}

fn audit_key(row: &AuditRow, by_event: bool) -> Key {
    let untracked = by_event.then_some(row.event_id.as_str());
    Key::audit(audit_rows(&row.activity, &row.sku, row.bucket), row.version, untracked)
}
