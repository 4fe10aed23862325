//! What changed in one bucket since the last complete pass. Both stores keep a list of their changes:
//! Redis its ledger, the database its audit trail. Each order that one of them names is compared as a
//! full pass does it. Where a list cannot tell everything, all of the bucket is compared:
//! - the Redis server is another one: a replica that took over may lack what was compared before;
//! - the ledger does not reach back to where the last pass ended;
//! - the bucket had to be loaded again;
//! - nothing is on its way and yet the counters of both stores differ.

use std::{
    collections::{BTreeSet, HashSet},
    time::Duration,
};

use super::{
    activity::{ActivityPass, BucketWent},
    state::{BucketSeen, OVERLAP_MS, Pass},
};
use crate::{
    domain::{ids::Bucket, order_no::OrderNo, stock::StockItem},
    ports::{
        AuditStore, BucketState, ChangeFeed, Clock, Fault, FindingStore, OrderStore, ProgressStore, StockGate,
        StockStore,
    },
};

/// How often counters that differ are read again: an order may have come between the two reads.
const COUNTERS_READ_MAX: usize = 3;
/// Pause before they are, longer than a transaction takes.
const COUNTERS_PAUSE: Duration = Duration::from_millis(50);

/// What became of following a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Followed {
    /// All of it is settled.
    Settled,
    /// Something is on its way, or waits for a person.
    Unsettled,
    Stopped,
    Broken,
}

impl<D, G, C> ActivityPass<'_, D, G, C>
where
    D: OrderStore + StockStore + ProgressStore + AuditStore + FindingStore,
    G: StockGate + ChangeFeed,
    C: Clock,
{
    /// Compares what changed, and moves `seen` to where the next pass begins.
    pub(super) async fn changes(
        &mut self,
        pass: &mut Pass,
        bucket: Bucket,
        seen: &mut BucketSeen,
    ) -> Result<BucketWent, Fault> {
        if !self.uses_gate() {
            let stock = self.store.bucket_stock(self.activity, bucket).await?;
            self.see(bucket, &stock);
            return self.trails(pass, &stock, seen).await.map(|_| BucketWent::Through);
        }
        let (_, stock, loaded) = self.keys(pass, bucket).await?;
        let mark = self.gate.mark(&self.activity.id, bucket, None).await?;
        if loaded || mark.node != seen.node || seen.entry.is_empty() {
            return Ok(BucketWent::NeedsFull);
        }
        let ledger = self.ledger(pass, bucket, seen).await?;
        match ledger {
            Followed::Broken => return Ok(BucketWent::NeedsFull),
            Followed::Stopped => return Ok(BucketWent::Stopped),
            Followed::Settled | Followed::Unsettled => {}
        }
        let trails = self.trails(pass, &stock, seen).await?;
        let settled = ledger == Followed::Settled && trails;
        if settled && !self.counters_agree(bucket).await? {
            tracing::warn!(activity = %self.activity.id, %bucket, "counters_differ");
            return Ok(BucketWent::NeedsFull);
        }
        Ok(BucketWent::Through)
    }

    /// Follows Redis's ledger. Where the next pass begins moves up to the first change that is not settled:
    /// an order that is on its way now has to be looked at again.
    async fn ledger(&mut self, pass: &mut Pass, bucket: Bucket, seen: &mut BucketSeen) -> Result<Followed, Fault> {
        let (mut from, mut settled_to, mut settled) = (seen.entry.clone(), seen.entry.clone(), true);
        let mut followed = Followed::Settled;
        loop {
            let Some(entries) = self.gate.changes_after(&self.activity.id, bucket, &from).await? else {
                return Ok(Followed::Broken);
            };
            let Some(last) = entries.last() else { break };
            from.clone_from(&last.id);
            let numbers: BTreeSet<OrderNo> = entries.iter().filter_map(|entry| entry.order_no.clone()).collect();
            let numbers: Vec<OrderNo> = numbers.into_iter().collect();
            let compared = self.compare(pass, bucket, &numbers, None, false).await?;
            if compared.open || !compared.in_flight.is_empty() {
                followed = Followed::Unsettled;
            }
            let waits = |order_no: &OrderNo| compared.in_flight.contains_key(order_no);
            for entry in entries {
                settled &= !entry.order_no.as_ref().is_some_and(waits);
                if settled {
                    settled_to = entry.id;
                }
            }
            self.pages += 1;
            if self.time_is_up() {
                // What is settled stays so; the rest is read again.
                seen.entry = settled_to;
                return Ok(Followed::Stopped);
            }
        }
        seen.entry = settled_to;
        Ok(followed)
    }

    /// Follows the audit trail of each stock item; answers whether all is settled.
    async fn trails(&mut self, pass: &mut Pass, stock: &[StockItem], seen: &mut BucketSeen) -> Result<bool, Fault> {
        let mut settled = true;
        let sold: HashSet<_> = stock.iter().map(|item| item.sku.clone()).collect();
        seen.skus.retain(|sku, _| sold.contains(sku));
        for item in stock {
            let mut sku_seen = seen.skus.get(&item.sku).copied().unwrap_or_default();
            settled &= self.trail(pass, item, &mut sku_seen, true).await?;
            seen.skus.insert(item.sku.clone(), sku_seen);
        }
        Ok(settled)
    }

    /// Whether both stores count the same, when nothing is on its way.
    async fn counters_agree(&self, bucket: Bucket) -> Result<bool, Fault> {
        for read in 0..COUNTERS_READ_MAX {
            if read > 0 {
                tokio::time::sleep(COUNTERS_PAUSE).await;
            }
            let state = self.gate.read_bucket(self.activity, bucket).await?;
            let stock = self.store.bucket_stock(self.activity, bucket).await?;
            if agree(&state, &stock) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// From when on changes are looked at again by the next pass.
    pub(super) fn overlap_begins(pass: &Pass) -> crate::domain::time::UnixMillis {
        pass.started_at.plus_ms(-OVERLAP_MS)
    }
}

/// Redis's counters against themselves and against the database's.
fn agree(state: &BucketState, stock: &[StockItem]) -> bool {
    let whole = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    stock.iter().all(|item| {
        state.skus.iter().find(|sku| sku.sku == item.sku).is_some_and(|sku| {
            sku.stock.saturating_add(sku.sold) == whole(sku.allotted)
                && Some(sku.sold) == item.allotted.checked_sub(item.available).map(whole)
        })
    })
}
