//! One script on its stage: the reference and the real database, side by side.

use std::{collections::BTreeMap, sync::Arc};

use model::reference::{
    Bucket, Map, OrderId, Scope, Sku,
    database::{Database, Guard, Item as StockOf, Stored},
};
use proptest::test_runner::TestCaseError;
use tokio::{sync::Barrier, task::JoinSet};

use super::{
    answer::{self, Answer, Call, OPERATOR, ask, expect},
    operation::{Operation, Script},
    server::{Item, Key, Server, number, of, text},
};
use crate::{
    cast::{BUCKETS, Cast, ORDERS, SKU_NAMES, SKUS, Submission},
    run::{permutations, unlike},
};
use aws_sdk_dynamodb::types::AttributeValue;

pub struct Stage<'a> {
    server: &'a Server,
    cast: Arc<Cast>,
    database: Database,
    /// Every item of this script, as it is stored.
    stored: BTreeMap<Key, Item>,
    keys: Vec<Key>,
    /// Set by hand, so that it need not add up.
    corrected: Vec<(Sku, Bucket)>,
}

fn stock_key(cast: &Cast, sku: Sku, bucket: Bucket) -> Key {
    (format!("S#{}#{}#{}", cast.id(), SKU_NAMES[usize::from(sku.0)], bucket.0), "S".to_owned())
}

fn order_key(cast: &Cast, order: OrderId) -> Key {
    (format!("O#{}", cast.number(order)), "O".to_owned())
}

fn guard_key(cast: &Cast, (buyer, scope): (model::reference::Buyer, Scope)) -> Key {
    let scope = cast.scopes[&(scope, buyer)].as_str();
    (format!("B#{}#{}", cast.id(), cast.buyer(buyer).as_str()), format!("G#{scope}"))
}

impl<'a> Stage<'a> {
    /// Plays a script; answers how many items it left.
    pub async fn play(server: &'a Server, script: &Script) -> Result<usize, TestCaseError> {
        let cast = Arc::new(Cast::new(script.scene.scope, 1));
        let mut keys: Vec<Key> = (0..ORDERS).map(|order| order_key(&cast, OrderId(order))).collect();
        keys.extend(cast.scopes.keys().map(|(scope, buyer)| guard_key(&cast, (*buyer, *scope))));
        let everywhere = (0..SKUS).flat_map(|sku| (0..BUCKETS).map(move |bucket| (Sku(sku), Bucket(bucket))));
        keys.extend(everywhere.clone().map(|(sku, bucket)| stock_key(&cast, sku, bucket)));
        let mut stage =
            Self { server, cast, database: Database::default(), stored: BTreeMap::new(), keys, corrected: Vec::new() };
        for ((sku, bucket), units) in everywhere.zip(&script.scene.stock) {
            if let Some(units) = *units {
                let open = Operation::OpenStock { sku: sku.0, bucket: bucket.0, units };
                stage.step(0, &open).await?;
            }
        }
        for (step, operation) in (1..).zip(&script.steps) {
            stage.step(step, operation).await?;
        }
        if !script.group.is_empty() {
            stage.group(&script.group).await?;
        }
        Ok(stage.stored.len())
    }

    async fn step(&mut self, step: u32, operation: &Operation) -> Result<(), TestCaseError> {
        let fail = |what: &str| TestCaseError::fail(format!("  step {step}, {operation:?}:\n{what}"));
        if let Operation::Crowd { of, others } = operation {
            self.crowd(*of, *others).await;
            self.stored = self.server.items(&self.keys).await;
            return same(&self.cast, &self.database, &self.stored).map_err(|what| fail(&what));
        }
        let call = Call::new(operation, &self.database, format!("step-{step}"));
        let before = self.database.clone();
        let expected = expect(&self.cast, &mut self.database, &call);
        let real = ask(&self.cast, &self.server.database, &call).await;
        if real != expected {
            return Err(fail(&unlike(&real, &expected)));
        }
        self.server.met.note(&real);
        let stored = self.server.items(&self.keys).await;
        if before == self.database && stored != self.stored {
            return Err(fail("  something was written although nothing changed"));
        }
        self.marks(&call, &before, &stored).map_err(|what| fail(&what))?;
        self.stored = stored;
        same(&self.cast, &self.database, &self.stored).map_err(|what| fail(&what))?;
        if let (Operation::Correct { sku, bucket, .. }, Answer::Corrected(true)) = (operation, &real) {
            self.corrected.push((Sku(*sku), Bucket(*bucket)));
        }
        self.sums().map_err(|what| fail(&what))
    }

    /// Every stock item that changed tells by what.
    fn marks(&self, call: &Call, before: &Database, stored: &BTreeMap<Key, Item>) -> Result<(), String> {
        let expected = match &call.operation {
            Operation::Commit { of, .. } => {
                ("order".to_owned(), "place-order".to_owned(), self.cast.number(OrderId(of.order)).to_string())
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

    /// What is available and what live orders hold add up, but for what was set by hand. Nothing is
    /// below zero: it could not be read then.
    fn sums(&self) -> Result<(), String> {
        for ((sku, bucket), item) in self.database.stock.iter().filter(|(key, _)| !self.corrected.contains(key)) {
            let live = self.database.live_units(sku, bucket);
            if item.available + live != item.allotted {
                return Err(format!("  {item:?} of {sku:?} in {bucket:?}, and {live} units are live"));
            }
        }
        for ((buyer, scope), guard) in self.database.guards.iter() {
            let live = self.database.live_charges(buyer, scope);
            if live != guard.units {
                return Err(format!("  the guard of {buyer:?} counts {} units, and {live} are live", guard.units));
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
        let call = |(index, operation)| Call::new(operation, &self.database, format!("call-{index}"));
        let calls: Vec<Call> = group.iter().enumerate().map(call).collect();
        let answers = self.ask_all(&calls).await;
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

/// What is stored, read without the product's help but for orders, must be what the reference has.
fn same(cast: &Cast, database: &Database, stored: &BTreeMap<Key, Item>) -> Result<(), String> {
    let real = read(cast, stored)?;
    let told = |database: &Database| {
        format!("    stock  {:?}\n    guards {:?}\n    orders {:?}", database.stock, database.guards, database.orders)
    };
    if real == *database {
        return Ok(());
    }
    Err(format!("  real:\n{}\n  reference:\n{}", told(&real), told(database)))
}

fn parsed<T: std::str::FromStr>(item: &Item, name: &str) -> Result<T, String> {
    of(item, name).parse().map_err(|_| format!("{name} in {item:?}"))
}

fn read(cast: &Cast, stored: &BTreeMap<Key, Item>) -> Result<Database, String> {
    let mut database = Database::default();
    for (sku, bucket) in (0..SKUS).flat_map(|sku| (0..BUCKETS).map(move |bucket| (Sku(sku), Bucket(bucket)))) {
        if let Some(item) = stored.get(&stock_key(cast, sku, bucket)) {
            let item = StockOf {
                allotted: parsed(item, "allotted")?,
                available: parsed(item, "available")?,
                version: parsed(item, "version")?,
                on_sale: parsed(item, "on_sale")?,
            };
            database.stock.insert((sku, bucket), item);
        }
    }
    for (scope, buyer) in cast.scopes.keys() {
        let Some(item) = stored.get(&guard_key(cast, (*buyer, *scope))) else { continue };
        let Some(AttributeValue::L(entries)) = item.get("orders") else { return Err(format!("a guard {item:?}")) };
        let mut orders = Map::default();
        for entry in entries {
            let AttributeValue::M(entry) = entry else { return Err(format!("a guard {item:?}")) };
            let order = cast.order(&of(entry, "order_no")).ok_or_else(|| format!("a guard {item:?}"))?;
            if orders.get(order).is_some() {
                return Err(format!("a guard lists an order twice: {item:?}"));
            }
            orders.insert(order, parsed(entry, "units")?);
        }
        database.guards.insert((*buyer, *scope), Guard { units: parsed(item, "units")?, orders });
    }
    for order in (0..ORDERS).map(OrderId) {
        if let Some(item) = stored.get(&order_key(cast, order)) {
            database.orders.insert(order, read_order(cast, order, item)?);
        }
    }
    Ok(database)
}

/// An order as the relay reads it; and what the index needs, which nothing else reads.
fn read_order(cast: &Cast, order: OrderId, item: &Item) -> Result<Stored, String> {
    let real = super::server::read_order(item)?;
    let (number, stored) = answer::stored(cast, &real)?;
    let placement = match &real {
        holdfast::domain::order::Stored::Order(real) => &real.placement,
        holdfast::domain::order::Stored::Aborted(_) => {
            let ends = format!("{}", cast.created.plus_ms(30 * 86_400_000).get() / 1_000);
            let right = number == order && of(item, "home").is_empty() && of(item, "expires_at") == ends;
            return if right { Ok(stored) } else { Err(format!("a tombstone {item:?}")) };
        }
    };
    let home = format!("{}#{}", cast.id(), placement.home);
    let due = format!("{:.3}#{}", placement.pay_before, placement.order_no);
    let right =
        number == order && of(item, "home") == home && of(item, "due") == due && of(item, "expires_at").is_empty();
    if right { Ok(stored) } else { Err(format!("an order {item:?}")) }
}
