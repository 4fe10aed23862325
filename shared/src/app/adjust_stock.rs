//! More or less stock while the sale runs. See docs/protocol.md, "Adjust, and end".

use std::cmp::Reverse;

use futures_util::future::join_all;

use super::carry_allotment::carry_allotment;
use crate::{
    domain::{
        activity::Activity,
        buckets::split,
        ids::{ActivityId, Bucket, BucketCount, BuyerId, Sku},
        reason::Reason,
        stock::{ChangeMark, MoveId, Operation, StockItem},
    },
    ports::{ActivityStore, Clock, Fault, MovePart, MoveStore, Moved, StockGate, StockMove, StockStore},
};

/// How often stock is looked for when it is sold under the operator's hands.
const LOOKS_MAX: usize = 5;

/// What an operator asks for.
#[derive(Clone, Debug)]
pub struct Adjustment {
    pub activity: ActivityId,
    pub sku: Sku,
    /// Units that come on sale, or are taken off it when below zero. Never zero.
    pub delta: i64,
    /// Makes the adjustment one, however often it is asked for.
    pub id: MoveId,
    pub operator: BuyerId,
    pub reason: Reason,
}

/// One bucket after the adjustment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdjustedBucket {
    pub bucket: Bucket,
    pub units: i64,
    pub allotted: u64,
    pub available: u64,
    /// Whether Redis has it too. Where not, reconciliation carries it there.
    pub in_force: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Adjusted {
    /// By this call or an earlier one with the same id.
    Done(Vec<AdjustedBucket>),
    UnknownActivity,
    UnknownSku,
    NotPreheated,
    /// That many units are not there to be taken: the rest is sold.
    StockSold {
        available: u64,
    },
    /// The id was used for another adjustment.
    Mismatch,
}

pub struct AdjustStock<D, G, C> {
    pub store: D,
    pub gate: G,
    pub clock: C,
}

impl<D, G, C> AdjustStock<D, G, C>
where
    D: ActivityStore + StockStore + MoveStore,
    G: StockGate,
    C: Clock,
{
    /// # Errors
    /// When the database does not answer: the same call may be sent again.
    pub async fn run(&self, asked: &Adjustment) -> Result<Adjusted, Fault> {
        let Some(activity) = self.store.activity(&asked.activity).await? else { return Ok(Adjusted::UnknownActivity) };
        if activity.offer(&asked.sku).is_none() {
            return Ok(Adjusted::UnknownSku);
        }
        if !activity.ready {
            return Ok(Adjusted::NotPreheated);
        }
        // Before anything is planned: again is again, whatever was sold since.
        if let Some(made) = self.store.stock_move(&activity.id, &asked.id).await? {
            return self.tell(&activity, asked, &made).await;
        }
        let operator = asked.operator.as_str().to_owned();
        let reference = format!("adjust: {}", asked.reason.as_str());
        let mark = ChangeMark { operation: Operation::Manual, operator: operator.clone(), reference };
        for _ in 0..LOOKS_MAX {
            let stock = self.store.stock(&activity, std::slice::from_ref(&asked.sku)).await?;
            let Some(parts) = plan(asked, &stock, activity.buckets) else {
                return Ok(Adjusted::StockSold { available: stock.iter().map(|item| item.available).sum() });
            };
            let change = StockMove {
                id: asked.id.clone(),
                activity: activity.id.clone(),
                sku: asked.sku.clone(),
                parts,
                operator: operator.clone(),
                reason: asked.reason.as_str().to_owned(),
                at: self.clock.now(),
            };
            match self.store.make_move(&change, &mark).await? {
                Moved::Done => return self.tell(&activity, asked, &change).await,
                Moved::Already(made) => return self.tell(&activity, asked, &made).await,
                Moved::Short => {}
                Moved::Busy => break,
            }
        }
        Err(Fault::not_applied("adjust stock", "the stock changes too often"))
    }

    /// Carries the allotments to Redis, by version, and tells what is there now.
    async fn tell(&self, activity: &Activity, asked: &Adjustment, made: &StockMove) -> Result<Adjusted, Fault> {
        if made.sku != asked.sku || made.delta() != asked.delta {
            return Ok(Adjusted::Mismatch);
        }
        let stock = self.store.stock(activity, std::slice::from_ref(&asked.sku)).await?;
        let told = made.parts.iter().filter_map(|part| {
            let item = stock.iter().find(|item| item.bucket == part.bucket)?;
            Some(self.carry(activity, *part, item))
        });
        Ok(Adjusted::Done(join_all(told).await))
    }

    async fn carry(&self, activity: &Activity, part: MovePart, item: &StockItem) -> AdjustedBucket {
        let in_force = carry_allotment(&self.gate, activity, item).await;
        AdjustedBucket {
            bucket: part.bucket,
            units: part.units,
            allotted: item.allotted,
            available: item.available,
            in_force,
        }
    }
}

/// More is spread evenly; less is taken where most is left. `None` when that much is not there.
fn plan(asked: &Adjustment, stock: &[StockItem], buckets: BucketCount) -> Option<Vec<MovePart>> {
    if asked.delta >= 0 {
        let spread = split(&asked.sku, asked.delta.unsigned_abs(), buckets);
        let parts = spread.into_iter().filter(|(_, units)| *units > 0);
        return parts.map(|(bucket, units)| Some(MovePart { bucket, units: i64::try_from(units).ok()? })).collect();
    }
    let mut left = asked.delta.unsigned_abs();
    let mut items: Vec<&StockItem> = stock.iter().filter(|item| item.available > 0).collect();
    items.sort_by_key(|item| (Reverse(item.available), item.bucket));
    let mut parts = Vec::new();
    for item in items {
        let units = left.min(item.available);
        if units > 0 {
            parts.push(MovePart { bucket: item.bucket, units: -i64::try_from(units).ok()? });
            left -= units;
        }
    }
    (left == 0).then_some(parts)
}
