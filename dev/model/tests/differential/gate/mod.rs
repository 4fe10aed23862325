//! Random scripts of the gate, on one Redis and on a cluster.

mod answer;
mod ask;
mod at_once;
mod bad_data;
mod check;
mod ledger;
mod operation;
mod random;
mod server;
mod stage;
mod told;

use proptest::test_runner::TestCaseError;
use tokio::runtime::{Builder, Runtime};

use crate::run::{Kind, Share};
use operation::Script;
use server::Server;
use stage::Stage;

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
pub fn sequences(share: &Share) -> Result<(), String> {
    let runtime = runtime();
    let server = runtime.block_on(server(share.kind));
    share.check(&random::scripts(), |script| runtime.block_on(play(&server, &script)))
}

/// A few steps, then several at once.
pub fn groups(share: &Share) -> Result<(), String> {
    // Calls that run at once must not wait for one another here.
    let runtime = Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let server = runtime.block_on(server(share.kind));
    share.check(&random::groups(), |script| runtime.block_on(play(&server, &script)))
}
