//! Placing orders: [`OrderGate`] on Redis.

use tokio::{task::JoinSet, time::Instant};

use super::{
    Gate,
    call::{BadReply, Call, Reply},
    keys::BucketKeys,
    known::Known,
    scripts::{deduct_part, look_bucket, place_order, undo_part},
    stock_gate::{READS_MAX, kept_changing},
};
use crate::{
    domain::{
        activity::Activity,
        ids::{ActivityId, Bucket, Sku},
        order::Placement,
        order_no::OrderNo,
        record::Record,
    },
    ports::{Deducted, Fault, Look, OrderGate, PlaceAnswer, PlaceCall, Undone},
    telemetry::{self, Metric},
};

impl OrderGate for Gate {
    async fn place(&self, call: PlaceCall<'_>) -> Result<PlaceAnswer, Fault> {
        let asked_at = Instant::now();
        let answer = self.ask(place_order::call(call), place_order::parse).await;
        telemetry::record_since(Metric::AdmitScriptTime, asked_at);
        answer
    }

    async fn deduct(
        &self,
        activity: &Activity,
        placement: &Placement,
        bucket: Bucket,
        units: &[(Sku, u32)],
    ) -> Result<Deducted, Fault> {
        self.ask(deduct_part::call(activity, placement, bucket, units), deduct_part::parse).await
    }

    async fn look(&self, activity: &Activity, placement: &Placement, buckets: &[Bucket]) -> Result<Vec<Look>, Fault> {
        let mut looking = JoinSet::new();
        for &bucket in buckets {
            // Sent together, they share the connection's next write.
            let (gate, call) = (self.clone(), look_bucket::call(activity, placement, bucket));
            let look = async move { gate.ask(call, |reply| look_bucket::parse(bucket, reply)).await };
            looking.spawn(telemetry::carried(look));
        }
        let (mut looks, mut fault) = (Vec::new(), None);
        while let Some(looked) = looking.join_next().await {
            match looked {
                Ok(Ok(look)) => looks.push(look),
                Ok(Err(error)) => fault = Some(error),
                Err(error) => fault = Some(Fault::not_applied("look_bucket", error)),
            }
        }
        looks.sort_by_key(|look: &Look| buckets.iter().position(|bucket| *bucket == look.bucket));
        match fault {
            Some(fault) if looks.is_empty() => Err(fault),
            _ => Ok(looks),
        }
    }

    async fn undo(&self, activity: &Activity, placement: &Placement, bucket: Bucket) -> Result<Undone, Fault> {
        let (order_no, mut known) = (&placement.order_no, Known::of(placement, bucket));
        for _ in 0..READS_MAX {
            if let Some(undone) = self.ask(undo_part::call(activity, order_no, bucket, known), undo_part::parse).await?
            {
                return Ok(undone);
            }
            // Another call of the submission wrote the record.
            known = match self.known(&activity.id, bucket, order_no).await? {
                Some(known) => known,
                None => return Ok(Undone::BadData),
            };
        }
        Err(kept_changing("undo_part"))
    }

    async fn record(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        order_no: &OrderNo,
    ) -> Result<Option<Result<Record, String>>, Fault> {
        let text = self.record_text(activity, bucket, order_no).await?;
        Ok(text.map(|text| {
            let text = text.map_err(|bad| bad.to_string())?;
            Record::parse(&text).map_err(|error| error.to_string())
        }))
    }
}

impl Gate {
    /// What is to be known of a record before its marks are taken away; `None` when it cannot be read.
    pub(super) async fn known(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        order_no: &OrderNo,
    ) -> Result<Option<Known>, Fault> {
        let text = self.record_text(activity, bucket, order_no).await?.transpose().ok();
        Ok(text.and_then(|text| Known::read(text.as_deref(), bucket)))
    }

    async fn record_text(
        &self,
        activity: &ActivityId,
        bucket: Bucket,
        order_no: &OrderNo,
    ) -> Result<Option<Result<String, BadReply>>, Fault> {
        let mut command = redis::cmd("HGET");
        command.arg(BucketKeys::new(activity, bucket).orders).arg(order_no.as_str());
        let first = |reply: &Reply| match reply.items() {
            Ok(items) => Ok(items.first().cloned().flatten().map(Ok)),
            Err(bad) => Ok(Some(Err(bad))),
        };
        self.ask(Call::command("read_record", command), first).await
    }
}
