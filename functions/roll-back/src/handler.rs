//! The roll-back queue: settles submissions whose outcome is unknown, message by message.

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};
use holdfast::{
    adapters::{dynamodb::Database, redis::Gate, sqs::Queues},
    app::{roll_back::RollBackOrder, watch_backlog::WatchBacklog},
    domain::readable,
    lambda::{Wiring, batch::each_message},
    ports::{Fault, RollBack, SystemClock},
    telemetry::{self, Metric},
};

pub struct Handler {
    use_case: RollBackOrder<Database, Gate, SystemClock>,
    backlog: WatchBacklog<Database, Queues, SystemClock>,
}

/// Why one message failed. It comes again, and after five receives it is a dead letter.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error("the body is not a roll-back message: {0}")]
    Malformed(String),
    #[error("the format {0} is not one that this version reads")]
    Format(u32),
    #[error("{}", .0.chain())]
    Fault(Fault),
}

#[must_use]
pub fn handler(wiring: Wiring) -> Handler {
    let Wiring { gate, database, queues, cache, backlog_max, .. } = wiring;
    let backlog = WatchBacklog::new(database.clone(), queues, SystemClock, backlog_max, "roll-back");
    Handler { use_case: RollBackOrder { cache, store: database, gate, clock: SystemClock }, backlog }
}

impl Handler {
    pub async fn handle(&self, event: SqsEvent) -> SqsBatchResponse {
        let messages = event.records.len();
        let settled = each_message(event, |message| self.settle(message)).await;
        let failed = settled.batch_item_failures.len();
        for (metric, messages) in [(Metric::RollBacks, messages - failed), (Metric::RollBacksFailed, failed)] {
            telemetry::count(metric, u64::try_from(messages).unwrap_or(u64::MAX));
        }
        if let Err(fault) = self.backlog.run().await {
            tracing::warn!(fault = fault.chain(), "backlog_not_judged");
        }
        settled
    }

    async fn settle(&self, message: SqsMessage) -> Result<(), Failed> {
        let body = message.body.unwrap_or_default();
        let message: RollBack = serde_json::from_str(&body).map_err(|error| Failed::Malformed(error.to_string()))?;
        if !readable(message.format) {
            return Err(Failed::Format(message.format));
        }
        let settled = self.use_case.run(&message).await.map_err(Failed::Fault)?;
        tracing::info!(
            activity = %message.activity, order_no = %message.order_no, reason = ?message.reason, outcome = ?settled,
            "roll_back"
        );
        Ok(())
    }
}
