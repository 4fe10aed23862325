//! Moving stock of single orders and whole buckets: [`StockGate`] on Redis.

use super::{
    Gate,
    call::{BadReply, Call, Reply},
    keys::{self, BucketKeys},
    known::Known,
    scripts::{
        mark_fields, preheat_bucket, read_bucket, restock_order, restore_order, sum_bucket, sync_allotment,
        sync_control,
    },
};
use sum_bucket::{Page, SoFar};

use crate::{
    domain::{
        activity::Activity,
        ids::{ActivityId, Bucket},
        order::{Part, Placement, Take},
        order_no::OrderNo,
        record::Record,
        stock::Allotment,
        time::UnixMillis,
    },
    ports::{BucketState, Fault, Preheated, RecordPage, Restocked, Restored, StockGate, SumCheck},
    telemetry::{self, Metric},
};

/// Fields that one page of records asks for, about.
const PAGE_FIELDS: usize = 200;
/// How often a script is tried whose record has another placement than what was known. Only an undo and
/// a new admission within the same millisecond or two make it more than two.
pub(super) const READS_MAX: usize = 5;
/// How often adding up a bucket begins, because an order came between two pages.
const SUMS_MAX: usize = 3;

impl StockGate for Gate {
    async fn restock(
        &self,
        activity: &Activity,
        order_no: &OrderNo,
        bucket: Bucket,
        take: Take,
        keep_mark: bool,
        submission: Option<&Placement>,
    ) -> Result<Restocked, Fault> {
        for _ in 0..READS_MAX {
            let Some(known) = self.known(&activity.id, bucket, order_no).await? else {
                return Ok(Restocked::BadData);
            };
            let call = restock_order::call(activity, order_no, bucket, take, known, (keep_mark, submission));
            if let Some(restocked) = self.ask(call, restock_order::parse).await? {
                return Ok(restocked);
            }
        }
        Err(kept_changing("restock_order"))
    }

    async fn restore(
        &self,
        activity: &Activity,
        placement: &Placement,
        bucket: Bucket,
        take: Take,
        parts: &[Part],
    ) -> Result<Restored, Fault> {
        // Mostly there is no record, or one of this placement: only another one has to be read.
        let mut known = Known::default();
        for _ in 0..READS_MAX {
            let call = restore_order::call(activity, placement, bucket, take, parts, known);
            if let Some(restored) = self.ask(call, restore_order::parse).await? {
                return Ok(restored);
            }
            known = match self.known(&activity.id, bucket, &placement.order_no).await? {
                Some(known) => known,
                None => return Ok(Restored::BadData),
            };
        }
        Err(kept_changing("restore_order"))
    }

    async fn preheat(
        &self,
        activity: &Activity,
        bucket: Bucket,
        allotments: &[Allotment],
        now: UnixMillis,
    ) -> Result<Preheated, Fault> {
        self.ask(preheat_bucket::call(activity, bucket, allotments, now), preheat_bucket::parse).await
    }

    async fn sync_allotment(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        allotments: &[Allotment],
    ) -> Result<usize, Fault> {
        self.ask(sync_allotment::call(activity, bucket, allotments), sync_allotment::parse).await
    }

    async fn sync_control(&self, activity: &Activity, bucket: Bucket, now: UnixMillis) -> Result<bool, Fault> {
        self.ask(sync_control::call(activity, bucket, now), sync_control::parse).await
    }

    async fn read_bucket(&self, activity: &Activity, bucket: Bucket) -> Result<BucketState, Fault> {
        self.ask(read_bucket::call(activity, bucket), read_bucket::parse).await
    }

    async fn list_records(&self, activity: &ActivityId, bucket: Bucket, cursor: u64) -> Result<RecordPage, Fault> {
        let mut command = redis::cmd("HSCAN");
        command.arg(BucketKeys::new(activity, bucket).orders).arg(cursor).arg("COUNT").arg(PAGE_FIELDS);
        self.ask(Call::command("list_records", command).slow(), parse_page).await
    }

    async fn marked(&self, activity: &Activity, placement: &Placement) -> Result<bool, Fault> {
        let mut command = redis::cmd("HMGET");
        command.arg(BucketKeys::new(&activity.id, placement.home).orders);
        command.arg(mark_fields(placement, placement.home));
        let all_count_it = |reply: &Reply| {
            reply.items()?.iter().try_fold(true, |all, mark| {
                let orders = mark.as_deref().map_or(Ok(Vec::new()), marked_orders)?;
                Ok(all && orders.contains(&placement.order_no))
            })
        };
        self.ask(Call::command("read_marks", command), all_count_it).await
    }

    async fn sum_bucket(&self, activity: &Activity, bucket: Bucket, repair: bool) -> Result<Vec<SumCheck>, Fault> {
        self.sum_in_pages(activity, bucket, repair, sum_bucket::PAGE_FIELDS).await
    }
}

pub(super) fn kept_changing(operation: &'static str) -> Fault {
    Fault::not_applied(operation, "the record kept changing")
}

impl Gate {
    /// [`StockGate::sum_bucket`] with pages of another size, for tests.
    ///
    /// # Errors
    /// As there.
    pub async fn sum_in_pages(
        &self,
        activity: &Activity,
        bucket: Bucket,
        repair: bool,
        page_fields: usize,
    ) -> Result<Vec<SumCheck>, Fault> {
        let (mut so_far, mut begun) = (SoFar::begin(), 1);
        loop {
            let call = sum_bucket::call(activity, bucket, repair, page_fields, so_far);
            so_far = match self.ask(call, sum_bucket::parse).await? {
                Page::Sums(sums) => return Ok(sums),
                Page::Next(so_far) => so_far,
                Page::Moved if begun < SUMS_MAX => {
                    begun += 1;
                    SoFar::begin()
                }
                Page::Moved => {
                    tracing::debug!(activity = %activity.id, %bucket, "sums_in_motion");
                    return Ok(Vec::new());
                }
            };
        }
    }
}

/// A page of `HSCAN`: the cursor, then fields and values.
fn parse_page(reply: &Reply) -> Result<RecordPage, BadReply> {
    let (cursor, rest) = reply.outcome()?;
    let cursor: u64 = cursor.parse().map_err(|_| BadReply::Unexpected)?;
    let mut page = RecordPage { next: (cursor != 0).then_some(cursor), ..RecordPage::default() };
    let texts = rest.texts()?;
    let (pairs, []) = texts.as_chunks::<2>() else {
        return Err(BadReply::Unexpected);
    };
    for [field, value] in pairs {
        if *field == keys::SENTINEL {
            continue;
        }
        if keys::is_mark(field) {
            page.marked.extend(marked_orders(value).unwrap_or_else(|_| unlisted("mark")));
        } else if let Ok(order_no) = OrderNo::parse(field) {
            page.records.push((order_no, Record::parse(value).map_err(|error| error.to_string())));
        } else {
            page.records.extend(unlisted("record"));
        }
    }
    Ok(page)
}

/// What has no order number to be listed by must not keep the others from being repaired. Its field
/// may name a buyer and is not logged.
fn unlisted<T>(kind: &'static str) -> Vec<T> {
    telemetry::count(Metric::BadData, 1);
    tracing::error!(kind, "unreadable data in Redis: a person is needed");
    Vec::new()
}

/// The orders that a mark counts: `order_no=units;…`.
pub(super) fn marked_orders(mark: &str) -> Result<Vec<OrderNo>, BadReply> {
    mark.split(';')
        .map(|entry| {
            let (order_no, units) = entry.split_once('=').ok_or(BadReply::BadData)?;
            units.parse::<u32>().map_err(|_| BadReply::BadData)?;
            OrderNo::parse(order_no).map_err(|_| BadReply::BadData)
        })
        .collect()
}
