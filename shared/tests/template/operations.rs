//! What operators see, and that the documentation tells what it means.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::read::{properties, resources, template, text, texts};

#[test]
fn every_alarm_is_explained_to_operators_and_rings_somewhere() {
    let documented = text("docs/operations.md");
    for (name, alarm) in resources("AWS::CloudWatch::Alarm") {
        assert!(documented.contains(&format!("| `{name}` |")), "docs/operations.md does not explain {name}");
        let alarm = &alarm["Properties"];
        let actions = texts(&alarm["AlarmActions"]);
        assert!(actions.contains(&"AlarmTopicArn".to_owned()) && actions.contains(&"Alarms".to_owned()), "{name}");
        assert_eq!(alarm["TreatMissingData"], "notBreaching", "{name}: silence at night is none");
        assert!(alarm["AlarmDescription"].as_str().is_some_and(|text| text.ends_with('.')), "{name}");
    }
    for line in documented.lines().filter(|line| line.starts_with("| `") && line.contains("Alarm` |")) {
        let name = line.trim_start_matches("| `").split('`').next().unwrap();
        assert!(resources("AWS::CloudWatch::Alarm").iter().any(|(alarm, _)| alarm == name), "there is no {name}");
    }
}

/// What each alarm watches, above which line, and for how many periods of how many seconds.
const LINES: [(&str, &str, &str, f64, [i64; 2]); 22] = [
    ("AdmissionLimitedAlarm", "AdmissionLimited", "Maximum", 0.0, [1, 60]),
    ("ApiErrorsAlarm", "5xx", "Average", 0.01, [3, 60]),
    ("BreakerAlarm", "BreakerOpened", "Sum", 0.0, [1, 60]),
    // A tenth of a percent.
    ("DeviationAlarm", "Deviation", "Maximum", 0.1, [1, 60]),
    ("FrozenAlarm", "OrdersFrozen", "Sum", 0.0, [1, 60]),
    ("FulfilmentDeadLettersAlarm", "ApproximateNumberOfMessagesVisible", "Maximum", 0.0, [1, 60]),
    ("GuardConflictsAlarm", "GuardConflicts", "Sum", 0.0, [1, 300]),
    ("NeedsAPersonAlarm", "NeedsAPerson", "Sum", 0.0, [1, 60]),
    ("OrdersFailedAlarm", "OrdersFailed", "Sum", 0.0, [3, 60]),
    ("OrdersThrottledAlarm", "WriteThrottleEvents", "Sum", 0.0, [1, 60]),
    ("OversoldAlarm", "Oversold", "Sum", 0.0, [1, 60]),
    ("PlaceOrderErrorsAlarm", "Errors", "Sum", 0.0, [1, 60]),
    ("PlaceOrderThrottledAlarm", "Throttles", "Sum", 0.0, [1, 60]),
    ("ReconcileFailedAlarm", "Errors", "Sum", 0.0, [2, 300]),
    ("RelayDeadLettersAlarm", "ApproximateNumberOfMessagesVisible", "Maximum", 0.0, [1, 60]),
    ("RelayGivenUpAlarm", "OnFailureDestinationDeliveredEventCount", "Sum", 0.0, [1, 60]),
    // Ten minutes, in milliseconds.
    ("RelayLateAlarm", "IteratorAge", "Maximum", 600_000.0, [3, 60]),
    ("ReturnedWhileLiveAlarm", "ReturnedWhileLive", "Sum", 0.0, [1, 60]),
    ("RollBackDeadLettersAlarm", "ApproximateNumberOfMessagesVisible", "Maximum", 0.0, [1, 60]),
    // A second, in milliseconds, and 50 ms.
    ("SlowOrdersAlarm", "OrderLatency", "p99", 1_000.0, [3, 60]),
    ("SlowScriptAlarm", "AdmitScriptTime", "p99", 50.0, [3, 60]),
    ("UntrackedChangeAlarm", "UntrackedChanges", "Sum", 0.0, [1, 60]),
];

#[test]
fn every_alarm_rings_above_its_line() {
    let alarms = resources("AWS::CloudWatch::Alarm");
    assert_eq!(alarms.len(), LINES.len());
    for (name, metric, statistic, line, [periods, seconds]) in LINES {
        let (_, alarm) = alarms.iter().find(|(alarm, _)| alarm == name).expect(name);
        let alarm = &alarm["Properties"];
        assert_eq!(alarm["MetricName"], metric, "{name}");
        let kind = if statistic == "p99" { "ExtendedStatistic" } else { "Statistic" };
        assert_eq!(alarm[kind], statistic, "{name}");
        assert_eq!(alarm["ComparisonOperator"], "GreaterThanThreshold", "{name}");
        assert_eq!(alarm["Threshold"].as_f64().map(f64::to_bits), Some(f64::to_bits(line)), "{name}");
        assert_eq!([&alarm["EvaluationPeriods"], &alarm["Period"]], [periods, seconds], "{name}");
    }
}

#[test]
fn calls_are_traced_and_logged_for_a_while_and_bounded() {
    let function = template()["Globals"]["Function"].clone();
    assert_eq!(function["Tracing"], "Active");
    assert_eq!(function["LoggingConfig"]["LogGroup"], json!({ "Ref": "Logs" }));
    for (name, log) in resources("AWS::Logs::LogGroup") {
        assert_eq!(log["Properties"]["RetentionInDays"], json!({ "Ref": "LogRetentionDays" }), "{name}");
        assert_eq!(log["UpdateReplacePolicy"], "Retain", "{name}");
    }
    let api = properties("Api");
    assert_eq!(api["AccessLogSettings"]["DestinationArn"], json!({ "GetAtt": "AccessLogs.Arn" }));
    let routes = &api["DefaultRouteSettings"];
    assert_eq!(routes["ThrottlingRateLimit"], json!({ "Ref": "ApiRate" }));
    assert_eq!(routes["ThrottlingBurstLimit"], json!({ "Ref": "ApiBurst" }));
}

#[test]
fn dashboard_and_alarms_show_only_metrics_that_are_documented() {
    let documented = text("docs/operations.md");
    let mut used = BTreeSet::new();
    for (_, alarm) in resources("AWS::CloudWatch::Alarm") {
        if alarm["Properties"]["Namespace"] == "Holdfast" {
            used.insert(alarm["Properties"]["MetricName"].as_str().unwrap().to_owned());
        }
    }
    let body = properties("Dashboard")["DashboardBody"]["Sub"].as_str().unwrap().to_owned();
    let body: Value = serde_json::from_str(&body).expect("a dashboard is JSON");
    for widget in body["widgets"].as_array().unwrap() {
        for metric in widget["properties"]["metrics"].as_array().unwrap().iter().filter(|it| it[0] == "Holdfast") {
            used.insert(metric[1].as_str().unwrap().to_owned());
        }
    }
    assert!(used.len() > 25, "{used:?}");
    for metric in used {
        assert!(documented.contains(&format!("| `{metric}` |")), "docs/operations.md does not tell what {metric} is");
    }
}
