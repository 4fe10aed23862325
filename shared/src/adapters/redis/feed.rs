//! What changed: [`ChangeFeed`] on Redis.

use super::{
    Gate,
    call::{BadReply, Call, Reply},
    keys::BucketKeys,
    scripts::{mark_bucket, mark_fields},
    stock_gate::marked_orders,
};
use crate::{
    domain::{
        activity::Activity,
        ids::{ActivityId, Bucket},
        order::Placement,
        order_no::OrderNo,
        record::Record,
        time::UnixMillis,
    },
    ports::{BucketMark, ChangeFeed, Fault, LedgerEntry},
};

/// Entries of the ledger in one page.
const PAGE_ENTRIES: usize = 500;
/// Operations whose entry begins with an order number.
const OF_ORDERS: [&str; 5] = ["place", "deduct", "undo", "restock", "restore"];

impl ChangeFeed for Gate {
    async fn mark(&self, activity: &ActivityId, bucket: Bucket, upto: Option<UnixMillis>) -> Result<BucketMark, Fault> {
        self.ask(mark_bucket::call(activity, bucket, upto), mark_bucket::parse).await
    }

    async fn changes_after(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        entry: &str,
    ) -> Result<Option<Vec<LedgerEntry>>, Fault> {
        let mut command = redis::cmd("XRANGE");
        command.arg(BucketKeys::new(activity, bucket).ledger).arg(entry).arg("+").arg("COUNT").arg(PAGE_ENTRIES + 1);
        // From the entry itself on: where it is missing, so may others be that came after it.
        let after = |reply: &Reply| {
            let mut entries = parse_entries(reply)?.into_iter();
            Ok(entries.next().filter(|first| first.id == entry).map(|_| entries.collect()))
        };
        self.ask(Call::command("read_ledger", command).slow(), after).await
    }

    async fn records(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        order_nos: &[OrderNo],
    ) -> Result<Vec<Option<Result<Record, String>>>, Fault> {
        if order_nos.is_empty() {
            return Ok(Vec::new());
        }
        let mut command = redis::cmd("HMGET");
        command.arg(BucketKeys::new(activity, bucket).orders);
        for order_no in order_nos {
            command.arg(order_no.as_str());
        }
        let read =
            |text: &Option<String>| text.as_deref().map(|text| Record::parse(text).map_err(|error| error.to_string()));
        let parse = |reply: &Reply| Ok(reply.items()?.iter().map(read).collect());
        self.ask(Call::command("read_records", command).slow(), parse).await
    }

    async fn all_marked(
        &self,
        activity: &Activity,
        bucket: Bucket,
        placements: &[&Placement],
    ) -> Result<Vec<bool>, Fault> {
        let fields: Vec<Vec<String>> = placements.iter().map(|placement| mark_fields(placement, bucket)).collect();
        if fields.iter().all(Vec::is_empty) {
            return Ok(vec![false; placements.len()]);
        }
        let mut command = redis::cmd("HMGET");
        command.arg(BucketKeys::new(&activity.id, bucket).orders).arg(fields.concat());
        let parse = |reply: &Reply| {
            let mut texts = reply.items()?.iter();
            Ok(placements
                .iter()
                .zip(&fields)
                .map(|(placement, fields)| {
                    fields.iter().fold(!fields.is_empty(), |all, _| {
                        // A mark that cannot be read counts nobody; the look at the single order tells why.
                        let mark = texts.next().and_then(Option::as_deref);
                        let orders = mark.and_then(|mark| marked_orders(mark).ok()).unwrap_or_default();
                        orders.contains(&placement.order_no) && all
                    })
                })
                .collect())
        };
        self.ask(Call::command("read_marks", command).slow(), parse).await
    }
}

/// Entries of a stream, flattened: id, operation, text.
fn parse_entries(reply: &Reply) -> Result<Vec<LedgerEntry>, BadReply> {
    let items = reply.items()?;
    let (entries, []) = items.as_chunks::<3>() else {
        return Err(BadReply::BadData);
    };
    entries
        .iter()
        .map(|entry| match entry {
            [Some(id), Some(operation), Some(text)] => {
                let order_no = text.split(' ').next().filter(|_| OF_ORDERS.contains(&operation.as_str()));
                Ok(LedgerEntry { id: id.clone(), order_no: order_no.and_then(|text| OrderNo::parse(text).ok()) })
            }
            _ => Err(BadReply::BadData),
        })
        .collect()
}
