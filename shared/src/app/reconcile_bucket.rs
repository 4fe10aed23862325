//! One bucket's part of a reconciliation: its keys, its orders one by one, its sums.

use std::collections::{HashMap, HashSet};

use crate::{
    app::{
        reconcile::{LiveUnits, Report, subject},
        submission::with_home,
    },
    domain::{
        activity::Activity,
        ids::Bucket,
        order::{Order, Stored, Take, Tombstone},
        order_no::OrderNo,
        record::Record,
        repair::{Finding, Repair, Sighting, decide},
        stock::{Allotment, ChangeMark, Operation},
        time::UnixMillis,
    },
    ports::{BucketState, Claim, Fault, OrderStore, Preheated, Restocked, Restored, StockGate, StockStore},
};

/// Order numbers looked up in one call.
const LOOKUP_CHUNK: usize = 100;
/// Most records of one bucket that one pass holds in memory.
const RECORDS_MAX: usize = 200_000;

/// One pass over one bucket.
pub(super) struct BucketPass<'a, D, G> {
    pub store: &'a D,
    pub gate: &'a G,
    pub activity: &'a Activity,
    pub bucket: Bucket,
    pub now: UnixMillis,
}

/// What Redis says of the bucket's orders, placements left out.
#[derive(Default)]
struct Listing {
    records: HashMap<OrderNo, Record>,
    marked: HashSet<OrderNo>,
}

impl<D, G> BucketPass<'_, D, G>
where
    D: OrderStore + StockStore,
    G: StockGate,
{
    /// Compares and repairs. Adds the units of live orders whose home this is to `live`.
    pub async fn run(&self, live: &mut LiveUnits, report: &mut Report) -> Result<(), Fault> {
        if !self.activity.strategy.uses_gate() {
            for chunk in self.home_orders().await?.chunks(LOOKUP_CHUNK) {
                for order in live_orders(&self.store.orders(chunk).await?) {
                    add_live(live, order);
                    report.compared += 1;
                }
            }
            return Ok(());
        }
        self.keys(report).await?;
        // Redis first: a record that is read before its order can only be older than it.
        let listing = self.list_redis(report).await?;
        let mut candidates: HashSet<OrderNo> = self.home_orders().await?.into_iter().collect();
        candidates.extend(listing.records.keys().cloned());
        candidates.extend(listing.marked.iter().cloned());
        let candidates: Vec<OrderNo> = candidates.into_iter().collect();
        let mut unsettled = false;
        for chunk in candidates.chunks(LOOKUP_CHUNK) {
            unsettled |= self.compare(chunk, &listing, live, report).await?;
        }
        if unsettled {
            // The counters follow the records; they are judged when the records agree.
            return Ok(());
        }
        self.gate_sums(report).await
    }

    /// Lost keys are loaded again; an older configuration or allotment is brought up to date.
    async fn keys(&self, report: &mut Report) -> Result<(), Fault> {
        // Redis first: what the database says afterwards is the same or newer.
        let state = self.gate.read_bucket(self.activity, self.bucket).await?;
        let stock = self.store.bucket_stock(self.activity, self.bucket).await?;
        let allotments: Vec<Allotment> = stock.iter().map(Allotment::from).collect();
        let name = format!("bucket {}", self.bucket);
        if (!state.present || state.configuration.is_none())
            && self.gate.preheat(self.activity, self.bucket, &allotments, self.now).await? == Preheated::Loaded
        {
            tracing::error!(activity = %self.activity.id, bucket = %self.bucket, "gate_reloaded");
            report.note(Finding::GateEmpty, name, true);
            return Ok(());
        }
        if state.configuration != Some(self.activity.version)
            && self.gate.sync_control(self.activity, self.bucket, self.now).await?
        {
            report.note(Finding::GateStale, format!("{name}: configuration"), true);
        }
        if is_stale(&state, &allotments) {
            let changed = self.gate.sync_allotment(&self.activity.id, self.bucket, &allotments).await?;
            if changed > 0 {
                report.note(Finding::GateStale, format!("{name}: allotment"), true);
            }
        }
        Ok(())
    }

    async fn list_redis(&self, report: &mut Report) -> Result<Listing, Fault> {
        let mut listing = Listing::default();
        let mut cursor = 0;
        loop {
            let page = self.gate.list_records(&self.activity.id, self.bucket, cursor).await?;
            for (order_no, record) in page.records {
                match record {
                    Ok(record) => {
                        listing.records.insert(order_no, Record { placement: None, ..record });
                    }
                    Err(problem) => {
                        tracing::error!(%order_no, bucket = %self.bucket, problem, "bad_data");
                        report.faults += 1;
                    }
                }
            }
            listing.marked.extend(page.marked);
            match page.next {
                Some(next) if listing.records.len() < RECORDS_MAX => cursor = next,
                Some(_) => {
                    return Err(Fault::not_applied("list records", "the bucket has too many records for one pass"));
                }
                None => return Ok(listing),
            }
        }
    }

    async fn home_orders(&self) -> Result<Vec<OrderNo>, Fault> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (page, next) = self.store.home_orders(&self.activity.id, self.bucket, after.as_ref()).await?;
            all.extend(page);
            if next.is_none() || all.len() > RECORDS_MAX {
                return Ok(all);
            }
            after = next;
        }
    }

    /// Compares a chunk of orders; answers whether something is off and not repaired, or in flight.
    async fn compare(
        &self,
        order_nos: &[OrderNo],
        listing: &Listing,
        live: &mut LiveUnits,
        report: &mut Report,
    ) -> Result<bool, Fault> {
        let stored: HashMap<OrderNo, Stored> =
            self.store.orders(order_nos).await?.into_iter().map(|stored| (number(&stored).clone(), stored)).collect();
        let mut unsettled = false;
        for order_no in order_nos {
            report.compared += 1;
            let order = stored.get(order_no);
            let mut suspects = Vec::new();
            if self.differs(order_no, order, listing).is_some() {
                suspects.push(self.bucket);
            }
            if let Some(Stored::Order(order)) = order
                && order.placement.home == self.bucket
                && order.status.is_live()
            {
                add_live(live, order);
                suspects.extend(self.parts_elsewhere(order).await?);
            }
            for bucket in suspects {
                unsettled |= !self.confirm_and_repair(order_no, bucket, report).await?;
            }
        }
        Ok(unsettled)
    }

    fn differs(&self, order_no: &OrderNo, order: Option<&Stored>, listing: &Listing) -> Option<(Finding, Repair)> {
        decide(&Sighting {
            bucket: self.bucket,
            at_home: order.is_some_and(|order| self.is_home(order)),
            record: listing.records.get(order_no),
            marked: listing.marked.contains(order_no),
            order,
            on_cancel: self.activity.on_cancel,
            now: self.now,
        })
    }

    fn is_home(&self, order: &Stored) -> bool {
        order.buyer().is_some_and(|buyer| buyer.home(self.activity.buckets) == self.bucket)
    }

    /// Other buckets that the order names and whose record does not say the same.
    async fn parts_elsewhere(&self, order: &Order) -> Result<Vec<Bucket>, Fault> {
        let mut suspects = Vec::new();
        for bucket in order.buckets().into_iter().filter(|bucket| *bucket != self.bucket) {
            let pass = Self { bucket, ..*self };
            let order_no = &order.placement.order_no;
            let record = self.gate.record(&self.activity.id, bucket, order_no).await?.and_then(Result::ok);
            let listing = Listing {
                records: record.map(|record| (order_no.clone(), record)).into_iter().collect(),
                marked: HashSet::new(),
            };
            if pass.differs(order_no, Some(&Stored::Order(order.clone())), &listing).is_some() {
                suspects.push(bucket);
            }
        }
        Ok(suspects)
    }

    /// Looks again, record before order, and repairs what is still off. Answers whether the order is
    /// settled in this bucket.
    async fn confirm_and_repair(&self, order_no: &OrderNo, bucket: Bucket, report: &mut Report) -> Result<bool, Fault> {
        let record = match self.gate.record(&self.activity.id, bucket, order_no).await? {
            None => None,
            Some(Ok(record)) => Some(record),
            Some(Err(_)) => return Ok(false),
        };
        let first = self.store.order(order_no).await?;
        let placement = placement_of(first.as_ref(), record.as_ref());
        let at_home = placement.is_some_and(|placement| placement.home == bucket);
        let marked = match placement {
            Some(placement) if at_home => self.gate.marked(self.activity, placement).await?,
            _ => false,
        };
        // After the mark too: all that is known of Redis is older than this.
        let order = self.store.order(order_no).await?;
        let seen = Sighting {
            bucket,
            at_home,
            record: record.as_ref(),
            marked,
            order: order.as_ref(),
            on_cancel: self.activity.on_cancel,
            now: self.now,
        };
        let Some((finding, repair)) = decide(&seen) else { return Ok(true) };
        let repaired = match repair {
            Repair::Restore { take, .. } => self.restore(order.as_ref(), bucket, take).await?,
            Repair::Claim => self.claim(order_no, record.as_ref(), bucket).await?,
            Repair::Restock { take, keep_mark } => self.restock(order_no, bucket, take, keep_mark).await?,
            Repair::Freeze => self.freeze(order_no, bucket).await?,
        };
        tracing::warn!(%order_no, %bucket, ?finding, repaired, "reconciled");
        report.note(finding, subject(order_no, bucket), repaired);
        Ok(repaired)
    }

    async fn restore(&self, order: Option<&Stored>, bucket: Bucket, take: Take) -> Result<bool, Fault> {
        let Some(Stored::Order(order)) = order else { return Ok(false) };
        let restored = self.gate.restore(self.activity, &order.placement, bucket, take, &order.parts).await?;
        Ok(matches!(restored, Restored::Done { .. } | Restored::Already))
    }

    async fn restock(&self, order_no: &OrderNo, bucket: Bucket, take: Take, keep_mark: bool) -> Result<bool, Fault> {
        let restocked = self.gate.restock(self.activity, order_no, bucket, take, keep_mark).await?;
        Ok(restocked != Restocked::BadData)
    }

    /// The claim decides; parts in further buckets are restocked when their own pass finds them.
    async fn claim(&self, order_no: &OrderNo, record: Option<&Record>, bucket: Bucket) -> Result<bool, Fault> {
        let placement = record.and_then(|record| record.placement.clone());
        let home = placement.as_ref().map_or(bucket, |placement| placement.home);
        let tombstone = placement.map_or_else(
            || Tombstone {
                order_no: order_no.clone(),
                activity: self.activity.id.clone(),
                buyer: None,
                at: self.now,
                placement: None,
            },
            |placement| placement.into_tombstone(self.now),
        );
        match self.store.claim(&tombstone).await? {
            // Committed at the last moment: nothing to repair.
            Claim::Order(_) => Ok(true),
            Claim::Aborted => {
                let mut restocked = true;
                for bucket in with_home(home, &[bucket]) {
                    restocked &= self.restock(order_no, bucket, Take::FIRST, false).await?;
                }
                Ok(restocked)
            }
        }
    }

    /// Redis gave back what a live order holds: the protocol excludes it, so something unknown is at
    /// work. Stop selling here until a person has looked.
    async fn freeze(&self, order_no: &OrderNo, bucket: Bucket) -> Result<bool, Fault> {
        tracing::error!(%order_no, %bucket, activity = %self.activity.id, "returned_while_live");
        let mark = ChangeMark {
            operation: Operation::Automatic,
            operator: "reconcile".to_owned(),
            reference: format!("freeze: returned while live, {order_no}"),
        };
        let mut allotments = Vec::new();
        for offer in &self.activity.skus {
            let item = self.store.set_on_sale(&self.activity.id, &offer.sku, bucket, false, &mark).await?;
            allotments.extend(item.as_ref().map(Allotment::from));
        }
        self.gate.sync_allotment(&self.activity.id, bucket, &allotments).await?;
        Ok(false)
    }

    async fn gate_sums(&self, report: &mut Report) -> Result<(), Fault> {
        for sum in self.gate.sum_bucket(self.activity, self.bucket, true).await? {
            let subject = format!("{}#{}#{}", self.activity.id, sum.sku, self.bucket);
            tracing::error!(subject, off_by = sum.off_by(), "gate_sum_corrected");
            report.note(Finding::GateSum, subject, true);
        }
        Ok(())
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

fn number(stored: &Stored) -> &OrderNo {
    match stored {
        Stored::Order(order) => &order.placement.order_no,
        Stored::Aborted(tombstone) => &tombstone.order_no,
    }
}

fn placement_of<'a>(
    order: Option<&'a Stored>,
    record: Option<&'a Record>,
) -> Option<&'a crate::domain::order::Placement> {
    match order {
        Some(Stored::Order(order)) => Some(&order.placement),
        Some(Stored::Aborted(tombstone)) => tombstone.placement.as_ref(),
        None => None,
    }
    .or_else(|| record.and_then(|record| record.placement.as_ref()))
}

fn live_orders(stored: &[Stored]) -> impl Iterator<Item = &Order> {
    stored.iter().filter_map(|stored| match stored {
        Stored::Order(order) if order.status.is_live() => Some(order),
        _ => None,
    })
}

fn add_live(live: &mut LiveUnits, order: &Order) {
    for part in &order.parts {
        *live.entry((part.sku.clone(), part.bucket)).or_default() += u64::from(part.units);
    }
}
