//! The one system attribute that a sender of a message may set, the header of its trace: winterbaume drops it.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use http::header::CONTENT_LENGTH;
use serde_json::{Value, from_slice, json};
use winterbaume_core::{MockRequest, MockResponse, MockService};

const TRACE: &str = "AWSTraceHeader";
/// Most messages whose trace is remembered: the latest.
const TRACES_MAX: usize = 10_000;

/// SQS that hands the header over with its message.
pub(crate) struct Traced<S> {
    sqs: S,
    /// Message and header.
    kept: Mutex<VecDeque<(String, String)>>,
}

impl<S: MockService> Traced<S> {
    pub fn new(sqs: S) -> Self {
        Self { sqs, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, VecDeque<(String, String)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers what a message was sent with, if with anything.
    fn keep(&self, asked: &[u8], answered: &[u8]) -> Option<()> {
        let (asked, answered): (Value, Value) = (from_slice(asked).ok()?, from_slice(answered).ok()?);
        let header = asked["MessageSystemAttributes"][TRACE]["StringValue"].as_str()?.to_owned();
        let mut kept = self.kept();
        if kept.len() == TRACES_MAX {
            kept.pop_front();
        }
        kept.push_back((answered["MessageId"].as_str()?.to_owned(), header));
        Some(())
    }

    /// The answer to a receive with what its messages were sent with. `None` where nobody asked for it.
    fn told(&self, asked: &[u8], answered: &[u8]) -> Option<Vec<u8>> {
        let (asked, mut answered): (Value, Value) = (from_slice(asked).ok()?, from_slice(answered).ok()?);
        let names = ["MessageSystemAttributeNames", "AttributeNames"].iter().filter_map(|list| asked[list].as_array());
        if !names.flatten().any(|name| name == "All" || name == TRACE) {
            return None;
        }
        let kept = self.kept();
        for message in answered["Messages"].as_array_mut()? {
            if let Some((_, header)) = kept.iter().find(|(id, _)| message["MessageId"] == **id) {
                message["Attributes"][TRACE] = json!(header);
            }
        }
        serde_json::to_vec(&answered).ok()
    }
}

impl<S: MockService> MockService for Traced<S> {
    fn service_name(&self) -> &str {
        self.sqs.service_name()
    }

    fn url_patterns(&self) -> Vec<&str> {
        self.sqs.url_patterns()
    }

    fn handle(&self, request: MockRequest) -> Pin<Box<dyn Future<Output = MockResponse> + Send + '_>> {
        let (asked, target) = (request.body.clone(), request.headers.get("x-amz-target").cloned());
        Box::pin(async move {
            let mut answer = self.sqs.handle(request).await;
            match target.as_ref().and_then(|target| target.to_str().ok()?.split('.').nth(1)) {
                Some("SendMessage") => {
                    self.keep(&asked, &answer.body);
                }
                Some("ReceiveMessage") => {
                    if let Some(body) = self.told(&asked, &answer.body) {
                        answer.headers.remove(CONTENT_LENGTH);
                        answer.body = body.into();
                    }
                }
                _ => {}
            }
            answer
        })
    }
}
