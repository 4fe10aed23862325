//! Counters against orders, after the orders were compared.

use super::{
    activity::ActivityPass,
    report::Difference,
    state::{Pass, Tallied},
};
use crate::{
    domain::{
        ids::{Bucket, Sku},
        repair::{Finding, GRACE_MS},
        stock::{ChangeMark, Operation, StockItem},
    },
    ports::{AuditStore, ChangeFeed, Clock, Fault, FindingStore, OrderStore, ProgressStore, StockGate, StockStore},
    telemetry::{self, Metric},
};

impl<D, G, C> ActivityPass<'_, D, G, C>
where
    D: OrderStore + StockStore + ProgressStore + AuditStore + FindingStore,
    G: StockGate + ChangeFeed,
    C: Clock,
{
    /// available + units of live orders = allotted. Repaired only where nothing changed since before
    /// the listing: the write's own condition. The listing comes from an index that may lag, so an item
    /// that changed within the grace before it is left for the next pass: an order missing from the
    /// listing would look like stock to give away.
    pub(super) async fn database_sums(&mut self, pass: &mut Pass) -> Result<(), Fault> {
        let Some(tally) = pass.tally.take() else {
            tracing::warn!(activity = %self.activity.id, "database_sums_not_judged");
            return Ok(());
        };
        let skus: Vec<Sku> = self.activity.skus.iter().map(|offer| offer.sku.clone()).collect();
        for item in self.store.stock(self.activity, &skus).await? {
            let tallied = tally.0.iter().find(|tallied| (&tallied.sku, tallied.bucket) == (&item.sku, item.bucket));
            let Some(tallied) = tallied.filter(|tallied| tallied.version == item.version) else { continue };
            if item.available + tallied.units != item.allotted {
                self.database_sum(pass, &item, tallied).await?;
            }
        }
        Ok(())
    }

    async fn database_sum(&mut self, pass: &mut Pass, item: &StockItem, tallied: &Tallied) -> Result<(), Fault> {
        let settled = pass.started_at.since_ms(item.changed_at) > GRACE_MS;
        let said = format!("available {} of {}, live orders {}", item.available, item.allotted, tallied.units);
        let difference = |action: String, repaired| Difference {
            sku: Some(item.sku.clone()),
            database: said,
            ..Difference::of(Finding::DatabaseSum, item.bucket, action, repaired)
        };
        let subject = format!("{}#{}#{}", item.activity, item.sku, item.bucket);
        match item.allotted.checked_sub(tallied.units) {
            Some(available) if settled => {
                let mark = ChangeMark {
                    operation: Operation::Automatic,
                    operator: "reconcile".to_owned(),
                    reference: "database_sum".to_owned(),
                };
                // Refused: another version by now, so the sums were of different moments.
                if self.store.correct_available(item, available, &mark).await? {
                    telemetry::count(Metric::SumsCorrected, 1);
                    tracing::error!(subject, from = item.available, to = available, "database_sum_corrected");
                    self.note(pass, difference(format!("available = {available}"), true));
                }
            }
            // More live units than were ever put on sale: a person is needed.
            None => {
                telemetry::count(Metric::Oversold, 1);
                tracing::error!(subject, allotted = item.allotted, units = tallied.units, "oversold");
                self.note(pass, difference("none: more is sold than was put on sale".to_owned(), false));
            }
            Some(_) => {}
        }
        Ok(())
    }

    /// Redis's counters against the records of its bucket.
    pub(super) async fn gate_sums(&mut self, pass: &mut Pass, bucket: Bucket) -> Result<(), Fault> {
        for sum in self.gate.sum_bucket(self.activity, bucket, true).await? {
            let subject = format!("{}#{}#{bucket}", self.activity.id, sum.sku);
            telemetry::count(Metric::SumsCorrected, 1);
            tracing::error!(subject, off_by = sum.off_by(), "gate_sum_corrected");
            let redis = format!("free {} of {}, records {}", sum.stock, sum.allotted, sum.deducted);
            let action = format!("free = {}, sold = {}", sum.allotted - sum.deducted, sum.deducted);
            let off = Difference::of(Finding::GateSum, bucket, action, true);
            self.note(pass, Difference { sku: Some(sum.sku), redis, ..off });
        }
        Ok(())
    }
}
