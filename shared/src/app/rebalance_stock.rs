//! Moving stock between the buckets of running sales, so that no bucket stands empty beside full ones and the last
//! units lie together. See docs/protocol.md, "Adjust, move, and end".

use std::collections::BTreeSet;

use futures_util::future::try_join_all;
use serde::Serialize;
use tokio::time::Instant;

use super::carry_allotment::carry_allotment;
use crate::{
    domain::{
        activity::Activity,
        ids::{Bucket, Sku},
        rebalance::{Shift, shifts},
        stock::{ChangeMark, MoveId, Operation, StockItem},
    },
    ports::{ActivityStore, BucketState, Clock, Fault, MovePart, MoveStore, Moved, StockGate, StockMove, StockStore},
};

/// Who marks the stock that is moved.
const ACTOR: &str = "rebalance-stock";

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RebalanceReport {
    pub activities: u32,
    pub moves: u64,
    pub units: u64,
    /// Moves and activities that could not be done: the next run looks again.
    pub faults: u32,
    /// Whether every running sale was looked at.
    pub complete: bool,
}

pub struct RebalanceStock<D, G, C> {
    pub store: D,
    pub gate: G,
    pub clock: C,
}

impl<D, G, C> RebalanceStock<D, G, C>
where
    D: ActivityStore + StockStore + MoveStore,
    G: StockGate,
    C: Clock,
{
    /// One run over all running sales, or until the time is up. Two at once are harmless: a move is made once from
    /// what both saw, and what they saw differently is moved on.
    ///
    /// # Errors
    /// When the activities cannot be listed.
    pub async fn run(&self, deadline: Instant) -> Result<RebalanceReport, Fault> {
        let mut report = RebalanceReport { complete: true, ..RebalanceReport::default() };
        let mut page = None;
        loop {
            let (activities, next) = self.store.activities(page.as_ref()).await?;
            for activity in activities.iter().filter(|activity| self.concerns(activity)) {
                if Instant::now() >= deadline {
                    report.complete = false;
                    return Ok(report);
                }
                report.activities += 1;
                if let Err(fault) = self.activity(activity, deadline, &mut report).await {
                    tracing::warn!(activity = %activity.id, fault = fault.chain(), "rebalance_failed");
                    report.faults += 1;
                }
            }
            page = next;
            if page.is_none() {
                return Ok(report);
            }
        }
    }

    fn concerns(&self, activity: &Activity) -> bool {
        let (now, window) = (self.clock.now(), activity.window);
        activity.ready && activity.buckets.get() > 1 && (window.starts_at..window.ends_at).contains(&now)
    }

    async fn activity(
        &self,
        activity: &Activity,
        deadline: Instant,
        report: &mut RebalanceReport,
    ) -> Result<(), Fault> {
        let gate = self.look(activity).await?;
        for offer in &activity.skus {
            if Instant::now() >= deadline {
                report.complete = false;
                return Ok(());
            }
            let stock = self.store.stock(activity, std::slice::from_ref(&offer.sku)).await?;
            // While frozen nothing moves: a person is looking.
            if stock.iter().any(|item| !item.on_sale) {
                continue;
            }
            let free: Vec<(Bucket, u64)> =
                stock.iter().map(|item| (item.bucket, free(gate.as_deref(), item))).collect();
            self.shift(activity, &stock, &shifts(&free), report).await?;
        }
        Ok(())
    }

    /// What every bucket has free in Redis, where that is asked first.
    async fn look(&self, activity: &Activity) -> Result<Option<Vec<(Bucket, BucketState)>>, Fault> {
        if !activity.strategy.uses_gate() {
            return Ok(None);
        }
        let read = async |bucket| Ok((bucket, self.gate.read_bucket(activity, bucket).await?));
        try_join_all(activity.buckets.all().map(read)).await.map(Some)
    }

    async fn shift(
        &self,
        activity: &Activity,
        stock: &[StockItem],
        shifts: &[Shift],
        report: &mut RebalanceReport,
    ) -> Result<(), Fault> {
        let mut touched = BTreeSet::new();
        for shift in shifts {
            let Some(change) = self.change(activity, stock, *shift) else { continue };
            let mark = ChangeMark {
                operation: Operation::Automatic,
                operator: ACTOR.to_owned(),
                reference: change.reason.clone(),
            };
            match self.store.make_move(&change, &mark).await {
                Ok(Moved::Done) => {
                    tracing::info!(
                        activity = %activity.id, sku = %change.sku, from = %shift.from, to = %shift.to,
                        units = shift.units, operation = "automatic", operator = ACTOR, "moved"
                    );
                    report.moves += 1;
                    report.units += shift.units;
                }
                Ok(Moved::Already(_)) => {}
                // Sold meanwhile: the next run looks again.
                Ok(Moved::Short) => continue,
                Ok(Moved::Busy) => {
                    report.faults += 1;
                    continue;
                }
                Err(fault) => {
                    tracing::warn!(activity = %activity.id, fault = fault.chain(), "move_failed");
                    report.faults += 1;
                }
            }
            touched.extend([shift.from, shift.to]);
        }
        self.carry(activity, &touched, stock, report).await
    }

    /// One move is made once, whoever plans it: its id names the two stock items as they were seen.
    fn change(&self, activity: &Activity, stock: &[StockItem], shift: Shift) -> Option<StockMove> {
        let item = |bucket| stock.iter().find(|item| item.bucket == bucket);
        let (from, to) = (item(shift.from)?, item(shift.to)?);
        let units = i64::try_from(shift.units).ok()?;
        Some(StockMove {
            id: MoveId::automatic(&from.sku, (shift.from, from.version), (shift.to, to.version)),
            activity: activity.id.clone(),
            sku: from.sku.clone(),
            parts: vec![MovePart { bucket: shift.from, units: -units }, MovePart { bucket: shift.to, units }],
            operator: ACTOR.to_owned(),
            reason: format!("move: {} to {}", shift.from, shift.to),
            at: self.clock.now(),
        })
    }

    async fn carry(
        &self,
        activity: &Activity,
        touched: &BTreeSet<Bucket>,
        stock: &[StockItem],
        report: &mut RebalanceReport,
    ) -> Result<(), Fault> {
        let Some(sku) = stock.first().map(|item| &item.sku).filter(|_| !touched.is_empty()) else { return Ok(()) };
        let fresh = self.store.stock(activity, std::slice::from_ref::<Sku>(sku)).await?;
        for item in fresh.iter().filter(|item| touched.contains(&item.bucket)) {
            report.faults += u32::from(!carry_allotment(&self.gate, activity, item).await);
        }
        Ok(())
    }
}

/// Units that can move: available in the database, and not promised by Redis to an order that is on its way.
fn free(gate: Option<&[(Bucket, BucketState)]>, item: &StockItem) -> u64 {
    let Some(buckets) = gate else { return item.available };
    let state = buckets.iter().find(|(bucket, _)| *bucket == item.bucket);
    let sku = state.and_then(|(_, state)| state.skus.iter().find(|sku| sku.sku == item.sku));
    sku.map_or(0, |sku| item.available.min(u64::try_from(sku.stock).unwrap_or(0)))
}
