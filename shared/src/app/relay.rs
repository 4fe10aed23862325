//! From the table's stream: one audit row per change of a stock item, one event per change of an
//! order's state. Nothing of it is on the way of an order.

use crate::{
    domain::{
        order::Order,
        payment::RefundDue,
        stock::{ChangeMark, StockItem},
        time::UnixMillis,
    },
    ports::{AuditRow, AuditStore, Fault, Messages, OrderEvent, RefundEvent},
    telemetry::{self, Metric},
};

/// What became of one item of the table, read from a stream record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    Stock {
        before: Option<MarkedStock>,
        after: Option<MarkedStock>,
        at: UnixMillis,
        event_id: String,
    },
    Order {
        before: Option<Box<Order>>,
        after: Box<Order>,
    },
    /// Money has to go back.
    Refund(RefundDue),
    /// An item that nobody has to be told of: guards, activities, tombstones, removals by age.
    Other,
}

/// A stock item with the mark of the change that made it so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedStock {
    pub item: StockItem,
    /// `None` when the attributes are missing or make no sense.
    pub mark: Option<ChangeMark>,
}

pub struct Relay<A, M> {
    pub audit: A,
    pub messages: M,
}

impl<A: AuditStore, M: Messages> Relay<A, M> {
    /// Both effects may be repeated: the row overwrites itself, the event has the same id.
    ///
    /// # Errors
    /// Broken infrastructure: the record has to come again.
    pub async fn run(&self, change: Change) -> Result<(), Fault> {
        match change {
            Change::Other => Ok(()),
            Change::Refund(refund) => self.messages.send_refund(&RefundEvent::of(refund)).await,
            Change::Order { before, after } => {
                let moved =
                    before.as_ref().is_none_or(|before| before.status != after.status || before.take != after.take);
                if moved { self.send_event(before.as_deref(), *after).await } else { Ok(()) }
            }
            Change::Stock { before, after, at, event_id } => match audit_row(before, after, at, event_id) {
                None => Ok(()),
                Some(row) => {
                    if row.operation.is_none() {
                        telemetry::count(Metric::UntrackedChanges, 1);
                        tracing::error!(
                            activity = %row.activity, sku = %row.sku, bucket = %row.bucket, version = row.version,
                            "untracked_stock_change"
                        );
                    }
                    self.audit.record(&row).await
                }
            },
        }
    }
}

impl<A: AuditStore, M: Messages> Relay<A, M> {
    async fn send_event(&self, before: Option<&Order>, after: Order) -> Result<(), Fault> {
        let event = OrderEvent::of(after);
        self.messages.send_event(&event).await?;
        let OrderEvent { event_id, order, .. } = event;
        let activity = &order.placement.activity;
        tracing::info!(%activity, order_no = %order.placement.order_no, event_id, "order_event");
        // Told after it was sent: a record that comes again was not counted.
        let units = order.placement.lines.iter().map(|line| u64::from(line.quantity.get())).sum();
        match (before.is_some_and(|before| before.status.is_live()), order.status.is_live()) {
            (false, true) => telemetry::count_in(activity, Metric::SoldUnits, units),
            (true, false) => telemetry::count_in(activity, Metric::ReturnedUnits, units),
            _ => {}
        }
        Ok(())
    }
}

/// The row of one change. A change is tracked when it carries a mark and raised the version by exactly
/// one; everything else was made behind the system's back and is recorded as such.
#[must_use]
pub fn audit_row(
    before: Option<MarkedStock>,
    after: Option<MarkedStock>,
    at: UnixMillis,
    event_id: String,
) -> Option<AuditRow> {
    let last_version = before.as_ref().map_or(0, |stock| stock.item.version);
    let ((Some(subject), _) | (None, Some(subject))) = (&after, &before) else { return None };
    let subject = subject.item.clone();
    let next = after.as_ref().is_some_and(|stock| stock.item.version == last_version + 1);
    // The old mark with its old time is no mark of this change.
    let signed = |stock: &MarkedStock| (stock.mark.clone(), stock.item.changed_at);
    let fresh = after.as_ref().map(signed) != before.as_ref().map(signed);
    let mark = after.as_ref().and_then(|stock| stock.mark.clone()).filter(|_| next && fresh);
    Some(AuditRow {
        activity: subject.activity,
        sku: subject.sku,
        bucket: subject.bucket,
        version: subject.version,
        before_mark: before.as_ref().and_then(|stock| stock.mark.clone()),
        filled: false,
        before: before.map(|stock| stock.item),
        after: after.map(|stock| stock.item),
        operation: mark.as_ref().map(|mark| mark.operation),
        operator: mark.as_ref().map(|mark| mark.operator.clone()).unwrap_or_default(),
        reference: mark.map(|mark| mark.reference).unwrap_or_default(),
        at,
        event_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{
        ids::{ActivityId, Bucket, Sku},
        stock::Operation,
    };

    fn stock(version: u64, marked: bool) -> MarkedStock {
        let mark = ChangeMark { operation: Operation::Order, operator: "place-order".into(), reference: "X".into() };
        MarkedStock {
            item: StockItem {
                activity: ActivityId::parse("sale").unwrap(),
                sku: Sku::parse("a").unwrap(),
                bucket: Bucket::new(3).unwrap(),
                allotted: 10,
                available: 9,
                version,
                on_sale: true,
                changed_at: UnixMillis::new(i64::try_from(version).unwrap()),
            },
            mark: marked.then_some(mark),
        }
    }

    #[test]
    fn only_a_marked_change_to_the_next_version_is_tracked() {
        let rows = [
            (Some(stock(1, true)), Some(stock(2, true)), Some(Operation::Order), 2),
            (None, Some(stock(1, true)), Some(Operation::Order), 1),
            (Some(stock(1, true)), Some(stock(1, true)), None, 1),
            (Some(stock(1, true)), Some(stock(3, true)), None, 3),
            (Some(stock(2, true)), Some(stock(1, true)), None, 1),
            (Some(stock(1, true)), Some(stock(2, false)), None, 2),
            (Some(stock(4, true)), None, None, 4),
        ];
        for (before, after, operation, version) in rows {
            let row = audit_row(before, after, UnixMillis::new(5), "e".into()).unwrap();
            assert_eq!((row.operation, row.version), (operation, version));
        }
        // The version was raised by hand, the mark left as it was.
        let edited = MarkedStock { item: StockItem { version: 2, ..stock(1, true).item }, ..stock(1, true) };
        let row = audit_row(Some(stock(1, true)), Some(edited), UnixMillis::new(5), "e".into()).unwrap();
        assert_eq!(row.operation, None);
        assert!(audit_row(None, None, UnixMillis::new(5), "e".into()).is_none());
    }
}
