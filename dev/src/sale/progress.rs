//! The progress bar, on stderr. Where that is no terminal, a line every few seconds.

use std::io::{IsTerminal, stderr};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::task::JoinHandle;

use super::buyer::Crowd;

const TICK: Duration = Duration::from_millis(200);
/// Ticks between two lines.
const LINE_EVERY: u64 = 25;

/// A bar that follows the measures of a crowd.
pub struct Progress {
    bar: ProgressBar,
    ticking: JoinHandle<()>,
}

impl Progress {
    /// Of so many planned requests; the bar stays full while those on top are sent.
    #[must_use]
    pub fn start(requests: u64, crowd: Arc<Crowd>) -> Self {
        let bar = ProgressBar::new(requests);
        // The template is a literal that parses; if it ever does not, the default bar is good enough.
        if let Ok(style) = ProgressStyle::with_template("{elapsed:>4} {bar:40} {human_pos}/{human_len} requests, {msg}")
        {
            bar.set_style(style);
        }
        let ticking = tokio::spawn(follow(bar.clone(), requests, crowd));
        Self { bar, ticking }
    }

    pub async fn finish(self) {
        self.ticking.abort();
        // Cancelled is what was asked for.
        let _ = self.ticking.await;
        self.bar.finish();
    }
}

async fn follow(bar: ProgressBar, planned: u64, crowd: Arc<Crowd>) {
    let lines = !stderr().is_terminal();
    for tick in 1_u64.. {
        tokio::time::sleep(TICK).await;
        let (requests, accepted) = (crowd.measures.requests(), crowd.book.accepted());
        bar.set_position(requests.min(planned));
        bar.set_message(format!("{accepted} orders accepted"));
        if lines && tick % LINE_EVERY == 0 {
            eprintln!("{requests} requests ({planned} planned), {accepted} orders accepted");
        }
    }
}
