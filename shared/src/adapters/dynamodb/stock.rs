//! Stock items. Every change raises the version by one and leaves the system's mark.

use aws_sdk_dynamodb::types::AttributeValue;

use super::{
    Database,
    calls::{Written, bad_item},
    change::Change,
    codec::{BadItem, Item, check_format, decode, encode, number, text, text_of, whole},
    keys::{self, Key},
};
use crate::{
    domain::{
        FORMAT,
        activity::Activity,
        ids::{ActivityId, Bucket, Sku},
        stock::{ChangeMark, StockItem},
    },
    ports::{Clock as _, Fault, StockStore, SystemClock},
};

impl StockStore for Database {
    async fn open_stock(&self, item: &StockItem, mark: &ChangeMark) -> Result<StockItem, Fault> {
        const OPERATION: &str = "open stock";
        let stored = stock_item(item, mark).map_err(bad_item(OPERATION))?;
        let change = Change::put(stored).only_if("attribute_not_exists(#pk)").traced();
        match self.write(OPERATION, &self.tables.table, change).await? {
            Written::Done(_) => Ok(item.clone()),
            Written::Refused(None) => Err(Fault::not_applied(OPERATION, "refused without what is stored")),
            Written::Refused(Some(there)) => decode(there).map_err(bad_item(OPERATION)),
        }
    }

    async fn bucket_stock(&self, activity: &Activity, bucket: Bucket) -> Result<Vec<StockItem>, Fault> {
        let keys = activity.skus.iter().map(|offer| Key::stock(&activity.id, &offer.sku, bucket));
        self.read_stock("read a bucket's stock", keys).await
    }

    async fn stock(&self, activity: &Activity, skus: &[Sku]) -> Result<Vec<StockItem>, Fault> {
        let buckets = activity.buckets.all();
        let keys = skus.iter().flat_map(|sku| buckets.clone().map(|bucket| Key::stock(&activity.id, sku, bucket)));
        self.read_stock("read stock", keys).await
    }

    async fn set_on_sale(
        &self,
        activity: &ActivityId,
        sku: &Sku,
        bucket: Bucket,
        on_sale: bool,
        mark: &ChangeMark,
    ) -> Result<Option<StockItem>, Fault> {
        const OPERATION: &str = "set the sale switch";
        let change =
            Change::update(Key::stock(activity, sku, bucket), &format!("SET #on_sale = :on_sale, {NEXT_VERSION}"))
                .only_if("#format = :format AND #on_sale <> :on_sale")
                .value("format", number(FORMAT))
                .value("on_sale", AttributeValue::Bool(on_sale));
        match self.write(OPERATION, &self.tables.table, set_mark(change, mark)).await? {
            Written::Done(item) | Written::Refused(item) => {
                let there = item.filter(|item| !item.is_empty());
                there.map(decode).transpose().map_err(bad_item(OPERATION))
            }
        }
    }

    async fn correct_available(&self, item: &StockItem, available: u64, mark: &ChangeMark) -> Result<bool, Fault> {
        const OPERATION: &str = "correct stock";
        let change = Change::update(
            Key::stock(&item.activity, &item.sku, item.bucket),
            &format!("SET #available = :available, {NEXT_VERSION}"),
        )
        .only_if("#format = :format AND #version = :version")
        .value("format", number(FORMAT))
        .value("available", number(available))
        .value("version", number(item.version));
        match self.write(OPERATION, &self.tables.table, set_mark(change, mark)).await? {
            Written::Done(_) => Ok(true),
            // The SDK repeats a call whose answer was lost: then it finds what it did itself.
            Written::Refused(Some(there)) => {
                let corrected = (item.version + 1, available);
                check_format(&there).map_err(bad_item(OPERATION))?;
                let found = whole(&there, keys::VERSION).and_then(|it| Ok((it, whole(&there, keys::AVAILABLE)?)));
                Ok(found.map_err(bad_item(OPERATION))? == corrected && read_mark(&there).as_ref() == Some(mark))
            }
            Written::Refused(None) => Ok(false),
        }
    }
}

impl Database {
    async fn read_stock(
        &self,
        operation: &'static str,
        keys: impl Iterator<Item = Key> + Send,
    ) -> Result<Vec<StockItem>, Fault> {
        let items = self.get_all(operation, keys).await?;
        items.into_iter().map(decode).collect::<Result<_, _>>().map_err(bad_item(operation))
    }
}

fn stock_item(item: &StockItem, mark: &ChangeMark) -> Result<Item, BadItem> {
    let mut stored = encode(item)?;
    stored.extend(Key::stock(&item.activity, &item.sku, item.bucket).into_item());
    stored.extend(mark_values(mark).map(|(name, value)| (name.to_owned(), value)));
    Ok(stored)
}

/// What every update of a stock item sets; [`set_mark`] gives the values.
pub const NEXT_VERSION: &str = "#version = #version + :one, #op = :op, #operator = :operator, #ref = :ref, \
    #changed_at = :changed_at";

/// The values of [`NEXT_VERSION`].
pub fn set_mark(change: Change, mark: &ChangeMark) -> Change {
    let change = mark_values(mark).into_iter().fold(change, |change, (name, value)| change.value(name, value));
    change.value("one", number(1)).value("changed_at", text(SystemClock.now().to_string())).traced()
}

fn mark_values(mark: &ChangeMark) -> [(&'static str, AttributeValue); 3] {
    [
        (keys::OP, text(mark.operation.as_str())),
        (keys::OPERATOR, text(&mark.operator)),
        (keys::REF, text(&mark.reference)),
    ]
}

/// The mark of the last change that the system made, if it is whole.
pub fn read_mark(item: &Item) -> Option<ChangeMark> {
    Some(ChangeMark {
        operation: serde_json::from_value(text_of(item, keys::OP).ok()?.into()).ok()?,
        operator: text_of(item, keys::OPERATOR).ok()?.to_owned(),
        reference: text_of(item, keys::REF).ok()?.to_owned(),
    })
}
