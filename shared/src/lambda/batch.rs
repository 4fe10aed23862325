//! Batches from SQS: each message by itself, partial failures reported.

use aws_lambda_events::sqs::{SqsBatchResponse, SqsEvent, SqsMessage};

use crate::telemetry::{self, Trace};

/// From this many receives on, a failing message is an alarm: two more and it is a dead letter.
pub const ALARM_RECEIVES: u32 = 3;

/// Runs `work` on every message, as a part of the trace that it was sent in; the failed ones come again, the others
/// are done.
pub async fn each_message<E, F>(event: SqsEvent, mut work: impl FnMut(SqsMessage) -> F) -> SqsBatchResponse
where
    E: std::fmt::Display,
    F: Future<Output = Result<(), E>>,
{
    let mut response = SqsBatchResponse::default();
    for message in event.records {
        let id = message.message_id.clone().unwrap_or_default();
        let receives = receives(&message);
        let done = telemetry::traced(trace(&message), async {
            let done = work(message).await;
            done.inspect_err(|error| tell(&id, receives, error))
        });
        if done.await.is_err() {
            response.add_failure(id);
        }
    }
    response
}

/// The trace of whoever sent it. None where a version sent it that had none.
fn trace(message: &SqsMessage) -> Option<Trace> {
    Trace::parse(message.attributes.get("AWSTraceHeader")?)
}

fn tell(id: &str, receives: u32, error: &impl std::fmt::Display) {
    if receives >= ALARM_RECEIVES {
        tracing::error!(message_id = id, receives, %error, alarm = true, "message_fails_again");
    } else {
        tracing::warn!(message_id = id, receives, %error, "message_failed");
    }
}

fn receives(message: &SqsMessage) -> u32 {
    message.attributes.get("ApproximateReceiveCount").and_then(|count| count.parse().ok()).unwrap_or(1)
}
