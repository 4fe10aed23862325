//! The price file: what each unit costs, when and where that was read.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::stack::StartError;

const FILE: &str = include_str!("../../prices.json");

#[derive(Debug, Deserialize)]
struct PriceFile {
    region: String,
    note: String,
    prices: BTreeMap<String, Price>,
}

#[derive(Debug, Deserialize)]
struct Price {
    usd: f64,
    date: String,
    source: String,
}

/// Dollars for one of each.
#[derive(Clone, Copy, Debug)]
pub struct Prices {
    pub http_call: f64,
    pub invocation: f64,
    pub gb_second: f64,
    pub write_unit: f64,
    pub read_unit: f64,
    pub sqs_call: f64,
    pub log_byte: f64,
    pub trace: f64,
    pub redis_node_hour: f64,
    pub endpoint_hour: f64,
}

/// The prices, and where they come from: one line each.
///
/// # Errors
/// When the file is not as it should be.
pub fn read() -> Result<(Prices, Vec<String>), StartError> {
    let file: PriceFile = serde_json::from_str(FILE)?;
    let price = |name: &str| file.prices.get(name).map(|price| price.usd).ok_or(format!("no price of {name}"));
    let million = |name: &str| price(name).map(|usd| usd / 1e6);
    let prices = Prices {
        http_call: million("http_api_million")?,
        invocation: million("lambda_million")?,
        gb_second: price("lambda_gb_second")?,
        write_unit: million("write_unit_million")?,
        read_unit: million("read_unit_million")?,
        sqs_call: million("sqs_million")?,
        log_byte: price("log_gb")? / 1e9,
        trace: million("trace_million")?,
        redis_node_hour: price("redis_node_hour")?,
        endpoint_hour: price("endpoint_hour")?,
    };
    let mut lines = vec![format!("Prices of {}. {}", file.region, file.note)];
    lines.extend(
        file.prices
            .iter()
            .map(|(name, price)| format!("  {name:<20} {:<12} {} {}", price.usd, price.date, price.source)),
    );
    Ok((prices, lines))
}
