//! Metrics as lines of the log, in `CloudWatch`'s embedded metric format. Why without a crate: decision 12.

use serde::Serialize;
use serde_json::{Map, Value as Json, json};

use crate::{
    config::MetricsConfig,
    telemetry::{Held, Label, Metric, VALUES_MAX, Value},
};

const STACK: &str = "Stack";
const ACTIVITY: &str = "Activity";

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Directive<'a> {
    namespace: &'a str,
    dimensions: Vec<Vec<&'static str>>,
    metrics: Vec<Definition>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Definition {
    name: &'static str,
    unit: &'static str,
}

/// The values of one line: of the whole, and of one activity at most.
#[derive(Default)]
struct Line<'a> {
    activity: Option<&'a str>,
    whole: Vec<(Metric, &'a Value)>,
    of_activity: Vec<(Metric, &'a Value)>,
}

/// Lines for these numbers: mostly one, one more for each further activity, and for each further hundred values of
/// one metric. No line ends with a line feed.
#[must_use]
pub fn lines(config: &MetricsConfig, held: &Held) -> Vec<String> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (label, values) in &held.values {
        let values = values.iter().map(|(metric, value)| (*metric, value)).collect::<Vec<_>>();
        match (label, lines.as_mut_slice()) {
            (Label::Whole, _) => lines.push(Line { whole: values, ..Line::default() }),
            // A line has one value under one name.
            (Label::Activity(activity), [line @ Line { activity: None, .. }]) if line.has_none_of(&values) => {
                line.activity = Some(activity);
                line.of_activity = values;
            }
            (Label::Activity(activity), _) => {
                lines.push(Line { activity: Some(activity), of_activity: values, ..Line::default() });
            }
        }
    }
    lines.iter().flat_map(|line| (0..).map_while(|chunk| line.text(config, held, chunk))).collect()
}

impl Line<'_> {
    fn has_none_of(&self, values: &[(Metric, &Value)]) -> bool {
        self.whole.iter().all(|(metric, _)| values.iter().all(|(other, _)| metric != other))
    }

    /// The line, or one of the further ones that its values need. `None` behind the last of them.
    fn text(&self, config: &MetricsConfig, held: &Held, chunk: usize) -> Option<String> {
        let mut root = Map::from_iter([(STACK.to_owned(), json!(config.stack))]);
        root.extend(self.activity.map(|activity| (ACTIVITY.to_owned(), json!(activity))));
        // An activity's numbers are in both sets, so that they count for the whole as well.
        let sets = [(&self.whole, vec![vec![STACK]]), (&self.of_activity, vec![vec![STACK], vec![STACK, ACTIVITY]])];
        let mut directives = Vec::new();
        for (values, dimensions) in sets {
            let values = values.iter().filter_map(|(metric, value)| Some((*metric, piece(value, chunk)?)));
            let values: Vec<(Metric, Json)> = values.collect();
            if !values.is_empty() {
                let metrics = values.iter().map(|(metric, _)| Definition::of(*metric)).collect();
                directives.push(Directive { namespace: &config.namespace, dimensions, metrics });
                root.extend(values.into_iter().map(|(metric, value)| (metric.name().to_owned(), value)));
            }
        }
        if directives.is_empty() {
            return None;
        }
        root.insert("_aws".to_owned(), json!({"Timestamp": held.at.get(), "CloudWatchMetrics": directives}));
        Some(Json::Object(root).to_string())
    }
}

impl Definition {
    const fn of(metric: Metric) -> Self {
        Self { name: metric.name(), unit: metric.unit().as_str() }
    }
}

/// The part of a value that goes into the line with this number. A line may have a hundred values of a metric.
fn piece(value: &Value, chunk: usize) -> Option<Json> {
    match value {
        Value::Sum(sum) => (chunk == 0).then(|| json!(sum)),
        Value::Each(values) => match values.chunks(VALUES_MAX).nth(chunk)? {
            [one] => Some(json!(one)),
            some => Some(json!(some)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::{ids::ActivityId, time::UnixMillis},
        telemetry::Meter,
    };

    fn told(meter: &Meter) -> Vec<Json> {
        let config = MetricsConfig { namespace: "Holdfast".to_owned(), stack: "shop".to_owned() };
        let held = meter.take_due(UnixMillis::new(7)).unwrap();
        lines(&config, &held).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_line_is_literally_this() {
        let (meter, now) = (Meter::default(), UnixMillis::new(7));
        let sale = ActivityId::parse("sale").unwrap();
        meter.count(Some(&sale), Metric::OrdersCreated, 2, now);
        meter.record(Some(&sale), Metric::OrderLatency, 12.5, now);
        meter.record(Some(&sale), Metric::OrderLatency, 7.0, now);
        meter.count(None, Metric::PastRedis, 1, now);
        let line = json!({
            "_aws": {"Timestamp": 7, "CloudWatchMetrics": [
                {
                    "Namespace": "Holdfast", "Dimensions": [["Stack"]],
                    "Metrics": [{"Name": "PastRedis", "Unit": "Count"}]
                },
                {
                    "Namespace": "Holdfast", "Dimensions": [["Stack"], ["Stack", "Activity"]],
                    "Metrics": [
                        {"Name": "OrdersCreated", "Unit": "Count"}, {"Name": "OrderLatency", "Unit": "Milliseconds"}
                    ]
                }
            ]},
            "Stack": "shop", "Activity": "sale", "OrdersCreated": 2, "OrderLatency": [12.5, 7.0], "PastRedis": 1
        });
        assert_eq!(told(&meter), [line]);
    }

    #[test]
    fn one_name_has_one_value_in_a_line_and_each_activity_its_own() {
        let (meter, now) = (Meter::default(), UnixMillis::new(7));
        meter.count(None, Metric::OrdersFailed, 1, now);
        for sale in ["one", "two"] {
            meter.count(Some(&ActivityId::parse(sale).unwrap()), Metric::OrdersFailed, 2, now);
        }
        let lines = told(&meter);
        let of: Vec<(&Json, &Json)> = lines.iter().map(|line| (&line["Activity"], &line["OrdersFailed"])).collect();
        assert_eq!(of, [(&Json::Null, &json!(1)), (&json!("one"), &json!(2)), (&json!("two"), &json!(2))]);
    }

    #[test]
    fn a_line_has_a_hundred_values_of_a_metric_at_most() {
        let (meter, now) = (Meter::default(), UnixMillis::new(7));
        for _ in 0..=2 * VALUES_MAX {
            meter.record(None, Metric::LockWait, 1.0, now);
        }
        meter.count(None, Metric::LocksLost, 3, now);
        let lines = told(&meter);
        let counts: Vec<usize> = lines.iter().map(|line| line["LockWait"].as_array().map_or(1, Vec::len)).collect();
        assert_eq!(counts, [VALUES_MAX, VALUES_MAX, 1]);
        let lost: Vec<&Json> = lines.iter().map(|line| &line["LocksLost"]).collect();
        assert_eq!(lost, [&json!(3), &Json::Null, &Json::Null], "a sum is told once");
    }
}
