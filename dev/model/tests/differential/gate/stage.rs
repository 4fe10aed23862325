//! One script on its stage: the reference and the real buckets, side by side.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use holdfast::adapters::redis::keys::BucketKeys;
use model::reference::{Bucket, Moment, OrderId, Sku, gate::Gate};
use proptest::test_runner::TestCaseError;
use redis::cmd;

use super::{
    answer::{Answer, Moments, expect},
    ask::ask,
    bad_data::{self, Situation, Verdict},
    check, ledger,
    operation::{Fault, Operation, Scene, Script, Spoil, allotment, crowded},
    random::default_cart,
    server::{Dump, Server, Snapshot},
};
use crate::{
    cast::{Cast, RATE_THAT_MATTERS, Submission, real_bucket, real_sku},
    run::unlike,
};

/// An admission later than this in its second might fall into the next one, in microseconds.
const SECOND_NEARLY_OVER_US: u32 = 950_000;

pub struct Stage<'a> {
    pub server: &'a Server,
    pub cast: Arc<Cast>,
    pub gates: Vec<Gate>,
    /// What the real buckets have, since the last step.
    pub stored: Vec<Snapshot>,
    replicas: Vec<Replica>,
    /// When a record that the reference wrote at a moment was written, in milliseconds since 1970.
    times: BTreeMap<(Bucket, OrderId, Moment), i64>,
    /// SKUs whose counters are off by a hand's work.
    drifted: Vec<Vec<Sku>>,
    versions: [u16; 2],
    pub step: u32,
    second: String,
}

/// What a bucket's replica has, for both sides.
struct Replica {
    gate: Gate,
    dumps: Vec<Dump>,
    drifted: Vec<Sku>,
}

fn failed(number: u32, operation: &dyn std::fmt::Debug, what: &str) -> TestCaseError {
    TestCaseError::fail(format!("  step {number}, {operation:?}:\n{what}"))
}

/// Names the whole step.
fn in_full(error: TestCaseError, operation: &Operation) -> TestCaseError {
    match error {
        TestCaseError::Fail(reason) => TestCaseError::fail(format!("  {operation:?}\n{}", reason.message())),
        TestCaseError::Reject(reason) => TestCaseError::Reject(reason),
    }
}

impl<'a> Stage<'a> {
    pub async fn open(server: &'a Server, scene: &Scene) -> Result<Self, TestCaseError> {
        let cast = Arc::new(Cast::new(scene.scope, scene.limit));
        let gates: Vec<Gate> = check::buckets().map(Gate::empty).collect();
        let mut stage = Self {
            server,
            cast,
            gates,
            stored: Vec::new(),
            replicas: Vec::new(),
            times: BTreeMap::new(),
            drifted: vec![Vec::new(), Vec::new()],
            versions: [scene.configuration; 2],
            step: 0,
            second: String::new(),
        };
        stage.stored = stage.snapshots().await;
        if let Some(stock) = &scene.stock {
            for bucket in check::buckets() {
                let allotments = (0..).zip(stock).map(|(sku, units)| allotment(sku, *units, 1, true)).collect();
                let preheat = Operation::Preheat { at: bucket.0, version: scene.configuration, allotments };
                stage.call(&preheat).await?;
            }
        }
        for bucket in check::buckets() {
            let replica = stage.replica(bucket).await;
            stage.replicas.push(replica);
        }
        Ok(stage)
    }

    /// Runs the steps; the reference and the real buckets agree after each.
    pub async fn play(&mut self, script: &Script) -> Result<(), TestCaseError> {
        for operation in &script.steps {
            self.step += 1;
            match operation {
                Operation::Fault(fault) => self.suffer(fault).await?,
                Operation::Spoiled { what, then } => self.spoiled(*what, then, operation).await?,
                operation => self.call(operation).await?,
            }
        }
        Ok(())
    }

    pub fn keys(&self, bucket: Bucket) -> BucketKeys {
        BucketKeys::new(self.cast.id(), real_bucket(bucket))
    }

    pub fn moments(&self) -> Moments {
        Moments { now: Moment(self.step), versions: self.versions }
    }

    async fn snapshots(&mut self) -> Vec<Snapshot> {
        let mut snapshots = Vec::new();
        for bucket in check::buckets() {
            let (second, snapshot) = self.server.snapshot(&self.keys(bucket)).await;
            self.second = second;
            snapshots.push(snapshot);
        }
        snapshots
    }

    /// Looks at what is stored; answers the second in which that was.
    pub async fn reread(&mut self) -> String {
        self.stored = self.snapshots().await;
        self.second.clone()
    }

    /// Lets a few admissions be those of the current second, which is far from over. Answers the
    /// second where it matters.
    pub async fn begin_second(&mut self, operation: &Operation) -> Option<String> {
        let admits = matches!(operation, Operation::Place { .. } | Operation::Deduct { .. } | Operation::Look { .. });
        loop {
            let mut seconds = Vec::new();
            for bucket in check::buckets().filter(|_| admits) {
                let gate = &self.gates[usize::from(bucket.0)];
                if gate.control.is_none_or(|control| control.rate > RATE_THAT_MATTERS) {
                    continue;
                }
                let keys = self.keys(bucket);
                let (mut now, mut passed_us) = self.server.set_admitted(&keys, gate.admitted).await;
                if passed_us > SECOND_NEARLY_OVER_US {
                    tokio::time::sleep(Duration::from_micros(u64::from(1_000_000 - passed_us) + 500)).await;
                    (now, passed_us) = self.server.set_admitted(&keys, gate.admitted).await;
                }
                assert!(passed_us <= 1_000_000);
                let (_, snapshot) = self.server.snapshot(&keys).await;
                self.stored[usize::from(bucket.0)] = snapshot;
                seconds.push(now);
            }
            // A second that ended in between left the first bucket in the one before.
            if seconds.iter().all(|second| seconds.first() == Some(second)) {
                return seconds.pop();
            }
        }
    }

    async fn call(&mut self, operation: &Operation) -> Result<(), TestCaseError> {
        let second = self.begin_second(operation).await;
        let at = self.moments();
        let before = self.gates.clone();
        let expected = expect(&self.cast, &mut self.gates, operation, at);
        let real = ask(&self.cast, &self.server.gate, operation, at, Some(&self.stored)).await;
        self.settle(operation, (&real, &expected), before, second).await
    }

    async fn spoiled(&mut self, what: Spoil, then: &Operation, told: &Operation) -> Result<(), TestCaseError> {
        let second = self.begin_second(then).await;
        let (at, here) = (self.moments(), usize::from(then.bucket().0));
        let before = self.gates.clone();
        let keys = self.keys(then.bucket());
        let planted =
            bad_data::plant(self.server, &self.cast, &keys, &self.stored[here], &before[here], (what, then)).await;
        let mut expected = expect(&self.cast, &mut self.gates, then, at);
        if let Some(planted) = &planted {
            let entry = ledger::entry(&self.cast, then, &expected, &before[here], &self.gates[here]);
            let situation =
                Situation { cast: &self.cast, before: &before[here], answer: &expected, noted: entry.is_some(), at };
            match situation.verdict(then, &planted.target) {
                Verdict::BadData => {
                    expected = Answer::BadData;
                    self.gates.clone_from(&before);
                }
                Verdict::Instead(answer) => expected = answer,
                Verdict::Undisturbed => {}
            }
        }
        let real = ask(&self.cast, &self.server.gate, then, at, Some(&self.stored)).await;
        if let Some(planted) = planted {
            planted.put_back(self.server).await;
        }
        self.settle(then, (&real, &expected), before, second).await.map_err(|error| in_full(error, told))
    }

    /// Answers, ledger, and everything that is stored.
    async fn settle(
        &mut self,
        operation: &Operation,
        (real, expected): (&Answer, &Answer),
        before: Vec<Gate>,
        second: Option<String>,
    ) -> Result<(), TestCaseError> {
        let stored = std::mem::take(&mut self.stored);
        self.stored = self.snapshots().await;
        if second.is_some_and(|second| second != self.second) {
            return Err(TestCaseError::reject("a second of Redis's clock ended meanwhile"));
        }
        if real != expected {
            return Err(failed(self.step, operation, &unlike(real, expected)));
        }
        self.server.met.note(real);
        for (index, (was, before)) in stored.iter().zip(&before).enumerate() {
            let (is, after) = (&self.stored[index], &self.gates[index]);
            let touched = operation.bucket().0 == u8::try_from(index).unwrap();
            let entry = ledger::entry(&self.cast, operation, expected, before, after).filter(|_| touched);
            if before == after && entry.is_none() && was != is {
                let what =
                    format!("  something was written although nothing changed\n  before: {was:?}\n  after:  {is:?}");
                return Err(failed(self.step, operation, &what));
            }
            let new: Vec<_> =
                is.ledger.entries.iter().filter(|(id, _)| !was.ledger.entries.contains_key(*id)).collect();
            if new.iter().map(|(_, text)| *text).ne(&entry) {
                let what = format!("  ledger\n    real:      {new:?}\n    reference: {entry:?}");
                return Err(failed(self.step, operation, &what));
            }
        }
        if matches!(operation, Operation::Sum { repair: true, .. } if matches!(expected, Answer::Sums(_)))
            || matches!(expected, Answer::Preheated(model::reference::gate::Preheated::Loaded))
        {
            self.drifted[usize::from(operation.bucket().0)].clear();
        }
        self.compare(operation)
    }

    /// What is stored, against the reference and against the rules that always hold.
    pub fn compare(&mut self, operation: &dyn std::fmt::Debug) -> Result<(), TestCaseError> {
        for bucket in check::buckets() {
            let index = usize::from(bucket.0);
            let (gate, snapshot) = (&self.gates[index], &self.stored[index]);
            let fail = |what: String| failed(self.step, operation, &what);
            let stored = check::read(&self.cast, bucket, snapshot).map_err(fail)?;
            check::same(gate, &stored.gate).map_err(fail)?;
            check::sums(&stored.gate, &self.drifted[index]).map_err(fail)?;
            check::lives(snapshot).map_err(fail)?;
            for (order, at_ms) in stored.times {
                let at = gate.records.get(order).map_or(Moment(0), |record| record.at);
                let known = *self.times.entry((bucket, order, at)).or_insert(at_ms);
                if known != at_ms {
                    return Err(fail(format!("  #{}'s record of {known} is of {at_ms} now", order.0)));
                }
            }
            if let Some(control) = gate.control {
                self.versions[index] = control.version;
            }
        }
        Ok(())
    }

    async fn replica(&self, bucket: Bucket) -> Replica {
        let mut dumps = Vec::new();
        for key in self.keys(bucket).all() {
            dumps.push(self.server.dump(&key).await);
        }
        let index = usize::from(bucket.0);
        Replica { gate: self.gates[index].clone(), dumps, drifted: self.drifted[index].clone() }
    }

    async fn suffer(&mut self, fault: &Fault) -> Result<(), TestCaseError> {
        let bucket = fault.bucket();
        let (index, keys) = (usize::from(bucket.0), self.keys(bucket));
        match fault {
            Fault::NextSecond => {
                for bucket in check::buckets() {
                    self.gates[usize::from(bucket.0)].next_second();
                    // Admissions of a second long ago.
                    if self.stored[usize::from(bucket.0)].bucket.entries.contains_key("@admitted") {
                        self.server.hset(&self.keys(bucket).bucket, "@admitted", "7|9").await;
                    }
                }
            }
            Fault::LoseStock { .. } => {
                // As it goes: its end comes.
                self.server.raw::<()>(cmd("PEXPIREAT").arg(&keys.bucket).arg(1)).await;
                self.gates[index].lose_stock();
            }
            Fault::LoseOrders { .. } => {
                self.server.del(&keys.orders).await;
                self.gates[index].lose_orders();
            }
            Fault::LoseLedger { .. } => self.server.del(&keys.ledger).await,
            Fault::LoseAll => self.flush().await,
            Fault::ForgetScripts => self.server.raw::<()>(cmd("SCRIPT").arg("FLUSH")).await,
            Fault::ReplicaStops { .. } => self.replicas[index] = self.replica(bucket).await,
            Fault::FailOver { .. } => {
                let replica = &self.replicas[index];
                for (key, dump) in keys.all().iter().zip(&replica.dumps) {
                    self.server.put_back(key, dump).await;
                }
                self.gates[index] = replica.gate.clone();
                self.drifted[index].clone_from(&replica.drifted);
            }
            Fault::Drift { sku, by, sold, .. } => self.drift(bucket, Sku(*sku), *by, *sold).await,
            Fault::Crowd { order, others } => self.crowd(*order, *others).await,
        }
        self.stored = self.snapshots().await;
        self.compare(fault)
    }

    async fn flush(&mut self) {
        if !self.server.is_cluster() {
            self.server.raw::<()>(&cmd("FLUSHALL")).await;
        }
        for bucket in check::buckets() {
            for key in self.keys(bucket).all() {
                self.server.del(&key).await;
            }
            self.gates[usize::from(bucket.0)].flush();
        }
    }

    async fn drift(&mut self, bucket: Bucket, sku: Sku, by: i32, sold: bool) {
        let index = usize::from(bucket.0);
        let Some(counters) = self.gates[index].skus.get_mut(sku) else { return };
        let counter = if sold { &mut counters.sold } else { &mut counters.free };
        *counter += by;
        let (free, sold) = (counters.free, counters.sold);
        let name = real_sku(sku);
        let text = &self.stored[index].bucket.entries[name.as_str()];
        let rest = text.splitn(3, '|').nth(2).unwrap_or_default();
        self.server.hset(&self.keys(bucket).bucket, name.as_str(), &format!("{free}|{sold}|{rest}")).await;
        self.drifted[index].push(sku);
    }

    async fn crowd(&mut self, order: u8, others: u8) {
        let buyer = crowded(order);
        let placement = &self.cast.both(Submission::new(order, default_cart(order))).reference;
        let (scope, home) = (placement.charges[0].0, placement.home);
        let gate = &mut self.gates[usize::from(home.0)];
        if !gate.sentinel {
            return;
        }
        let mut mark = gate.marks.get((scope, buyer)).cloned().unwrap_or_default();
        for index in 0..others {
            mark.insert(Cast::filler(buyer, index), 0);
        }
        let entries = mark.iter().map(|(order, units)| format!("{}={units}", self.cast.number(order)));
        let text = entries.collect::<Vec<_>>().join(";");
        gate.marks.insert((scope, buyer), mark);
        self.server.hset(&self.keys(home).orders, &self.cast.mark_field(scope, buyer), &text).await;
    }

    /// Takes the script's keys away.
    pub async fn close(self) {
        for bucket in check::buckets() {
            for key in self.keys(bucket).all() {
                self.server.del(&key).await;
            }
        }
    }
}
