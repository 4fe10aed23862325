//! Giving the units of a dead order back to Redis, wherever it holds some.

use crate::{
    app::submission::with_home,
    domain::{
        FORMAT,
        activity::Activity,
        ids::Bucket,
        order::{Placement, Take},
        order_no::OrderNo,
    },
    ports::{Messages, Restocked, RollBack, RollBackReason, StockGate},
    telemetry::{self, Metric},
};

/// What is given back, and how.
pub(super) struct GiveBack<'a> {
    pub order_no: &'a OrderNo,
    pub buckets: &'a [Bucket],
    pub take: Take,
    /// Whether the buyer's mark stays.
    pub keep_mark: bool,
    /// The order's submission, as the database has it.
    pub submission: Option<&'a Placement>,
}

impl GiveBack<'_> {
    /// Answers whether all of it went back. What did not, reconciliation gives back.
    pub async fn run<G: StockGate>(&self, gate: &G, activity: &Activity) -> bool {
        let mut all = true;
        for bucket in self.buckets.iter().filter(|bucket| bucket.get() < activity.buckets.get()) {
            let restocked =
                gate.restock(activity, self.order_no, *bucket, self.take, self.keep_mark, self.submission).await;
            match restocked {
                Ok(Restocked::BadData) => {
                    telemetry::count(Metric::BadData, 1);
                    tracing::error!(order_no = %self.order_no, %bucket, "bad_data");
                    all = false;
                }
                Ok(_) => {}
                Err(fault) => {
                    tracing::warn!(order_no = %self.order_no, %bucket, fault = fault.chain(), "restock_failed");
                    all = false;
                }
            }
        }
        all
    }
}

/// Asks for a submission to be settled after so many seconds. When even that cannot be sent, reconciliation
/// finds the record.
pub(super) async fn ask_to_settle<M: Messages>(
    messages: &M,
    placement: &Placement,
    buckets: &[Bucket],
    reason: RollBackReason,
    delay_s: u16,
) {
    let message = RollBack {
        format: FORMAT,
        activity: placement.activity.clone(),
        order_no: placement.order_no.clone(),
        buyer: placement.buyer.clone(),
        home: placement.home,
        buckets: with_home(placement.home, buckets),
        reason,
    };
    match messages.send_roll_back(&message, delay_s).await {
        Ok(()) => telemetry::count(Metric::RollBacksSent, 1),
        Err(fault) => {
            tracing::error!(order_no = %placement.order_no, fault = fault.chain(), "roll_back_not_sent");
        }
    }
}
