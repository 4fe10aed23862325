//! Single orders: what a bucket's record and the database's order say of each other, and the repair.

use std::collections::{BTreeMap, HashMap};

use super::{
    activity::ActivityPass,
    report::{Difference, told_order, told_record},
    state::Pass,
};
use crate::{
    app::submission::with_home,
    domain::{
        ids::Bucket,
        order::{Order, Placement, Stored, Take, Tombstone},
        order_no::OrderNo,
        record::{Record, Side},
        repair::{Finding, Repair, Sighting, decide},
        stock::{ChangeMark, Operation},
        time::UnixMillis,
    },
    ports::{
        AuditStore, ChangeFeed, Claim, Clock, Fault, FindingStore, OrderStore, ProgressStore, Restocked, Restored,
        StockGate, StockStore,
    },
    telemetry::{self, Metric},
};

/// What comparing some orders came to.
#[derive(Debug, Default)]
pub(super) struct Compared {
    /// Deductions whose order may still be on its way, and since when.
    pub in_flight: HashMap<OrderNo, UnixMillis>,
    /// Something differs and was not repaired.
    pub open: bool,
}

/// One page of orders, as read from both stores.
struct Seen {
    records: HashMap<OrderNo, Record>,
    stored: HashMap<OrderNo, Stored>,
    /// Those whose home this is and that every mark of their buyer counts.
    marked: HashMap<OrderNo, bool>,
}

impl<D, G, C> ActivityPass<'_, D, G, C>
where
    D: OrderStore + StockStore + ProgressStore + AuditStore + FindingStore,
    G: StockGate + ChangeFeed,
    C: Clock,
{
    /// Compares these orders in this bucket and in every other one that they name. In a full pass `by_home`
    /// says that they come from the listing by home: their other parts are looked at and their units counted
    /// there, and only there. `records` are what a listing of Redis showed.
    pub(super) async fn compare(
        &mut self,
        pass: &mut Pass,
        bucket: Bucket,
        order_nos: &[OrderNo],
        records: Option<HashMap<OrderNo, Record>>,
        by_home: bool,
    ) -> Result<Compared, Fault> {
        let mut compared = Compared::default();
        if order_nos.is_empty() {
            return Ok(compared);
        }
        let listed = records.is_some();
        let seen = self.look(bucket, order_nos, records, &mut compared).await?;
        let mut elsewhere: BTreeMap<Bucket, Vec<OrderNo>> = BTreeMap::new();
        for order_no in order_nos {
            self.report.compared += 1;
            pass.compared += 1;
            let (record, stored) = (seen.records.get(order_no), seen.stored.get(order_no));
            if self.differs(bucket, record, stored, seen.marked.get(order_no) == Some(&true)) {
                let settled = self.confirm_and_repair(pass, order_no, bucket).await?;
                compared.open |= !settled;
            } else if stored.is_none()
                && let Some(record) = record.filter(|record| record.side == Side::Deducted)
            {
                compared.in_flight.insert(order_no.clone(), record.at);
            }
            let Some(Stored::Order(order)) = stored else { continue };
            if by_home
                && order.status.is_live()
                && let Some(tally) = &mut pass.tally
            {
                order.parts.iter().for_each(|part| tally.add(&part.sku, part.bucket, part.units));
            }
            // A page of a full listing of Redis leaves the others to their own.
            if !listed && self.uses_gate() {
                for other in order.buckets().into_iter().filter(|other| *other != bucket) {
                    elsewhere.entry(other).or_default().push(order_no.clone());
                }
            }
        }
        for (other, numbers) in elsewhere {
            compared.open |= !self.elsewhere(pass, other, &numbers, &seen.stored).await?;
        }
        Ok(compared)
    }

    /// Redis first: a record that is read before its order can only be older than it.
    async fn look(
        &mut self,
        bucket: Bucket,
        order_nos: &[OrderNo],
        records: Option<HashMap<OrderNo, Record>>,
        compared: &mut Compared,
    ) -> Result<Seen, Fault> {
        let records = match records {
            Some(records) => records,
            None if !self.uses_gate() => HashMap::new(),
            None => {
                let (records, bad) = self.readable(bucket, order_nos).await?;
                compared.open |= bad;
                records
            }
        };
        let stored = self.store.orders(order_nos).await?;
        let stored: HashMap<OrderNo, Stored> = stored.into_iter().map(|it| (number(&it).clone(), it)).collect();
        let mut marked = HashMap::new();
        if self.uses_gate() {
            let placements: Vec<&Placement> = order_nos
                .iter()
                .filter_map(|order_no| placement_of(stored.get(order_no), records.get(order_no)))
                .filter(|placement| placement.home == bucket)
                .collect();
            let all = self.gate.all_marked(self.activity, bucket, &placements).await?;
            marked = placements.into_iter().map(|placement| placement.order_no.clone()).zip(all).collect();
        }
        Ok(Seen { records, stored, marked })
    }

    /// The records of these orders; one that cannot be read is told and left out.
    async fn readable(
        &mut self,
        bucket: Bucket,
        order_nos: &[OrderNo],
    ) -> Result<(HashMap<OrderNo, Record>, bool), Fault> {
        let (mut readable, mut bad) = (HashMap::new(), false);
        let records = self.gate.records(&self.activity.id, bucket, order_nos).await?;
        for (order_no, record) in order_nos.iter().zip(records) {
            match record {
                Some(Ok(record)) => {
                    readable.insert(order_no.clone(), record);
                }
                Some(Err(problem)) => {
                    telemetry::count(Metric::BadData, 1);
                    tracing::error!(%order_no, %bucket, problem, "bad_data");
                    self.report.faults += 1;
                    bad = true;
                }
                None => {}
            }
        }
        Ok((readable, bad))
    }

    /// Other buckets that these orders name; answers whether all is settled there.
    async fn elsewhere(
        &mut self,
        pass: &mut Pass,
        bucket: Bucket,
        order_nos: &[OrderNo],
        stored: &HashMap<OrderNo, Stored>,
    ) -> Result<bool, Fault> {
        let (records, bad) = self.readable(bucket, order_nos).await?;
        let mut settled = !bad;
        for order_no in order_nos {
            let order = stored.get(order_no);
            // Their home's marks were not read: whether it counts them shows when it is looked at again.
            let at_home = order.is_some_and(|order| self.is_home(order, bucket));
            if at_home || self.differs(bucket, records.get(order_no), order, false) {
                settled &= self.confirm_and_repair(pass, order_no, bucket).await?;
            }
        }
        Ok(settled)
    }

    fn differs(&self, bucket: Bucket, record: Option<&Record>, order: Option<&Stored>, marked: bool) -> bool {
        if !self.uses_gate() {
            return false;
        }
        decide(&Sighting {
            bucket,
            at_home: order.is_some_and(|order| self.is_home(order, bucket)),
            record,
            marked,
            order,
            on_cancel: self.activity.on_cancel,
            now: self.clock.now(),
        })
        .is_some()
    }

    fn is_home(&self, order: &Stored, bucket: Bucket) -> bool {
        order.buyer().is_some_and(|buyer| buyer.home(self.activity.buckets) == bucket)
    }

    /// Looks again, record before order, and repairs what is still off. Answers whether the order is
    /// settled in this bucket.
    async fn confirm_and_repair(&mut self, pass: &mut Pass, order_no: &OrderNo, bucket: Bucket) -> Result<bool, Fault> {
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
            now: self.clock.now(),
        };
        let Some((kind, repair)) = decide(&seen) else { return Ok(true) };
        let (action, repaired) = match repair {
            Repair::Restore { take, .. } => ("restore", self.restore(order.as_ref(), bucket, take).await?),
            Repair::Claim => ("claim and restock", self.claim(order_no, record.as_ref(), bucket).await?),
            Repair::Restock { take, keep_mark } => {
                let submission = placement_of(order.as_ref(), None);
                ("restock", self.restock(order_no, bucket, take, keep_mark, submission).await?)
            }
            Repair::Freeze => ("freeze", self.freeze(order_no, bucket).await?),
        };
        let difference = Difference {
            order_no: Some(order_no.clone()),
            redis: told_record(record.as_ref(), marked),
            database: told_order(order.as_ref()),
            ..Difference::of(kind, bucket, action, repaired)
        };
        self.note(pass, difference);
        Ok(repaired)
    }

    async fn restore(&self, order: Option<&Stored>, bucket: Bucket, take: Take) -> Result<bool, Fault> {
        let Some(Stored::Order(order)) = order else { return Ok(false) };
        let restored = self.gate.restore(self.activity, &order.placement, bucket, take, &order.parts).await?;
        Ok(matches!(restored, Restored::Done { .. } | Restored::Already))
    }

    async fn restock(
        &self,
        order_no: &OrderNo,
        bucket: Bucket,
        take: Take,
        keep_mark: bool,
        submission: Option<&Placement>,
    ) -> Result<bool, Fault> {
        let restocked = self.gate.restock(self.activity, order_no, bucket, take, keep_mark, submission).await?;
        Ok(restocked != Restocked::BadData)
    }

    /// The claim decides; parts in further buckets are restocked when their own pass finds them.
    async fn claim(&self, order_no: &OrderNo, record: Option<&Record>, bucket: Bucket) -> Result<bool, Fault> {
        let placement = record.and_then(|record| record.placement.clone());
        let home = placement.as_ref().map_or(bucket, |placement| placement.home);
        let now = self.clock.now();
        let tombstone = placement.map_or_else(
            || Tombstone {
                order_no: order_no.clone(),
                activity: self.activity.id.clone(),
                buyer: None,
                at: now,
                placement: None,
            },
            |placement| placement.into_tombstone(now),
        );
        match self.store.claim(&tombstone).await? {
            // Committed at the last moment: nothing to repair.
            Claim::Order(_) => Ok(true),
            Claim::Aborted => {
                let mut restocked = true;
                for bucket in with_home(home, &[bucket]) {
                    restocked &= self.restock(order_no, bucket, Take::FIRST, false, None).await?;
                }
                Ok(restocked)
            }
        }
    }

    /// Redis gave back what a live order holds: the protocol excludes it, so something unknown is at
    /// work. Stop selling here until a person has looked.
    async fn freeze(&self, order_no: &OrderNo, bucket: Bucket) -> Result<bool, Fault> {
        telemetry::count(Metric::ReturnedWhileLive, 1);
        tracing::error!(%order_no, %bucket, activity = %self.activity.id, "returned_while_live");
        let mark = ChangeMark {
            operation: Operation::Automatic,
            operator: "reconcile".to_owned(),
            reference: format!("freeze: {:?}, {order_no}", Finding::ReturnedWhileLive),
        };
        let mut allotments = Vec::new();
        for offer in &self.activity.skus {
            let item = self.store.set_on_sale(&self.activity.id, &offer.sku, bucket, false, &mark).await?;
            allotments.extend(item.as_ref().map(|item| self.activity.allotment(item)));
        }
        self.gate.sync_allotment(&self.activity.id, bucket, &allotments).await?;
        Ok(false)
    }
}

fn number(stored: &Stored) -> &OrderNo {
    match stored {
        Stored::Order(order) => &order.placement.order_no,
        Stored::Aborted(tombstone) => &tombstone.order_no,
    }
}

fn placement_of<'a>(order: Option<&'a Stored>, record: Option<&'a Record>) -> Option<&'a Placement> {
    match order {
        Some(Stored::Order(Order { placement, .. })) => Some(placement),
        Some(Stored::Aborted(tombstone)) => tombstone.placement.as_ref(),
        None => None,
    }
    .or_else(|| record.and_then(|record| record.placement.as_ref()))
}
