//! Closing orders that were not paid in time. It reads the index of deadlines from where the last run got
//! to, never all orders.

use futures_util::future::join_all;
use serde::Serialize;
use tokio::time::Instant;

use super::end_order::Ender;
use crate::{
    domain::{
        activity::Activity,
        ids::Bucket,
        lease::Fence,
        order::{Event, Order, Status, Stored},
        stock::Operation,
        time::UnixMillis,
    },
    ports::{ActivityStore, Clock, Cursor, Fault, Messages, OrderLife, OrderStore, ProgressStore, StockGate},
};

/// Deadlines that are looked at again by the next run, in milliseconds: the index may lag behind.
pub const OVERLAP_MS: i64 = 300_000;
/// Buckets of an activity under way at once. One bucket's orders go one by one: they change the same stock.
const PARALLEL: usize = 8;
/// How long a bucket's place is kept when nothing expires any more, in milliseconds.
const PROGRESS_LIFE_MS: i64 = 86_400_000;
/// Who marks the stock that comes back.
const ACTOR: &str = "expire-orders";

/// What one run did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ExpiryReport {
    pub activities: u32,
    /// Orders past their deadline that were looked at.
    pub looked_at: u64,
    pub expired: u64,
    /// Orders and buckets that could not be done: the next run begins with them.
    pub faults: u32,
    /// Whether everything that was due was looked at.
    pub complete: bool,
}

pub struct ExpireOrders<D, G, M, C> {
    pub store: D,
    pub gate: G,
    pub messages: M,
    pub clock: C,
}

impl<D, G, M, C> ExpireOrders<D, G, M, C>
where
    D: ActivityStore + OrderStore + OrderLife + ProgressStore,
    G: StockGate,
    M: Messages,
    C: Clock,
{
    /// One run, until everything that is due was closed or the time is up.
    ///
    /// # Errors
    /// When the activities cannot be listed.
    pub async fn run(&self, deadline: Instant) -> Result<ExpiryReport, Fault> {
        let mut report = ExpiryReport { complete: true, ..ExpiryReport::default() };
        let mut page = None;
        loop {
            let (activities, next) = self.store.activities(page.as_ref()).await?;
            for activity in activities.iter().filter(|activity| self.concerns(activity)) {
                report.activities += 1;
                let buckets: Vec<Bucket> = activity.buckets.all().collect();
                for some in buckets.chunks(PARALLEL) {
                    let all = join_all(some.iter().map(|bucket| self.bucket(activity, *bucket, deadline))).await;
                    for part in &all {
                        report.add(part);
                    }
                }
            }
            page = next;
            if page.is_none() {
                return Ok(report);
            }
        }
    }

    fn concerns(&self, activity: &Activity) -> bool {
        let now = self.clock.now();
        activity.ready && now >= activity.window.starts_at && now < activity.expiry_ends_at()
    }

    async fn bucket(&self, activity: &Activity, bucket: Bucket, deadline: Instant) -> ExpiryReport {
        let mut report = ExpiryReport { complete: true, ..ExpiryReport::default() };
        if let Err(fault) = self.due(activity, bucket, deadline, &mut report).await {
            tracing::warn!(activity = %activity.id, %bucket, fault = fault.chain(), "expiry_failed");
            report.faults += 1;
            report.complete = false;
        }
        report
    }

    async fn due(
        &self,
        activity: &Activity,
        bucket: Bucket,
        deadline: Instant,
        report: &mut ExpiryReport,
    ) -> Result<(), Fault> {
        let job = format!("expire#{}#{bucket}", activity.id);
        let stored = self.store.progress(&job).await?;
        let from = stored.and_then(|Cursor(at)| UnixMillis::parse("cursor", &at).ok()).unwrap_or(UnixMillis::new(0));
        let now = self.clock.now();
        // Everything before this is settled for good.
        let mut settled = now.plus_ms(-OVERLAP_MS);
        let mut page = None;
        loop {
            let (numbers, next) = self.store.due_orders(activity, bucket, (from, now), page.as_ref()).await?;
            let found = self.store.orders(&numbers).await?;
            for order in found.into_iter().filter_map(unpaid).filter(|order| order.placement.pay_before < now) {
                report.looked_at += 1;
                if Instant::now() >= deadline {
                    report.complete = false;
                    settled = settled.min(order.placement.pay_before);
                    continue;
                }
                match self.expire(activity, &order, now).await {
                    Ok(expired) => report.expired += u64::from(expired),
                    Err(fault) => {
                        let order_no = &order.placement.order_no;
                        tracing::warn!(%order_no, fault = fault.chain(), "expiry_failed");
                        report.faults += 1;
                        settled = settled.min(order.placement.pay_before);
                    }
                }
            }
            page = next;
            if page.is_none() {
                break;
            }
            if Instant::now() >= deadline {
                report.complete = false;
                let reached = page.as_ref().and_then(|Cursor(due)| due.split_once('#')).map(|(at, _)| at);
                settled = settled.min(reached.and_then(|at| UnixMillis::parse("cursor", at).ok()).unwrap_or(from));
                break;
            }
        }
        if settled > from {
            let keep_until = activity.expiry_ends_at().plus_ms(PROGRESS_LIFE_MS);
            // Of no turn: two runs at once may set it back, and then something is looked at twice.
            let at = Cursor(settled.to_string());
            let _ = self.store.save_progress(&job, Fence::NONE, Some(&at), Some(keep_until)).await?;
        }
        Ok(())
    }

    /// Answers whether it was this call. The write itself checks the status and the deadline again.
    async fn expire(&self, activity: &Activity, order: &Order, now: UnixMillis) -> Result<bool, Fault> {
        let ender = Ender { store: &self.store, gate: &self.gate, messages: &self.messages };
        // Otherwise it was paid or cancelled at the last moment.
        Ok(ender.end_by_policy(activity, order, (Event::Expire, Operation::Expiry, ACTOR), now).await?.is_some())
    }
}

fn unpaid(stored: Stored) -> Option<Order> {
    match stored {
        Stored::Order(order) if order.status == Status::PendingPayment => Some(order),
        _ => None,
    }
}

impl ExpiryReport {
    fn add(&mut self, part: &Self) {
        self.looked_at += part.looked_at;
        self.expired += part.expired;
        self.faults += part.faults;
        self.complete &= part.complete;
    }
}
