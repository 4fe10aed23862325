//! Moves: one transaction each, of the move itself and every stock item that it changes.

use super::{
    Database,
    calls::bad_item,
    change::Change,
    codec::{BadItem, decode, encode, number},
    keys::{self, Key},
    orders::expires_at_s,
    retry::STEADY,
    stock::{NEXT_VERSION, set_mark},
    transaction::Action,
};
use crate::{
    domain::{
        FORMAT,
        ids::ActivityId,
        stock::{ChangeMark, MoveId, Operation},
    },
    ports::{Commit, Fault, MoveStore, Moved, StockMove},
};

impl MoveStore for Database {
    async fn make_move(&self, change: &StockMove, mark: &ChangeMark) -> Result<Moved, Fault> {
        const OPERATION: &str = "move stock";
        let changes = move_changes(change, mark).map_err(bad_item(OPERATION))?;
        Ok(match self.transact(OPERATION, changes, STEADY).await? {
            Commit::Committed => Moved::Done,
            Commit::Exists => match self.stock_move(&change.activity, &change.id).await? {
                Some(made) => Moved::Already(Box::new(made)),
                None => return Err(Fault::not_applied(OPERATION, "a move was there and is gone")),
            },
            Commit::Busy => Moved::Busy,
            // The sale switch is no condition here: what refuses is the stock.
            Commit::Frozen | Commit::Short(_) | Commit::LimitReached | Commit::CouponUsed => Moved::Short,
        })
    }

    async fn stock_move(&self, activity: &ActivityId, id: &MoveId) -> Result<Option<StockMove>, Fault> {
        const OPERATION: &str = "read a move";
        let item = self.get(OPERATION, Key::stock_move(activity, id)).await?;
        item.map(decode).transpose().map_err(bad_item(OPERATION))
    }
}

fn move_changes(change: &StockMove, mark: &ChangeMark) -> Result<Vec<(Action, Change)>, BadItem> {
    let mut item = encode(change)?;
    item.extend(Key::stock_move(&change.activity, &change.id).into_item());
    if mark.operation == Operation::Automatic {
        // A run a minute makes many; the audit trail keeps what they did.
        item.insert(keys::EXPIRES_AT.to_owned(), number(expires_at_s(change.at)));
    }
    let mut changes = vec![(Action::Order, Change::put(item).only_if("attribute_not_exists(#pk)"))];
    for part in &change.parts {
        let key = Key::stock(&change.activity, &change.sku, part.bucket);
        let units = part.units.unsigned_abs();
        let sign = if part.units < 0 { '-' } else { '+' };
        let set =
            format!("SET #available = #available {sign} :units, #allotted = #allotted {sign} :units, {NEXT_VERSION}");
        let enough = if part.units < 0 { " AND #available >= :units" } else { "" };
        let update = Change::update(key, &set)
            .only_if(format!("#format = :format{enough}"))
            .value("format", number(FORMAT))
            .value("units", number(units));
        changes.push((Action::Stock(change.sku.clone(), part.bucket, units), set_mark(update, mark)));
    }
    Ok(changes)
}
