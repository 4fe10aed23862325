//! Load on the gateway: requests at a fixed rate, and buyers one after the other.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::shop::{SKU, Shop};
use crate::sale::client::{Call, Client, NoReply, Reply};

/// Pause before an order is sent again where the answer names none.
const PAUSE: Duration = Duration::from_secs(1);

/// A request and when it is due, from the beginning of its phase.
pub struct Due<T> {
    pub after: Duration,
    pub tag: T,
    pub call: Call,
}

/// What came back.
pub struct Offered<T> {
    pub answers: Vec<(T, Result<Reply, NoReply>)>,
    /// How late the latest request was sent.
    pub late: Duration,
}

/// Sends each request when it is due, whatever became of the others, and waits for all answers.
pub async fn offer<T: Send + 'static>(client: Client, mut dues: Vec<Due<T>>) -> Offered<T> {
    dues.sort_by_key(|due| due.after);
    let (began, mut late) = (Instant::now(), Duration::ZERO);
    let mut under_way = JoinSet::new();
    for Due { after, tag, call } in dues {
        tokio::time::sleep_until(began + after).await;
        late = late.max(began.elapsed().saturating_sub(after));
        let client = client.clone();
        under_way.spawn(async move { (tag, client.call(&call).await) });
    }
    Offered { answers: under_way.join_all().await, late }
}

/// When a crowd has had enough.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// So many units are sold.
    Sold(usize),
    /// So many buyers have asked, and have their answer.
    Asked(u32),
}

/// How a crowd asks.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    /// Buyers who ask at once.
    pub at_once: usize,
    pub until: Until,
    /// Longest time that it may take.
    pub limit: Duration,
}

/// What a crowd got.
#[derive(Debug, Default)]
pub struct Got {
    /// When each unit was sold, from the beginning.
    pub sold_at: Vec<Duration>,
    /// Orders that were refused for good.
    pub refused: u32,
    /// Orders that were sent again: 429, 503, or an outcome that was not known yet.
    pub again: u32,
    /// Until the last answer that is final.
    pub took: Duration,
}

struct Asking {
    client: Client,
    shop: Arc<Shop>,
    crowd: Crowd,
    began: Instant,
    buyers: AtomicU32,
    got: Mutex<Got>,
}

/// Lets new buyers ask for one unit each, so many at once, each as soon as another has an answer. Who is told to
/// come back does so beside the others, with the same token.
///
/// # Errors
/// An answer that does not belong here, or the time is over.
pub async fn ask(client: Client, shop: Arc<Shop>, crowd: Crowd) -> Result<Got, String> {
    let asking = Arc::new(Asking {
        client,
        shop,
        crowd,
        began: Instant::now(),
        buyers: AtomicU32::new(0),
        got: Mutex::default(),
    });
    let mut workers = JoinSet::new();
    for _ in 0..crowd.at_once {
        workers.spawn(Arc::clone(&asking).work());
    }
    let all = async {
        while let Some(worked) = workers.join_next().await {
            worked.map_err(|error| error.to_string())??;
        }
        Ok::<_, String>(())
    };
    match tokio::time::timeout(crowd.limit, all).await {
        Ok(done) => done?,
        Err(_) => return Err(format!("not done after {:?}: {}", crowd.limit, asking.describe())),
    }
    Ok(std::mem::take(&mut *asking.got.lock().unwrap_or_else(PoisonError::into_inner)))
}

impl Asking {
    async fn work(self: Arc<Self>) -> Result<(), String> {
        let mut coming_back = JoinSet::new();
        while !self.is_done() {
            let buyer = self.buyers.fetch_add(1, Ordering::Relaxed);
            if matches!(self.crowd.until, Until::Asked(all) if buyer >= all) {
                break;
            }
            let call = self.shop.order(buyer, SKU).map_err(|error| error.to_string())?;
            if let Some(pause) = self.submit(&call).await? {
                coming_back.spawn(Arc::clone(&self).come_back(call, pause));
            }
        }
        while let Some(came) = coming_back.join_next().await {
            came.map_err(|error| error.to_string())??;
        }
        Ok(())
    }

    async fn come_back(self: Arc<Self>, call: Call, mut pause: Duration) -> Result<(), String> {
        while !self.is_done() {
            tokio::time::sleep(pause).await;
            match self.submit(&call).await? {
                None => break,
                Some(next) => pause = next,
            }
        }
        Ok(())
    }

    /// One order; answers after which pause it has to be sent again, if it has to.
    async fn submit(&self, call: &Call) -> Result<Option<Duration>, String> {
        let reply = self.client.call(call).await.map_err(|NoReply| "an order was not answered")?;
        let at = self.began.elapsed();
        let got = &mut *self.got.lock().unwrap_or_else(PoisonError::into_inner);
        match (reply.status, reply.code()) {
            (200 | 201, _) => got.sold_at.push(at),
            (409, "sold_out" | "order_aborted") => got.refused += 1,
            (202 | 429 | 503, _) => {
                got.again += 1;
                return Ok(Some(reply.retry_after_s.map_or(PAUSE, Duration::from_secs)));
            }
            (status, _) => return Err(format!("an order was answered {status} {}", reply.body)),
        }
        got.took = got.took.max(at);
        Ok(None)
    }

    fn is_done(&self) -> bool {
        let sold = self.got.lock().unwrap_or_else(PoisonError::into_inner).sold_at.len();
        matches!(self.crowd.until, Until::Sold(units) if sold >= units)
    }

    fn describe(&self) -> String {
        let got = self.got.lock().unwrap_or_else(PoisonError::into_inner);
        format!("{} units sold, {} orders refused, {} sent again", got.sold_at.len(), got.refused, got.again)
    }
}
