//! What operators see, and that the documentation tells what it means.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::read::{properties, resources, text, texts};

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
