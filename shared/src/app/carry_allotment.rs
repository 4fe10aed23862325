//! A stock item's allotment on its way to Redis: by version, so by anyone, at any time.

use crate::{
    domain::{activity::Activity, stock::StockItem},
    ports::StockGate,
};

/// Answers whether it is there. Where it is not, reconciliation carries it.
pub(super) async fn carry_allotment<G: StockGate>(gate: &G, activity: &Activity, item: &StockItem) -> bool {
    if !activity.strategy.uses_gate() {
        return true;
    }
    let carried = gate.sync_allotment(&activity.id, item.bucket, &[activity.allotment(item)]).await;
    if let Err(fault) = &carried {
        tracing::warn!(
            activity = %activity.id, sku = %item.sku, bucket = %item.bucket, fault = fault.chain(),
            "allotment_not_in_redis"
        );
    }
    carried.is_ok()
}
