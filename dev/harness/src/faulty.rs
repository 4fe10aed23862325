//! Ports that fail at a chosen step, before or after their effect, or from then on for good: what no
//! server does on demand. Everything else goes through to the real adapters.

use std::{
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
};

use holdfast::{
    domain::{
        activity::Activity,
        ids::{ActivityId, Bucket, BuyerId, Sku},
        lease::{Fence, Lease, LockName, LockOwner},
        order::{Order, Part, Placement, Stored, Take, Tombstone},
        order_no::OrderNo,
        payment::{Payment, RefundDue},
        record::Record,
        stock::{Allotment, ChangeMark, MoveId, StockItem},
        time::UnixMillis,
    },
    ports::{
        Acquired, ActivityStore, Admission, AdmissionStore, BucketMark, BucketState, Bypass, ChangeFeed, Changed,
        Claim, Commit, Cursor, Deducted, Ending, Fault, LedgerEntry, Limiting, LockGate, Look, Messages, MoveStore,
        Moved, OrderEvent, OrderGate, OrderLife, OrderStore, PlaceAnswer, PlaceCall, Preheated, ProgressStore,
        RecordPage, RefundEvent, Restocked, Restored, Revival, RollBack, Saved, Still, StockGate, StockMove,
        StockStore, SumCheck, Undone,
    },
};

/// How the chosen step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    /// Certainly not applied.
    Refused,
    /// Not applied, but nobody knows.
    LostBefore,
    /// Applied, and the reply is lost.
    LostAfter,
    /// Applied; then the process is dead: no later step happens.
    CrashAfter,
    /// The process dies instead of the step.
    CrashBefore,
}

impl Strike {
    pub const ALL: [Self; 5] = [Self::Refused, Self::LostBefore, Self::LostAfter, Self::CrashAfter, Self::CrashBefore];
}

/// Decides which step fails. One per submission; clones share the count.
#[derive(Clone, Debug)]
pub struct Saboteur {
    strike: Strike,
    steps_left: Arc<AtomicU32>,
    dead: Arc<AtomicBool>,
}

impl Saboteur {
    /// The step with this index, from 0, fails.
    #[must_use]
    pub fn at(step: u32, strike: Strike) -> Self {
        Self { strike, steps_left: Arc::new(AtomicU32::new(step + 1)), dead: Arc::default() }
    }

    /// Whether the process has died: what it would have answered, nobody heard.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    async fn step<T: Send>(
        &self,
        operation: &'static str,
        call: impl Future<Output = Result<T, Fault>> + Send,
    ) -> Result<T, Fault> {
        if self.is_dead() {
            return Err(Fault::not_applied(operation, "the process is dead"));
        }
        let left = self.steps_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if left != Ok(1) {
            return call.await;
        }
        if matches!(self.strike, Strike::LostAfter | Strike::CrashAfter) {
            let _ = call.await;
        }
        if matches!(self.strike, Strike::CrashAfter | Strike::CrashBefore) {
            self.dead.store(true, Ordering::SeqCst);
        }
        Err(match self.strike {
            Strike::Refused => Fault::not_applied(operation, "refused"),
            _ => Fault::maybe_applied(operation, "the reply is lost"),
        })
    }
}

/// A port of the product that its saboteur may strike.
#[derive(Clone, Debug)]
pub struct Faulty<T> {
    pub inner: T,
    pub saboteur: Saboteur,
}

/// Each method through the saboteur.
macro_rules! struck {
    ($port:ident: $($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        impl<T: $port> $port for Faulty<T> {
            $(async fn $name(&self, $($argument: $type),*) -> Result<$answer, Fault> {
                self.saboteur.step(stringify!($name), self.inner.$name($($argument),*)).await
            })*
        }
    };
}

struck! { OrderStore:
    commit(order: &Order, limit_max: u32) -> Commit;
    claim(tombstone: &Tombstone) -> Claim;
    order(order_no: &OrderNo) -> Option<Stored>;
    orders(order_nos: &[OrderNo]) -> Vec<Stored>;
    buyer_orders(activity: &ActivityId, buyer: &BuyerId) -> Vec<OrderNo>;
    limiting_orders(placement: &Placement, limit_max: u32) -> Vec<OrderNo>;
    home_orders(activity: &ActivityId, bucket: Bucket, after: Option<&Cursor>) -> (Vec<OrderNo>, Option<Cursor>);
}

struck! { OrderLife:
    end(order: &Order, ending: &Ending) -> Changed;
    pay(order: &Order, payment: &Payment, at: UnixMillis) -> Changed;
    pay_late(revival: &Revival<'_>) -> Commit;
    record_refund(refund: &RefundDue, expired: Option<&Order>) -> Changed;
    refunds(order_no: &OrderNo) -> Vec<RefundDue>;
    due_orders(activity: &Activity, bucket: Bucket, between: (UnixMillis, UnixMillis), after: Option<&Cursor>) -> (Vec<OrderNo>, Option<Cursor>);
}

struck! { ProgressStore:
    progress(job: &str) -> Option<Cursor>;
    take_turn(job: &str) -> (Fence, Option<Cursor>);
    save_progress(job: &str, fence: Fence, at: Option<&Cursor>, keep_until: Option<UnixMillis>) -> Saved;
}

struck! { MoveStore:
    make_move(change: &StockMove, mark: &ChangeMark) -> Moved;
    stock_move(activity: &ActivityId, id: &MoveId) -> Option<StockMove>;
}

struck! { AdmissionStore:
    admission() -> Admission;
    note_bypass(bypass: Bypass) -> UnixMillis;
    limit_admission(limiting: &Limiting) -> ();
}

struck! { StockStore:
    open_stock(item: &StockItem, mark: &ChangeMark) -> StockItem;
    bucket_stock(activity: &Activity, bucket: Bucket) -> Vec<StockItem>;
    stock(activity: &Activity, skus: &[Sku]) -> Vec<StockItem>;
    set_on_sale(activity: &ActivityId, sku: &Sku, bucket: Bucket, on_sale: bool, mark: &ChangeMark) -> Option<StockItem>;
    correct_available(item: &StockItem, available: u64, mark: &ChangeMark) -> bool;
}

struck! { ActivityStore:
    activity(id: &ActivityId) -> Option<Activity>;
    activities(after: Option<&Cursor>) -> (Vec<Activity>, Option<Cursor>);
    save_activity(activity: &Activity, expected: Option<u64>) -> Saved;
}

struck! { Messages:
    send_roll_back(message: &RollBack, delay_s: u16) -> ();
    send_event(event: &OrderEvent) -> ();
    send_refund(event: &RefundEvent) -> ();
    send_dead_letter(body: &str) -> ();
}

struck! { OrderGate:
    place(call: PlaceCall<'_>) -> PlaceAnswer;
    deduct(activity: &Activity, placement: &Placement, bucket: Bucket, units: &[(Sku, u32)]) -> Deducted;
    look(activity: &Activity, placement: &Placement, buckets: &[Bucket]) -> Vec<Look>;
    undo(activity: &Activity, placement: &Placement, bucket: Bucket) -> Undone;
    record(activity: &ActivityId, bucket: Bucket, order_no: &OrderNo) -> Option<Result<Record, String>>;
}

struck! { StockGate:
    restock(activity: &Activity, order_no: &OrderNo, bucket: Bucket, take: Take, keep_mark: bool, submission: Option<&Placement>) -> Restocked;
    restore(activity: &Activity, placement: &Placement, bucket: Bucket, take: Take, parts: &[Part]) -> Restored;
    preheat(activity: &Activity, bucket: Bucket, allotments: &[Allotment], now: UnixMillis) -> Preheated;
    sync_allotment(activity: &ActivityId, bucket: Bucket, allotments: &[Allotment]) -> usize;
    sync_control(activity: &Activity, bucket: Bucket, now: UnixMillis) -> bool;
    read_bucket(activity: &Activity, bucket: Bucket) -> BucketState;
    list_records(activity: &ActivityId, bucket: Bucket, cursor: u64) -> RecordPage;
    marked(activity: &Activity, placement: &Placement) -> bool;
    sum_bucket(activity: &Activity, bucket: Bucket, repair: bool) -> Vec<SumCheck>;
}

struck! { ChangeFeed:
    mark(activity: &ActivityId, bucket: Bucket, upto: Option<UnixMillis>) -> BucketMark;
    changes_after(activity: &ActivityId, bucket: Bucket, entry: &str) -> Option<Vec<LedgerEntry>>;
    records(activity: &ActivityId, bucket: Bucket, order_nos: &[OrderNo]) -> Vec<Option<Result<Record, String>>>;
    all_marked(activity: &Activity, bucket: Bucket, placements: &[&Placement]) -> Vec<bool>;
}

/// Not struck: the lease of a dead owner runs out, and a test would only have to wait for it.
impl<T: LockGate> LockGate for Faulty<T> {
    async fn acquire(&self, name: &LockName, owner: &LockOwner, lease: Lease) -> Result<Acquired, Fault> {
        self.inner.acquire(name, owner, lease).await
    }

    async fn renew(&self, name: &LockName, owner: &LockOwner, lease: Lease) -> Result<Still, Fault> {
        self.inner.renew(name, owner, lease).await
    }

    async fn release(&self, name: &LockName, owner: &LockOwner) -> Result<Still, Fault> {
        self.inner.release(name, owner).await
    }
}
