//! One conditional write of one item, alone or as an action of a transaction.

use std::collections::HashMap;

use aws_sdk_dynamodb::{
    error::BuildError,
    types::{AttributeValue, Put, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update},
};

use super::{
    codec::{Item, text},
    keys::{self, Key},
};
use crate::{
    domain::order::{Event, Status, StockEffect, Transition, next, sources},
    telemetry,
};

/// What is done to the item.
#[derive(Clone, Debug)]
pub enum Target {
    Put(Item),
    Update { key: Key, expression: String },
    Delete(Key),
}

/// A write and the condition under which it happens.
///
/// In its expressions every attribute is written as `#name`, because the service reserves hundreds of
/// words, and every value as `:name`.
#[derive(Clone, Debug)]
pub struct Change {
    pub target: Target,
    pub condition: Option<String>,
    values: Item,
}

impl Change {
    pub fn put(item: Item) -> Self {
        Self::new(Target::Put(item))
    }

    pub fn update(key: Key, expression: &str) -> Self {
        Self::new(Target::Update { key, expression: expression.to_owned() })
    }

    pub fn delete(key: Key) -> Self {
        Self::new(Target::Delete(key))
    }

    fn new(target: Target) -> Self {
        Self { target, condition: None, values: Item::new() }
    }

    pub fn only_if(mut self, condition: impl Into<String>) -> Self {
        self.condition = Some(condition.into());
        self
    }

    /// And this has to hold as well.
    pub fn and_if(self, condition: &str) -> Self {
        let both = match &self.condition {
            Some(before) => format!("({before}) AND {condition}"),
            None => condition.to_owned(),
        };
        self.only_if(both)
    }

    /// Only if the order stands where the event may move it from.
    pub fn only_before(self, event: Event) -> Self {
        self.only_from(&sources(event))
    }

    /// Only if the order stands where the event may move it from with this effect on its stock.
    pub fn only_before_with(self, event: Event, effect: StockEffect) -> Self {
        let with = |from: &Option<Status>| matches!(next(*from, event), Transition::To(_, does) if does == effect);
        self.only_from(&sources(event).into_iter().filter(with).collect::<Vec<_>>())
    }

    fn only_from(self, statuses: &[Option<Status>]) -> Self {
        let mut change = self;
        let mut allowed = Vec::new();
        for from in statuses {
            match from {
                None => allowed.push(format!("attribute_not_exists(#{})", keys::PK)),
                Some(status) => {
                    let name = format!("from_{}", status.as_str());
                    allowed.push(format!("#{} = :{name}", keys::STATUS));
                    change = change.value(&name, text(status.as_str()));
                }
            }
        }
        change.only_if(allowed.join(" OR "))
    }

    pub fn value(mut self, name: &str, value: AttributeValue) -> Self {
        self.values.insert(format!(":{name}"), value);
        self
    }

    /// Leaves the trace that the write belongs to, for whoever follows the stream. Where there is none, that of an
    /// earlier write goes.
    pub fn traced(mut self) -> Self {
        match (&mut self.target, telemetry::trace()) {
            (Target::Put(item), Some(trace)) => {
                item.insert(keys::TRACE.to_owned(), text(trace.id()));
            }
            (Target::Update { expression, .. }, Some(trace)) => {
                *expression = expression.replacen("SET ", "SET #trace = :trace, ", 1);
                self = self.value(keys::TRACE, text(trace.id()));
            }
            (Target::Update { expression, .. }, None) => {
                let clause = if expression.contains(" REMOVE ") { ", #trace" } else { " REMOVE #trace" };
                expression.push_str(clause);
            }
            (Target::Put(_) | Target::Delete(_), _) => {}
        }
        self
    }

    /// The values of its expressions, if it has any: the service refuses an empty map.
    pub fn values(&self) -> Option<Item> {
        Some(self.values.clone()).filter(|values| !values.is_empty())
    }

    /// What each `#name` of its expressions stands for, if it has any.
    pub fn names(&self) -> Option<HashMap<String, String>> {
        let update = match &self.target {
            Target::Update { expression, .. } => expression,
            Target::Put(_) | Target::Delete(_) => "",
        };
        let condition = self.condition.as_deref().unwrap_or_default();
        let names: HashMap<_, _> = [update, condition]
            .into_iter()
            .flat_map(|expression| expression.split('#').skip(1))
            .map(|rest| rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).next().unwrap_or_default())
            .map(|name| (format!("#{name}"), name.to_owned()))
            .collect();
        Some(names).filter(|names| !names.is_empty())
    }

    /// The write as an action of a transaction; when its condition fails, the stored item is told.
    ///
    /// # Errors
    /// When it is neither a put nor an update: nothing here deletes in a transaction.
    pub fn into_action(self, table: &str) -> Result<TransactWriteItem, BuildError> {
        let (names, values) = (self.names(), self.values());
        let told = ReturnValuesOnConditionCheckFailure::AllOld;
        let action = TransactWriteItem::builder();
        Ok(match self.target {
            Target::Put(item) => action.put(
                Put::builder()
                    .table_name(table)
                    .set_item(Some(item))
                    .set_condition_expression(self.condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .return_values_on_condition_check_failure(told)
                    .build()?,
            ),
            Target::Update { key, expression } => action.update(
                Update::builder()
                    .table_name(table)
                    .set_key(Some(key.into_item()))
                    .update_expression(expression)
                    .set_condition_expression(self.condition)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .return_values_on_condition_check_failure(told)
                    .build()?,
            ),
            Target::Delete(_) => return Err(BuildError::other("a transaction does not delete")),
        }
        .build())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_both_expressions() {
        let key = Key::progress("job");
        let change = Change::update(key.clone(), "SET #a = #b_c - :x ADD #a :y").only_if("#d>:z AND size(#e)<:w");
        let names = change.names().unwrap();
        let mut found: Vec<&str> = names.values().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, ["a", "b_c", "d", "e"]);
        assert!(names.iter().all(|(placeholder, name)| placeholder[1..] == **name));
        assert_eq!(Change::delete(key).names(), None);
    }

    #[tokio::test]
    async fn a_write_leaves_its_trace_or_takes_an_earlier_ones_away() {
        let update = |set| Change::update(Key::progress("job"), set).traced();
        let expression = |change: &Change| match &change.target {
            Target::Update { expression, .. } => expression.clone(),
            _ => unreachable!(),
        };
        let rows = [("SET #a = :a", " REMOVE #trace"), ("SET #a = :a REMOVE #b", ", #trace")];
        for (set, clause) in rows {
            assert_eq!(expression(&update(set)), format!("{set}{clause}"));
        }
        let id = "1-6789abcd-0123456789abcdef01234567";
        telemetry::scoped(None, telemetry::Trace::of_id(id), async {
            for (set, _) in rows {
                let change = update(set);
                assert_eq!(expression(&change), set.replace("SET ", "SET #trace = :trace, "));
                assert_eq!(change.values().unwrap()[":trace"], text(id));
            }
            let Target::Put(item) = Change::put(Item::new()).traced().target else { unreachable!() };
            assert_eq!(item["trace"], text(id));
        })
        .await;
        assert!(matches!(Change::put(Item::new()).traced().target, Target::Put(item) if item.is_empty()));
    }

    #[test]
    fn conditions_on_orders_are_those_of_the_transition_table() {
        let condition = |event| Change::put(Item::new()).only_before(event);
        assert_eq!(condition(Event::Place).condition.unwrap(), "attribute_not_exists(#pk)");
        assert_eq!(condition(Event::Abort).condition.unwrap(), "attribute_not_exists(#pk)");
        assert_eq!(condition(Event::Abort).values(), None);
        let pay = condition(Event::Pay);
        assert_eq!(pay.values().unwrap()[":from_CLOSED"], text("CLOSED"));
        assert_eq!(pay.condition.unwrap(), "#status = :from_PENDING_PAYMENT OR #status = :from_CLOSED");
    }
}
