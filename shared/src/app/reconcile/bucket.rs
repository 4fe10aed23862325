//! All of one bucket: its keys, the database's orders whose home it is, Redis's records and marks, then
//! the counters. In pages: never the whole bucket in memory, and the next run goes on at the page.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    activity::{ActivityPass, BucketWent},
    report::Difference,
    state::{BucketFull, BucketSeen, Pass, SkuSeen, Stage},
};
use crate::{
    domain::{
        ids::Bucket,
        order_no::OrderNo,
        record::Record,
        repair::Finding,
        stock::{Allotment, StockItem},
    },
    ports::{
        AuditStore, BucketMark, BucketState, ChangeFeed, Clock, Cursor, Fault, FindingStore, OrderStore, Preheated,
        ProgressStore, RecordPage, StockGate, StockStore,
    },
    telemetry::{self, Metric},
};

/// Orders of one bucket that are remembered as compared, so that their records are not looked up again:
/// some 8 MB. Those beyond are looked up twice.
const KNOWN_MAX: usize = 250_000;

/// Orders that the listing of the database has brought.
type Known = HashSet<u128>;

impl<D, G, C> ActivityPass<'_, D, G, C>
where
    D: OrderStore + StockStore + ProgressStore + AuditStore + FindingStore,
    G: StockGate + ChangeFeed,
    C: Clock,
{
    /// Compares everything of a bucket, from where an earlier run stopped if one did.
    pub(super) async fn full_bucket(
        &mut self,
        pass: &mut Pass,
        bucket: Bucket,
        next: &mut BucketSeen,
    ) -> Result<BucketWent, Fault> {
        let mut full = match pass.full.take() {
            // A cursor of one server says nothing to another.
            Some(full) if self.node(bucket).await? == full.node => full,
            _ => {
                self.report.full_buckets += 1;
                self.begin_full(pass, bucket).await?
            }
        };
        let mut known = Known::new();
        while full.stage != Stage::Sums {
            self.page(pass, bucket, &mut full, &mut known).await?;
            self.pages += 1;
            if !self.rows.is_empty() {
                self.keep_findings(pass.started_at).await?;
            }
            if self.time_is_up() {
                pass.full = Some(full);
                return Ok(BucketWent::Stopped);
            }
        }
        if self.uses_gate() {
            // The counters follow the records; they are judged when the records agree.
            if !full.open {
                self.gate_sums(pass, bucket).await?;
            }
            if self.node(bucket).await? != full.node {
                return Err(Fault::not_applied("compare a bucket", "its Redis server changed meanwhile"));
            }
        }
        let stock = self.store.bucket_stock(self.activity, bucket).await?;
        self.seen_all(bucket, full, next).await?;
        for item in &stock {
            let mut seen = next.skus.get(&item.sku).copied().unwrap_or_default();
            self.trail(pass, item, &mut seen, false).await?;
            next.skus.insert(item.sku.clone(), seen);
        }
        Ok(BucketWent::Through)
    }

    pub(super) fn uses_gate(&self) -> bool {
        self.activity.strategy.uses_gate()
    }

    async fn node(&self, bucket: Bucket) -> Result<String, Fault> {
        if !self.uses_gate() {
            return Ok(String::new());
        }
        Ok(self.gate.mark(&self.activity.id, bucket, None).await?.node)
    }

    async fn begin_full(&mut self, pass: &mut Pass, bucket: Bucket) -> Result<BucketFull, Fault> {
        let (mark, stock) = if self.uses_gate() {
            let (_, stock, _) = self.keys(pass, bucket).await?;
            (self.gate.mark(&self.activity.id, bucket, None).await?, stock)
        } else {
            let stock = self.store.bucket_stock(self.activity, bucket).await?;
            self.see(bucket, &stock);
            (BucketMark::default(), stock)
        };
        Ok(BucketFull {
            node: mark.node,
            entry: mark.entry,
            versions: stock.into_iter().map(|item| (item.sku, item.version)).collect(),
            in_flight_since: None,
            open: false,
            stage: Stage::Orders(None),
        })
    }

    async fn page(
        &mut self,
        pass: &mut Pass,
        bucket: Bucket,
        full: &mut BucketFull,
        known: &mut Known,
    ) -> Result<(), Fault> {
        let compared = match &full.stage {
            Stage::Orders(after) => {
                let after = after.clone().map(Cursor);
                let (numbers, next) = self.store.home_orders(&self.activity.id, bucket, after.as_ref()).await?;
                let left = KNOWN_MAX.saturating_sub(known.len());
                known.extend(numbers.iter().take(left).map(OrderNo::as_u128));
                full.stage = match next {
                    Some(Cursor(next)) => Stage::Orders(Some(next)),
                    None if self.uses_gate() => Stage::Records(0),
                    None => Stage::Sums,
                };
                self.compare(pass, bucket, &numbers, None, true).await?
            }
            Stage::Records(cursor) => {
                let page = self.gate.list_records(&self.activity.id, bucket, *cursor).await?;
                full.stage = page.next.map_or(Stage::Sums, Stage::Records);
                let (numbers, records, bad) = self.unknown(bucket, page, known).await?;
                full.open |= bad;
                self.compare(pass, bucket, &numbers, Some(records), false).await?
            }
            Stage::Sums => return Ok(()),
        };
        full.open |= compared.open;
        full.in_flight_since = full.in_flight_since.into_iter().chain(compared.in_flight.into_values()).min();
        Ok(())
    }

    /// What a page of Redis shows beyond the orders that were compared: records, and marks that no record
    /// explains. Where there is a record, its own page brings it.
    async fn unknown(
        &mut self,
        bucket: Bucket,
        page: RecordPage,
        known: &Known,
    ) -> Result<(Vec<OrderNo>, HashMap<OrderNo, Record>, bool), Fault> {
        let (mut records, mut bad) = (HashMap::new(), false);
        for (order_no, record) in page.records {
            match record {
                Ok(record) if !known.contains(&order_no.as_u128()) => {
                    records.insert(order_no, record);
                }
                Ok(_) => {}
                Err(problem) => {
                    telemetry::count(Metric::BadData, 1);
                    tracing::error!(%order_no, %bucket, problem, "bad_data");
                    self.report.faults += 1;
                    bad = true;
                }
            }
        }
        let mut marked = page.marked;
        marked.retain(|order_no| !known.contains(&order_no.as_u128()) && !records.contains_key(order_no));
        marked.sort();
        marked.dedup();
        let found = self.gate.records(&self.activity.id, bucket, &marked).await?;
        let alone = marked.into_iter().zip(found).filter(|(_, record)| record.is_none()).map(|(order_no, _)| order_no);
        let numbers: Vec<OrderNo> = records.keys().cloned().chain(alone).collect();
        Ok((numbers, records, bad))
    }

    async fn seen_all(&self, bucket: Bucket, full: BucketFull, next: &mut BucketSeen) -> Result<(), Fault> {
        let entry = match full.in_flight_since {
            // Looked at again from before the oldest that is on its way.
            Some(since) => {
                let before = self.gate.mark(&self.activity.id, bucket, Some(since.plus_ms(-1))).await?.entry;
                older(before, full.entry)
            }
            None => full.entry,
        };
        let rows: BTreeMap<_, u64> = next.skus.iter().map(|(sku, seen)| (sku.clone(), seen.rows)).collect();
        let skus = full.versions.into_iter().map(|(sku, orders)| {
            let rows = rows.get(&sku).copied().unwrap_or(0);
            (sku, SkuSeen { orders, rows })
        });
        *next = BucketSeen { node: full.node, entry, skus: skus.collect() };
        Ok(())
    }

    pub(super) fn see(&mut self, bucket: Bucket, stock: &[StockItem]) {
        self.seen.allotted(bucket, stock.iter().map(|item| item.allotted).sum());
    }

    /// Lost keys are loaded again; an older configuration or allotment is brought up to date. Answers both
    /// sides, and whether the bucket was loaded again.
    pub(super) async fn keys(
        &mut self,
        pass: &mut Pass,
        bucket: Bucket,
    ) -> Result<(BucketState, Vec<StockItem>, bool), Fault> {
        let (activity, now) = (self.activity, self.clock.now());
        // Redis first: what the database says afterwards is the same or newer.
        let state = self.gate.read_bucket(activity, bucket).await?;
        let stock = self.store.bucket_stock(activity, bucket).await?;
        self.see(bucket, &stock);
        let allotments: Vec<Allotment> = stock.iter().map(|item| activity.allotment(item)).collect();
        if (!state.present || state.configuration.is_none())
            && self.gate.preheat(activity, bucket, &allotments, now).await? == Preheated::Loaded
        {
            tracing::error!(activity = %activity.id, %bucket, "gate_reloaded");
            self.note(pass, Difference::of(Finding::GateEmpty, bucket, "loaded again", true));
            return Ok((state, stock, true));
        }
        if state.configuration != Some(activity.version) && self.gate.sync_control(activity, bucket, now).await? {
            self.note(pass, Difference::of(Finding::GateStale, bucket, "configuration taken over", true));
        }
        if is_stale(&state, &allotments) && self.gate.sync_allotment(&activity.id, bucket, &allotments).await? > 0 {
            self.note(pass, Difference::of(Finding::GateStale, bucket, "allotment taken over", true));
        }
        Ok((state, stock, false))
    }
}

/// Whether Redis's allotment or sale switch is another than the database's. Versions alone differ all
/// the time: every order raises the database's.
fn is_stale(state: &BucketState, allotments: &[Allotment]) -> bool {
    allotments.iter().any(|fresh| {
        state.skus.iter().find(|known| known.sku == fresh.sku).is_none_or(|known| {
            fresh.version > known.version && (fresh.allotted != known.allotted || fresh.on_sale != known.on_sale)
        })
    })
}

/// The older of two ledger entries, `ms-number` each; one that is missing is older than all.
fn older(one: String, other: String) -> String {
    let order = |entry: &str| {
        let (ms, number) = entry.split_once('-').unwrap_or_default();
        (ms.parse().unwrap_or(0_u64), number.parse().unwrap_or(0_u64))
    };
    if order(&one) <= order(&other) { one } else { other }
}

#[cfg(test)]
mod tests {
    use super::older;

    #[test]
    fn ledger_entries_are_ordered_as_numbers() {
        for (first, second) in [("9-0", "10-0"), ("10-9", "10-10"), ("", "1-0"), ("5-5", "5-5")] {
            assert_eq!(older(first.to_owned(), second.to_owned()), first);
            assert_eq!(older(second.to_owned(), first.to_owned()), first);
        }
    }
}
