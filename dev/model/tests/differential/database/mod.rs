//! Random scripts of the database, on the local one.

mod answer;
mod life;
mod operation;
mod past;
mod read;
pub mod server;
mod stage;

use std::cell::Cell;

use tokio::runtime::Builder;

use crate::run::Share;
use life::answer::CIRCUMSTANCES;
use server::Server;
use stage::Stage;

/// Every kind of answer that there is.
const ANSWERS: [&str; 41] = [
    "Commit Committed",
    "Commit Exists",
    "Commit LimitReached",
    "Commit Frozen",
    "Commit Short",
    "Claim Aborted",
    "Claim Order",
    "Item Some",
    "Item None",
    "Corrected true",
    "Corrected false",
    "Order Some",
    "Order None",
    "Orders []",
    "Orders [",
    "Numbers [OrderId",
    "Numbers []",
    "Cancelled Done",
    "Cancelled Otherwise",
    "Expired Done",
    "Expired Otherwise",
    "Refunded Done",
    "Refunded Otherwise",
    "Paid Done",
    "Paid Otherwise",
    "PaidLate Committed",
    "PaidLate Exists",
    "PaidLate LimitReached",
    "PaidLate Frozen",
    "PaidLate Short",
    "RefundRecorded Done",
    "RefundRecorded Otherwise",
    "Refunds [",
    "Refunds []",
    "Due [OrderId",
    "Due []",
    "Moved Done",
    "Moved Already",
    "Moved Short",
    "Move Some",
    "Move None",
];

/// One step after another.
pub fn sequences(share: &Share<'_>) -> Result<(), String> {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    let server = runtime.block_on(Server::start(false));
    let items = Cell::new(0);
    share.check(&operation::scripts(), |script| {
        items.set(items.get() + runtime.block_on(Stage::play(&server, &script))?);
        Ok(())
    })?;
    server.met.count_in(share, &[&ANSWERS[..], &CIRCUMSTANCES[..]].concat());
    // What every script looked for is all that there is.
    let stored = runtime.block_on(server.count());
    if stored == items.get() {
        Ok(())
    } else {
        Err(format!("{stored} items are stored, and {} were written", items.get()))
    }
}

/// A few steps, then several at once; half of them on a database that refuses transactions that meet.
pub fn groups(share: &Share<'_>) -> Result<(), String> {
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let server = runtime.block_on(Server::start(share.seed.is_multiple_of(2)));
    share.check(&operation::groups(), |script| runtime.block_on(Stage::play(&server, &script)).map(|_| ()))
}
