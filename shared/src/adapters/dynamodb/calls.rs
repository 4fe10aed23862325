//! How the tables are called: conditional writes of one item, consistent reads in batches, pages.

use std::{collections::BTreeSet, error::Error};

use aws_sdk_dynamodb::{
    error::{BoxError, ProvideErrorMetadata, SdkError},
    operation::{delete_item::DeleteItemError, put_item::PutItemError, update_item::UpdateItemError},
    types::{AttributeValue, KeysAndAttributes, ReturnValue, ReturnValuesOnConditionCheckFailure},
};

use super::{
    Database,
    change::{Change, Target},
    codec::{BadItem, Item},
    keys::Key,
    retry::{STEADY, may_pass},
};
use crate::{adapters::aws::Witness, ports::Fault};

/// Most keys of one `BatchGetItem`, by the service.
const BATCH_MAX: usize = 100;

/// What a conditional write answers.
pub enum Written {
    /// Done; what an update left there.
    Done(Option<Item>),
    /// The condition did not hold; what is stored there, if anything.
    Refused(Option<Item>),
}

/// A write that failed.
struct Failure {
    /// Nothing was applied, and trying again may help.
    may_pass: bool,
    cause: BoxError,
}

/// Errors that may say that a write's condition did not hold.
trait Conditional: ProvideErrorMetadata + Error + Send + Sync + 'static {
    fn refused(&self) -> Option<Written>;
}

macro_rules! conditional {
    ($($error:ident),*) => {$(
        impl Conditional for $error {
            fn refused(&self) -> Option<Written> {
                match self {
                    Self::ConditionalCheckFailedException(refused) => Some(Written::Refused(refused.item.clone())),
                    _ => None,
                }
            }
        }
    )*};
}
conditional!(DeleteItemError, PutItemError, UpdateItemError);

fn refused_or_failed<E: Conditional>(error: SdkError<E>) -> Result<Written, Failure> {
    let refused = error.as_service_error().and_then(Conditional::refused);
    refused.ok_or_else(|| Failure { may_pass: error.code().is_some_and(may_pass), cause: error.into() })
}

/// A read that failed had no effect.
pub fn failed_read<E>(operation: &'static str) -> impl Fn(SdkError<E>) -> Fault
where
    E: Error + Send + Sync + 'static,
{
    move |error| Fault::not_applied(operation, error)
}

/// An item that cannot be read or written; nothing was applied.
pub fn bad_item(operation: &'static str) -> impl Fn(BadItem) -> Fault {
    move |cause| Fault::not_applied(operation, cause)
}

/// A page of a partition.
pub struct Page<'a> {
    /// Reads the index instead of the table.
    pub index: Option<&'a str>,
    /// Name and value of the partition key.
    pub partition: (&'static str, String),
    /// The last item's key of the page before.
    pub after: Option<Item>,
    pub limit: i32,
    /// From the end of the partition on.
    pub newest_first: bool,
    /// Only these: the sort key's name, the first and the last value, both included.
    pub between: Option<(&'static str, String, String)>,
}

impl Page<'_> {
    /// A page of the table itself, from the beginning of the partition or after the last page.
    pub const fn of(partition: (&'static str, String), after: Option<Item>, limit: i32) -> Self {
        Self { index: None, partition, after, limit, newest_first: false, between: None }
    }
}

impl Database {
    /// Writes one item of a table. Conflicts with transactions and throttling are retried, bounded.
    pub async fn write(&self, operation: &'static str, table: &str, change: Change) -> Result<Written, Fault> {
        let witness = Witness::default();
        let mut tried = 0;
        loop {
            STEADY.pause(tried).await;
            tried += 1;
            match self.send(table, change.clone(), witness.clone()).await {
                Ok(written) => return Ok(written),
                Err(failure) if failure.may_pass && tried < STEADY.tries => {}
                Err(failure) => return Err(witness.fault(operation, failure.cause)),
            }
        }
    }

    async fn send(&self, table: &str, change: Change, witness: Witness) -> Result<Written, Failure> {
        let (names, values, told) = (change.names(), change.values(), ReturnValuesOnConditionCheckFailure::AllOld);
        match change.target {
            Target::Put(item) => {
                let put = self.client.put_item().table_name(table).set_item(Some(item));
                let put = put.set_condition_expression(change.condition).set_expression_attribute_names(names);
                let put = put.set_expression_attribute_values(values).return_values_on_condition_check_failure(told);
                let sent = put.customize().interceptor(witness).send().await;
                sent.map(|_| Written::Done(None)).or_else(refused_or_failed)
            }
            Target::Update { key, expression } => {
                let update = self.client.update_item().table_name(table).set_key(Some(key.into_item()));
                let update = update.update_expression(expression).set_condition_expression(change.condition);
                let update = update.set_expression_attribute_names(names).set_expression_attribute_values(values);
                let update = update.return_values(ReturnValue::AllNew).return_values_on_condition_check_failure(told);
                let sent = update.customize().interceptor(witness).send().await;
                sent.map(|done| Written::Done(done.attributes)).or_else(refused_or_failed)
            }
            Target::Delete(key) => {
                let delete = self.client.delete_item().table_name(table).set_key(Some(key.into_item()));
                let delete = delete.set_condition_expression(change.condition).set_expression_attribute_names(names);
                let delete = delete.set_expression_attribute_values(values);
                let delete = delete.return_values_on_condition_check_failure(told);
                let sent = delete.customize().interceptor(witness).send().await;
                sent.map(|_| Written::Done(None)).or_else(refused_or_failed)
            }
        }
    }

    /// The item of the main table under this key, consistently.
    pub async fn get(&self, operation: &'static str, key: Key) -> Result<Option<Item>, Fault> {
        let get = self.client.get_item().table_name(&self.tables.table).set_key(Some(key.into_item()));
        let got = get.consistent_read(true).send().await.map_err(failed_read(operation))?;
        Ok(got.item)
    }

    /// The items of the main table under these keys, consistently. Keys without an item are left out.
    pub async fn get_all(
        &self,
        operation: &'static str,
        keys: impl Iterator<Item = Key> + Send,
    ) -> Result<Vec<Item>, Fault> {
        // The service refuses a key that is named twice.
        let keys: BTreeSet<Key> = keys.collect();
        let mut items = Vec::with_capacity(keys.len());
        let mut keys = keys.into_iter().map(Key::into_item);
        loop {
            let batch: Vec<Item> = keys.by_ref().take(BATCH_MAX).collect();
            if batch.is_empty() {
                return Ok(items);
            }
            self.get_batch(operation, batch, &mut items).await?;
        }
    }

    async fn get_batch(&self, operation: &'static str, batch: Vec<Item>, items: &mut Vec<Item>) -> Result<(), Fault> {
        let table = &self.tables.table;
        let mut left = Some(batch);
        for tried in 0..STEADY.tries {
            let Some(batch) = left else { return Ok(()) };
            STEADY.pause(tried).await;
            let wanted = KeysAndAttributes::builder().set_keys(Some(batch)).consistent_read(true).build();
            let wanted = wanted.map_err(|cause| Fault::not_applied(operation, cause))?;
            let get = self.client.batch_get_item().request_items(table, wanted);
            let got = get.send().await.map_err(failed_read(operation))?;
            items.extend(got.responses.into_iter().flatten().flat_map(|(_, found)| found));
            let unprocessed = got.unprocessed_keys.and_then(|mut tables| tables.remove(table.as_str()));
            left = unprocessed.map(|wanted| wanted.keys).filter(|keys| !keys.is_empty());
        }
        match left {
            None => Ok(()),
            Some(_) => Err(Fault::not_applied(operation, "the table did not read all keys in all tries")),
        }
    }

    /// A page of a partition, in key order, consistent unless an index is read; and the key to go on
    /// after.
    pub async fn page(
        &self,
        operation: &'static str,
        table: &str,
        page: Page<'_>,
    ) -> Result<(Vec<Item>, Option<Item>), Fault> {
        let (name, value) = page.partition;
        let query = self.client.query().table_name(table).set_index_name(page.index.map(str::to_owned));
        let query = query.consistent_read(page.index.is_none()).limit(page.limit).set_exclusive_start_key(page.after);
        let query = query.scan_index_forward(!page.newest_first);
        let query = match page.between {
            None => query.key_condition_expression("#partition = :partition"),
            Some((sort, first, last)) => query
                .key_condition_expression("#partition = :partition AND #sort BETWEEN :first AND :last")
                .expression_attribute_names("#sort", sort)
                .expression_attribute_values(":first", AttributeValue::S(first))
                .expression_attribute_values(":last", AttributeValue::S(last)),
        };
        let query = query.expression_attribute_names("#partition", name);
        let query = query.expression_attribute_values(":partition", AttributeValue::S(value));
        let found = query.send().await.map_err(failed_read(operation))?;
        Ok((found.items.unwrap_or_default(), found.last_evaluated_key.filter(|key| !key.is_empty())))
    }
}
