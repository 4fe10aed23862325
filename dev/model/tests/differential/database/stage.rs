//! One script on its stage: the reference and the real database, side by side.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use model::reference::{Bucket, Moment, OrderId, Sku, database::Database};
use proptest::test_runner::TestCaseError;
use tokio::{sync::Barrier, task::JoinSet};

use super::{
    answer::{Answer, Call, OPERATOR, ask, expect},
    life::{
        Life,
        answer::{circumstances, mark},
    },
    operation::{Operation, Script},
    past::Past,
    read::{everywhere, further_keys, guard_key, keys, same, stock_key},
    server::{Item, Key, Server, number, of, text},
};
use crate::{
    cast::{Cast, Submission},
    run::{permutations, unlike},
};
use aws_sdk_dynamodb::types::AttributeValue;

/// The moment of a script's first step, then this many milliseconds from step to step: all of them long before
/// the first deadline.
const STEP_MS: u32 = 10;

pub struct Stage<'a> {
    server: &'a Server,
    cast: Arc<Cast>,
    database: Database,
    past: Past,
    /// Every item of this script, as it is stored.
    stored: BTreeMap<Key, Item>,
    /// Of what is looked at after each step; of refunds and moves, those that a step was about.
    keys: BTreeSet<Key>,
    /// Set by hand, so that it need not add up.
    corrected: Vec<(Sku, Bucket)>,
}

impl<'a> Stage<'a> {
    /// Plays a script; answers how many items it left.
    pub async fn play(server: &'a Server, script: &Script) -> Result<usize, TestCaseError> {
        let cast = Arc::new(Cast::new(script.scene.scope, 1));
        let mut stage = Self {
            server,
            database: Database::default(),
            past: Past::new(&cast, script.scene.policy),
            stored: BTreeMap::new(),
            keys: keys(&cast),
            corrected: Vec::new(),
            cast,
        };
        for ((sku, bucket), units) in everywhere().zip(&script.scene.stock) {
            if let Some(units) = *units {
                let open = Operation::OpenStock { sku: sku.0, bucket: bucket.0, units };
                stage.step(0, &open).await?;
            }
        }
        for (step, operation) in (1..).zip(&script.steps) {
            if !stage.moves_what_was_set(operation) {
                stage.step(step, operation).await?;
            }
        }
        if !script.group.is_empty() {
            let set = script.group.iter().filter_map(Operation::corrects);
            stage.corrected.extend(set);
            let group: Vec<_> = script.group.iter().filter(|it| !stage.moves_what_was_set(it)).cloned().collect();
            stage.group(&group).await?;
        }
        Ok(stage.stored.len())
    }

    /// Whether it moves units of an item that was set by hand, which may have more available than allotted.
    /// Then a move can take `allotted` below zero, and the item cannot be read any more.
    fn moves_what_was_set(&self, operation: &Operation) -> bool {
        let Operation::Life(Life::Move { sku, parts, .. }) = operation else { return false };
        parts.iter().any(|(bucket, _)| self.corrected.contains(&(Sku(*sku), Bucket(*bucket))))
    }

    async fn step(&mut self, step: u32, operation: &Operation) -> Result<(), TestCaseError> {
        let fail = |what: &str| TestCaseError::fail(format!("  step {step}, {operation:?}:\n{what}"));
        if let Operation::Crowd { of, others } = operation {
            self.crowd(*of, *others).await;
            self.stored = self.server.items(&self.keys).await;
            return same(&self.cast, &self.database, &self.stored).map_err(|what| fail(&what));
        }
        let named = (format!("step-{step}"), Moment(STEP_MS * (step + 1)));
        let call = Call::new(operation, &self.database, &self.past, named);
        let before = self.database.clone();
        let expected = expect(&self.cast, &mut self.database, &call);
        let real = ask(&self.cast, &self.server.database, &call).await;
        if real != expected {
            return Err(fail(&unlike(&real, &expected)));
        }
        self.server.met.note(&real);
        if let Operation::Life(life) = operation {
            for name in circumstances(life, &call, &real) {
                self.server.met.add(name);
            }
        }
        self.past.note(&self.database);
        self.keys.extend(further_keys(&self.cast, Some(operation)));
        let stored = self.server.items(&self.keys).await;
        if before == self.database && stored != self.stored {
            return Err(fail("  something was written although nothing changed"));
        }
        self.marks(&call, &before, &stored).map_err(|what| fail(&what))?;
        self.stored = stored;
        same(&self.cast, &self.database, &self.stored).map_err(|what| fail(&what))?;
        if real == Answer::Corrected(true) {
            self.corrected.extend(operation.corrects());
        }
        self.sums().map_err(|what| fail(&what))
    }

    /// Every stock item that changed tells by what.
    fn marks(&self, call: &Call, before: &Database, stored: &BTreeMap<Key, Item>) -> Result<(), String> {
        let expected = match &call.operation {
            Operation::Commit { of, .. } => {
                ("order".to_owned(), "place-order".to_owned(), self.cast.number(OrderId(of.order)).to_string())
            }
            Operation::Life(life) => {
                let (operation, operator, reference) = mark(&self.cast, life, &call.reference);
                (operation.as_str().to_owned(), operator, reference)
            }
            _ => ("manual".to_owned(), OPERATOR.to_owned(), call.reference.clone()),
        };
        for (key @ (sku, bucket), item) in self.database.stock.iter() {
            if before.stock.get(key) == Some(item) {
                continue;
            }
            let item = &stored[&stock_key(&self.cast, sku, bucket)];
            let told = (of(item, "op"), of(item, "operator"), of(item, "ref"));
            if told != expected {
                return Err(format!("  the change of {key:?} is marked {told:?} instead of {expected:?}"));
            }
        }
        Ok(())
    }

    /// What is available and what live orders hold add up, but for what was set by hand; and guards count live
    /// orders and those whose quota is kept. Nothing is below zero: it could not be read then.
    fn sums(&self) -> Result<(), String> {
        for ((sku, bucket), item) in self.database.stock.iter().filter(|(key, _)| !self.corrected.contains(key)) {
            let live = self.database.live_units(sku, bucket);
            if item.available + live != item.allotted {
                return Err(format!("  {item:?} of {sku:?} in {bucket:?}, and {live} units are live"));
            }
        }
        for ((buyer, scope), guard) in self.database.guards.iter() {
            let charged = self.database.charged(buyer, scope, self.past.policy);
            if charged != guard.units {
                return Err(format!("  the guard of {buyer:?} counts {} instead of {charged} units", guard.units));
            }
        }
        Ok(())
    }

    async fn crowd(&mut self, of: Submission, others: u8) {
        let placement = &self.cast.both(of).reference;
        let key = (placement.buyer, placement.charges[0].0);
        let mut guard = self.database.guards.get(key).cloned().unwrap_or_default();
        for index in 0..others {
            guard.orders.insert(Cast::filler(placement.buyer, index), 0);
        }
        let entry = |(order, units): (OrderId, &u16)| {
            let number_of = text(self.cast.number(order).as_str());
            AttributeValue::M(Item::from([("order_no".to_owned(), number_of), ("units".to_owned(), number(*units))]))
        };
        let (pk, sk) = guard_key(&self.cast, key);
        let item = Item::from([
            ("pk".to_owned(), text(&pk)),
            ("sk".to_owned(), text(&sk)),
            ("format".to_owned(), number(1)),
            ("units".to_owned(), number(guard.units)),
            ("orders".to_owned(), AttributeValue::L(guard.orders.iter().map(entry).collect())),
        ]);
        self.database.guards.insert(key, guard);
        self.server.put(item).await;
    }

    /// Calls at once, each from a process of its own: answers and state must be those of some order.
    async fn group(&mut self, group: &[Operation]) -> Result<(), TestCaseError> {
        let call = |(index, operation)| {
            Call::new(operation, &self.database, &self.past, (format!("call-{index}"), Moment(index)))
        };
        let calls: Vec<Call> = (0..).zip(group).map(call).collect();
        let answers = self.ask_all(&calls).await;
        self.keys.extend(further_keys(&self.cast, None));
        let stored = self.server.items(&self.keys).await;
        let mut tried = Vec::new();
        for order in permutations(calls.len()) {
            let mut database = self.database.clone();
            // Who found too many others in the way has not done anything.
            let in_turn = order.into_iter().filter(|at| answers[*at] != Answer::Busy);
            let expected: Vec<_> = in_turn.map(|at| (at, expect(&self.cast, &mut database, &calls[at]))).collect();
            if let Some((at, answer)) = expected.iter().find(|(at, answer)| answers[*at] != *answer) {
                tried.push(format!("  in one order, call {at} answers {answer:?}"));
            } else if let Err(differs) = same(&self.cast, &database, &stored) {
                tried.push(format!("  in one order: {differs}"));
            } else {
                self.stored = stored;
                return Ok(());
            }
        }
        let told: Vec<String> =
            answers.iter().enumerate().map(|(at, answer)| format!("  {at}: {answer:?}\n")).collect();
        Err(TestCaseError::fail(format!(
            "no order of the calls gives what they gave:\n{}{}",
            told.concat(),
            tried.join("\n")
        )))
    }

    async fn ask_all(&self, calls: &[Call]) -> Vec<Answer> {
        let ready = Arc::new(Barrier::new(calls.len()));
        let mut running = JoinSet::new();
        for (index, call) in calls.iter().cloned().enumerate() {
            let (database, cast, ready) = (self.server.others[index].clone(), self.cast.clone(), ready.clone());
            running.spawn(async move {
                // Its connection is made before all of them start.
                let warm = Operation::Order { order: 0 };
                let _ = ask(&cast, &database, &Call { operation: warm, ..call.clone() }).await;
                ready.wait().await;
                (index, ask(&cast, &database, &call).await)
            });
        }
        let mut answers = running.join_all().await;
        answers.sort_by_key(|(index, _)| *index);
        answers.into_iter().map(|(_, answer)| answer).collect()
    }
}
