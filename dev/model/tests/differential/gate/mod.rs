//! Random scripts of the gate, on one Redis and on a cluster.

mod answer;
mod ask;
mod at_once;
mod bad_data;
mod check;
mod ledger;
mod operation;
mod random;
pub mod server;
mod stage;
mod told;

use proptest::test_runner::TestCaseError;
use tokio::runtime::{Builder, Runtime};

use crate::run::{Kind, Share};
use operation::Script;
use server::Server;
use stage::Stage;

/// Every kind of answer that there is.
const ANSWERS: [&str; 41] = [
    "Placed MemoryLost",
    "Placed ConfigurationChanged",
    "Placed Replayed",
    "Placed Mismatch",
    "Placed GivenBack",
    "Placed NotStarted",
    "Placed Ended",
    "Placed Frozen",
    "Placed Limited",
    "Placed LimitReached",
    "Placed Short",
    "Placed Admitted",
    "Deducted Unusable",
    "Deducted GivenBack",
    "Deducted Done",
    "Deducted Frozen",
    "Deducted Limited",
    "Deducted Short",
    "Undone Absent",
    "Undone GivenBack",
    "Undone Done",
    "Restocked Already",
    "Restocked RecordOnly",
    "Restocked Done",
    "Restored NoStock",
    "Restored Already",
    "Restored Done",
    "Preheated Loaded",
    "Preheated Already",
    "Taken 0",
    "Taken 2",
    "Control true",
    "Control false",
    "Sums [SumCheck",
    "Sums []",
    "Record Some",
    "Record None",
    "Marked true",
    "Marked false",
    "BadData",
    "Looks [Look",
];

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn server(kind: Kind) -> Server {
    if kind == Kind::Cluster { Server::cluster().await } else { Server::single().await }
}

async fn play(server: &Server, script: &Script) -> Result<(), TestCaseError> {
    let mut stage = Stage::open(server, &script.scene).await?;
    stage.play(script).await?;
    if !script.group.is_empty() {
        at_once::group(&mut stage, &script.group).await?;
    }
    stage.close().await;
    Ok(())
}

/// One step after another.
pub fn sequences(share: &Share<'_>) -> Result<(), String> {
    let runtime = runtime();
    let server = runtime.block_on(server(share.kind));
    share.check(&random::scripts(), |script| runtime.block_on(play(&server, &script)))?;
    server.met.count_in(share, &ANSWERS);
    Ok(())
}

/// A few steps, then several at once.
pub fn groups(share: &Share<'_>) -> Result<(), String> {
    // Calls that run at once must not wait for one another here.
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let server = runtime.block_on(server(share.kind));
    share.check(&random::groups(), |script| runtime.block_on(play(&server, &script)))
}
