//! What calls the functions that no client calls: the event source mappings of queue and stream, and
//! the schedule, as Lambda and EventBridge run them.

pub mod fulfilment;
pub mod queue;
pub mod records;
pub mod schedule;
pub mod stream;

/// The text of an SDK error with its causes: its own text is only "service error".
pub(crate) fn explain<E: std::error::Error + Send + Sync + 'static>(error: E) -> String {
    aws_sdk_sqs::error::DisplayErrorContext(error).to_string()
}
