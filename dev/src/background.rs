//! Tasks that run until they are told to stop.

use std::future::Future;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long [`Background::stop`] waits for the tasks to end by themselves.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// A group of tasks and the signal that ends them.
pub struct Background {
    signal: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

/// The signal as a task sees it.
#[derive(Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when the signal is set.
    pub async fn wait(&mut self) {
        // An error means that the group is gone, which is a stop as well.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }

    /// Sleeps; ends early when the signal is set.
    pub async fn sleep(&mut self, time: Duration) {
        tokio::select! {
            () = tokio::time::sleep(time) => {}
            () = self.wait() => {}
        }
    }
}

impl Default for Background {
    fn default() -> Self {
        Self { signal: watch::Sender::new(false), tasks: JoinSet::new() }
    }
}

impl Background {
    pub fn spawn<F: Future<Output = ()> + Send + 'static>(&mut self, task: impl FnOnce(Stop) -> F) {
        self.tasks.spawn(task(Stop(self.signal.subscribe())));
    }

    /// Sets the signal and waits for all tasks, for a bounded time; what is left then is cut off.
    pub async fn stop(mut self) {
        self.signal.send_replace(true);
        let ended = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_LIMIT, ended).await.is_err() {
            tracing::warn!("background tasks were cut off");
        }
    }
}
