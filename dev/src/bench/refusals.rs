//! How many orders the handler refuses in a second when everything is sold out, beside what a plain script does
//! with as many clients.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use harness::http::Call;
use harness::{Backend, Options as BackendOptions, events, sample};
use holdfast::domain::activity::Activity;
use holdfast::lambda::http::HttpHandler;
use lambda_http::Request;
use serde_json::json;
use tokio::task::JoinSet;

use super::ratio::{Aim, Row, median};
use super::scripts::{STOCK_KEY, prepare};
use super::shop::{SKU, token};
use super::{Options, Section};
use crate::stack::StartError;

const PROGRAM: &str = "redis-benchmark";
/// Requests under way at once, of either.
const AT_ONCE: usize = 64;
const BUCKETS: u16 = 8;

pub async fn measure(options: &Options) -> Result<Section, StartError> {
    let backend = Backend::start(BackendOptions::default()).await?;
    let draft = sample::with(sample::activity(SKU, 0), &json!({ "buckets": BUCKETS, "bucket_rate": 500 }));
    let activity = events::open(&backend.wiring, "refusals", &draft).await;
    let handler = Arc::new(place_order::handler(backend.wiring.clone(), Arc::clone(&backend.keys)));
    let url = backend.redis_config.urls.first().ok_or("no Redis")?;
    let mut plain = redis::Client::open(url.as_str())?.get_multiplexed_async_connection().await?;
    let hash = prepare(&mut plain).await?;
    let port = backend.redis.as_ref().ok_or("no Redis of its own")?.port();
    let (mut by_handler, mut by_redis) = (Vec::new(), Vec::new());
    // The first round warms everything up and is not looked at.
    for round in 0..=options.rounds {
        let requests = requests(&backend, &activity, options.calls)?;
        let refused = refuse(&handler, requests).await?;
        let benchmarked = benchmark(port, &hash, options.calls).await?;
        if round > 0 {
            by_handler.push(refused);
            by_redis.push(benchmarked);
        }
    }
    let ratios = by_handler.iter().zip(&by_redis).map(|(handled, taken)| handled / taken).collect();
    let name = format!("handler refusing as sold out / {PROGRAM} -c {AT_ONCE} -P 1");
    Ok(Section {
        rows: vec![Row::new(&name, ratios, Aim::AtLeast(1.0))?],
        notes: vec![format!(
            "{:.0} orders refused and {:.0} check + DECRBY a second, {} each in every round; the handler in this \
             process, without a gateway, one Redis call each, {AT_ONCE} at once, {BUCKETS} buckets",
            median(&by_handler).unwrap_or(f64::NAN),
            median(&by_redis).unwrap_or(f64::NAN),
            options.calls,
        )],
    })
}

fn requests(backend: &Backend, activity: &Activity, count: u32) -> Result<Vec<Request>, StartError> {
    let request = |number: u32| {
        let buyer = format!("buyer-{number}");
        let body = json!({
            "token": token(&backend.keys, &activity.id, &buyer)?, "lines": [{ "sku": SKU, "quantity": 1 }]
        });
        let call = Call::new("POST /v1/activities/{activity}/orders").path("activity", activity.id.as_str());
        Ok(call.buyer(&buyer).json(&body).request()?)
    };
    (0..count).map(request).collect()
}

/// Orders refused in a second.
async fn refuse<H: HttpHandler>(handler: &Arc<H>, mut requests: Vec<Request>) -> Result<f64, StartError> {
    let count = requests.len();
    let mut workers = JoinSet::new();
    let each = count.div_ceil(AT_ONCE);
    let began = Instant::now();
    while !requests.is_empty() {
        let (handler, some) = (Arc::clone(handler), requests.split_off(requests.len().saturating_sub(each)));
        workers.spawn(async move {
            for request in some {
                let response = handler.handle(request).await;
                if response.status() != 409 {
                    return Err(format!("an order was answered {}: {:?}", response.status(), response.body()));
                }
            }
            Ok(())
        });
    }
    while let Some(worked) = workers.join_next().await {
        worked??;
    }
    Ok(f64::from(u32::try_from(count)?) / began.elapsed().as_secs_f64())
}

/// Calls of the plain script in a second, as the tool that comes with Redis measures them.
async fn benchmark(port: u16, hash: &str, calls: u32) -> Result<f64, StartError> {
    let (port, clients, calls) = (port.to_string(), AT_ONCE.to_string(), calls.to_string());
    let mut command = tokio::process::Command::new(PROGRAM);
    command.args(["-p", &port, "-c", &clients, "-P", "1", "-n", &calls, "--csv", "EVALSHA", hash, "1", STOCK_KEY, "1"]);
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output().await;
    let output = output.map_err(|error| format!("{PROGRAM}, which comes with redis-tools: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let told = format!("{PROGRAM} said: {text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(calls_per_second(&text).filter(|_| output.status.success()).ok_or(told)?)
}

/// The second column of the last line: the first one may have a comma in its quotes.
fn calls_per_second(csv: &str) -> Option<f64> {
    let column = csv.lines().next()?.split("\",\"").position(|name| name.trim_matches('"') == "rps")?;
    csv.lines().last()?.split("\",\"").nth(column)?.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_read_by_the_name_of_its_column() {
        let csv = "\"test\",\"rps\",\"avg_latency_ms\"\n\"EVALSHA abc 1 bench:stock 1\",\"51234.50\",\"0.7\"\n";
        assert!(calls_per_second(csv).is_some_and(|rate| (rate - 51_234.5).abs() < 1e-9));
        assert_eq!(calls_per_second("Could not connect to Redis at 127.0.0.1:1: Connection refused\n"), None);
        assert_eq!(calls_per_second(""), None);
    }
}
