//! What one thing used: calls and units, and their price.

use std::ops::{Add, Sub};
use std::time::Duration;

use super::prices::Prices;

/// Operations of the database whose units are write units.
const WRITES: [&str; 5] = ["BatchWriteItem", "DeleteItem", "PutItem", "TransactWriteItems", "UpdateItem"];
const READS: [&str; 4] = ["BatchGetItem", "GetItem", "Query", "Scan"];
/// Stream records or messages that one asynchronous invocation takes on average in a busy sale: it may take 100
/// records or 10 messages.
const BATCH: f64 = 10.0;
/// What Lambda itself logs of an invocation: start, end, report.
const PLATFORM_LOG_BYTES: f64 = 400.0;
/// The part of the requests that X-Ray traces by its default rule, beside one a second.
const TRACED: f64 = 0.05;
/// Memory of the function that serves orders, in GB; others have half of it.
const MEMORY_GB: f64 = 0.5;

/// Totals of a running stack, or what was used between two of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub http_calls: f64,
    pub script_calls: f64,
    pub read_calls: f64,
    pub write_calls: f64,
    pub read_units: f64,
    pub write_units: f64,
    pub messages_sent: f64,
    pub stream_records: f64,
    pub log_bytes: f64,
    /// Time of the HTTP calls.
    pub seconds: f64,
}

impl Tally {
    /// Adds calls and units of the database.
    #[must_use]
    pub fn with_database<'a>(
        mut self,
        calls: impl IntoIterator<Item = (&'a String, &'a u64)>,
        units: impl IntoIterator<Item = (&'a String, &'a f64)>,
    ) -> Self {
        for (operation, count) in calls {
            if WRITES.contains(&operation.as_str()) {
                self.write_calls += as_f64(*count);
            } else if READS.contains(&operation.as_str()) {
                self.read_calls += as_f64(*count);
            }
        }
        for (operation, units) in units {
            let sum = if WRITES.contains(&operation.as_str()) { &mut self.write_units } else { &mut self.read_units };
            *sum += units;
        }
        self
    }

    /// Adds HTTP calls that took so long together.
    #[must_use]
    pub fn with_http(mut self, calls: u64, took: Duration) -> Self {
        self.http_calls += as_f64(calls);
        self.seconds += took.as_secs_f64();
        self
    }

    /// The same for one of so many.
    #[must_use]
    pub fn of_one(self, among: u32) -> Self {
        self.with(Self::default(), |all, _| all / f64::from(among))
    }

    /// Each number of both, made one.
    fn with(self, other: Self, one: impl Fn(f64, f64) -> f64) -> Self {
        Self {
            http_calls: one(self.http_calls, other.http_calls),
            script_calls: one(self.script_calls, other.script_calls),
            read_calls: one(self.read_calls, other.read_calls),
            write_calls: one(self.write_calls, other.write_calls),
            read_units: one(self.read_units, other.read_units),
            write_units: one(self.write_units, other.write_units),
            messages_sent: one(self.messages_sent, other.messages_sent),
            stream_records: one(self.stream_records, other.stream_records),
            log_bytes: one(self.log_bytes, other.log_bytes),
            seconds: one(self.seconds, other.seconds),
        }
    }

    /// Invocations of functions: one for each HTTP call, and those that batches of records and messages start.
    #[must_use]
    pub fn invocations(&self) -> f64 {
        self.http_calls + (self.stream_records + self.messages_sent) / BATCH
    }

    /// Dollars for a million of these, by what they are paid for.
    #[must_use]
    pub fn price(&self, prices: &Prices) -> Bill {
        let million = 1e6;
        let asynchronous = self.invocations() - self.http_calls;
        // Receiving and deleting are calls as well, ten messages each.
        let sqs = self.messages_sent * (1.0 + 2.0 / BATCH);
        // The relay works about as long for a batch as an order takes.
        let seconds = self.seconds + asynchronous * self.seconds / self.http_calls.max(1.0);
        Bill {
            api: million * self.http_calls * prices.http_call,
            functions: million * (self.invocations() * prices.invocation + seconds * MEMORY_GB * prices.gb_second),
            database: million * (self.write_units * prices.write_unit + self.read_units * prices.read_unit),
            queues: million * sqs * prices.sqs_call,
            logs: million * (self.log_bytes + self.invocations() * PLATFORM_LOG_BYTES) * prices.log_byte,
            traces: million * TRACED * self.invocations() * prices.trace,
        }
    }
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.with(other, f64::add)
    }
}

impl Sub for Tally {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self.with(other, f64::sub)
    }
}

/// Dollars for a million.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bill {
    pub api: f64,
    pub functions: f64,
    pub database: f64,
    pub queues: f64,
    pub logs: f64,
    pub traces: f64,
}

impl Bill {
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.api + self.functions + self.database + self.queues + self.logs + self.traces
    }
}

/// Counts are far below what a float holds exactly.
#[expect(clippy::cast_precision_loss, reason = "counts of a short run")]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_is_the_sum_of_its_parts_at_their_prices() {
        let prices = Prices {
            http_call: 1e-6,
            invocation: 2e-7,
            gb_second: 0.0,
            write_unit: 6e-7,
            read_unit: 1e-7,
            sqs_call: 4e-7,
            log_byte: 0.0,
            trace: 0.0,
            redis_node_hour: 0.0,
            endpoint_hour: 0.0,
        };
        let used = Tally {
            http_calls: 1.0,
            write_units: 8.0,
            read_units: 2.0,
            messages_sent: 1.0,
            stream_records: 4.0,
            ..Tally::default()
        };
        assert!((used.invocations() - 1.5).abs() < 1e-9);
        let bill = used.price(&prices);
        let parts = [(bill.api, 1.0), (bill.functions, 0.3), (bill.database, 5.0), (bill.queues, 0.48)];
        assert!(parts.iter().all(|(is, should)| (is - should).abs() < 1e-9), "{bill:?}");
        assert!((bill.sum() - 6.78).abs() < 1e-9);
        assert_eq!((used + used).of_one(2), used);
    }
}
