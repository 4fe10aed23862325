//! The audit trail of one stock item: which orders changed it, and whether a row is missing. Each row
//! tells the version before and after its change, so that rows which do not meet show a gap. A gap is
//! filled with what its neighbours know, and marked as filled.

use super::{
    activity::ActivityPass,
    report::Difference,
    state::{BucketSeen, Pass, PassKind, SkuSeen},
};
use crate::{
    domain::{
        order_no::OrderNo,
        repair::Finding,
        stock::{ChangeMark, StockItem},
    },
    ports::{
        AuditRow, AuditStore, ChangeFeed, Clock, Fault, FindingStore, OrderStore, ProgressStore, StockGate, StockStore,
    },
    telemetry::{self, Metric},
};

/// How long after a later row an earlier one may still come, in milliseconds. The relay keeps the order of
/// an item, so this only allows for clocks.
pub const GAP_GRACE_MS: i64 = 600_000;
/// How long the stream keeps a record, and an hour, in milliseconds: afterwards no row can come any more.
pub const STREAM_LIFE_MS: i64 = 25 * 3_600_000;
/// Most rows that one run fills in one trail; the next one goes on.
const FILLED_MAX: u64 = 500;
/// What a filled row gives for its reason when the change's own mark is not known.
const UNKNOWN: &str = "gap";

/// Rows that are missing: the versions after `from`, up to `to`.
struct Gap<'a> {
    from: u64,
    to: u64,
    /// The item before the first and after the last of them, as the neighbours tell.
    before: Option<&'a StockItem>,
    after: Option<&'a StockItem>,
    /// The mark of the last one, which the row after it still saw.
    mark: Option<&'a ChangeMark>,
}

impl<D, G, C> ActivityPass<'_, D, G, C>
where
    D: OrderStore + StockStore + ProgressStore + AuditStore + FindingStore,
    G: StockGate + ChangeFeed,
    C: Clock,
{
    /// Reads the rows that were not seen yet, fills gaps, and compares the orders that they name when
    /// asked to; answers whether all of those are settled.
    pub(super) async fn trail(
        &mut self,
        pass: &mut Pass,
        item: &StockItem,
        seen: &mut SkuSeen,
        compare: bool,
    ) -> Result<bool, Fault> {
        let from = if compare { seen.rows.min(seen.orders) } else { seen.rows };
        if item.version <= from {
            return Ok(true);
        }
        let (mut last, mut settled, mut compared_to) = (None, true, seen.orders);
        // One earlier, so that a gap that begins here is filled with where that one ended.
        let begin = from.saturating_sub(1);
        let (mut rows, mut next) = self.store.rows_after(&item.activity, &item.sku, item.bucket, begin).await?;
        let mut whole = true;
        loop {
            whole = whole && self.rows_of(pass, item, seen, &mut last, &rows).await?;
            if !whole && !compare {
                break;
            }
            if compare {
                settled &= self.orders_of(pass, item, seen.orders, &rows).await?;
                let old = rows.iter().filter(|row| row.at <= Self::overlap_begins(pass));
                compared_to = old.map(|row| row.version).max().unwrap_or(0).max(compared_to);
            }
            let Some(after) = next else { break };
            (rows, next) = self.store.rows(&item.activity, &item.sku, item.bucket, Some(&after)).await?;
        }
        seen.orders = compared_to;
        let late = self.clock.now().since_ms(item.changed_at) > STREAM_LIFE_MS;
        if whole && late && item.version > seen.rows {
            let gap = Gap { from: seen.rows, to: item.version, before: last.as_ref(), after: Some(item), mark: None };
            self.fill(pass, item, seen, &gap).await?;
        }
        Ok(settled)
    }

    /// The trails of an activity that is over; answers whether all are whole.
    pub(super) async fn last_trails(&mut self) -> Result<bool, Fault> {
        let mut pass = Pass::new(PassKind::Full, self.clock.now(), None);
        let mut whole = true;
        for bucket in self.activity.buckets.all() {
            let job = BucketSeen::job(self.activity, bucket);
            let seen = BucketSeen::read(self.store.progress(&job).await?.as_ref()).unwrap_or_default();
            for item in self.store.bucket_stock(self.activity, bucket).await? {
                let mut seen = seen.skus.get(&item.sku).copied().unwrap_or_default();
                self.trail(&mut pass, &item, &mut seen, false).await?;
                whole &= seen.rows >= item.version;
            }
        }
        self.keep_findings(pass.started_at).await?;
        Ok(whole)
    }

    /// Whether each row begins where the one before it ended; answers false at a gap that has to stay open
    /// for now.
    async fn rows_of(
        &mut self,
        pass: &mut Pass,
        item: &StockItem,
        seen: &mut SkuSeen,
        last: &mut Option<StockItem>,
        rows: &[AuditRow],
    ) -> Result<bool, Fault> {
        for row in rows {
            if row.version <= seen.rows {
                last.clone_from(&row.after);
                continue;
            }
            let begins = match &row.before {
                Some(before) => before.version,
                // What fills a gap knows only where it stands; what was created begins anywhere.
                None if row.filled => row.version - 1,
                None => seen.rows,
            };
            if begins > seen.rows {
                if self.clock.now().since_ms(row.at) <= GAP_GRACE_MS {
                    return Ok(false);
                }
                let (before, after) = (last.take(), row.before.as_ref());
                let mark = row.before_mark.as_ref();
                let gap = Gap { from: seen.rows, to: begins, before: before.as_ref(), after, mark };
                self.fill(pass, item, seen, &gap).await?;
                if begins > seen.rows {
                    return Ok(false);
                }
            }
            if row.operation.is_none() {
                // Behind the system's back, or not known: no order tells what it did.
                self.job.full_due |= pass.kind == PassKind::Incremental;
            }
            seen.rows = row.version;
            last.clone_from(&row.after);
        }
        Ok(true)
    }

    async fn orders_of(
        &mut self,
        pass: &mut Pass,
        item: &StockItem,
        compared: u64,
        rows: &[AuditRow],
    ) -> Result<bool, Fault> {
        let fresh = rows.iter().filter(|row| row.version > compared);
        let mut numbers: Vec<OrderNo> = fresh.filter_map(|row| OrderNo::parse(&row.reference).ok()).collect();
        numbers.sort();
        numbers.dedup();
        if !self.uses_gate() {
            return Ok(true);
        }
        let compared = self.compare(pass, item.bucket, &numbers, None, false).await?;
        Ok(!compared.open && compared.in_flight.is_empty())
    }

    async fn fill(
        &mut self,
        pass: &mut Pass,
        item: &StockItem,
        seen: &mut SkuSeen,
        gap: &Gap<'_>,
    ) -> Result<(), Fault> {
        let to = gap.to.min(gap.from + FILLED_MAX);
        let mut filled = 0;
        for version in gap.from + 1..=to {
            let row = self.filling(item, version, gap);
            filled += u64::from(self.store.fill(&row).await?);
        }
        seen.rows = to;
        self.job.full_due |= pass.kind == PassKind::Incremental;
        let versions = format!("{} to {to}", gap.from + 1);
        telemetry::count(Metric::AuditGaps, filled);
        tracing::error!(
            activity = %item.activity, sku = %item.sku, bucket = %item.bucket, versions, filled, alarm = true,
            "audit_gap_filled"
        );
        let database = format!("no audit row of versions {versions}");
        let difference = Difference::of(Finding::AuditGap, item.bucket, format!("filled {filled} rows"), true);
        self.note(pass, Difference { sku: Some(item.sku.clone()), database, ..difference });
        Ok(())
    }

    fn filling(&self, item: &StockItem, version: u64, gap: &Gap<'_>) -> AuditRow {
        let (first, last) = (version == gap.from + 1, version == gap.to);
        let mark = gap.mark.filter(|_| last);
        AuditRow {
            activity: item.activity.clone(),
            sku: item.sku.clone(),
            bucket: item.bucket,
            version,
            before: gap.before.filter(|_| first).cloned(),
            after: gap.after.filter(|_| last).cloned(),
            operation: mark.map(|mark| mark.operation),
            operator: mark.map(|mark| mark.operator.clone()).unwrap_or_default(),
            reference: mark.map_or_else(|| UNKNOWN.to_owned(), |mark| mark.reference.clone()),
            at: self.clock.now(),
            event_id: format!("reconcile#{version}"),
            before_mark: None,
            filled: true,
        }
    }
}
