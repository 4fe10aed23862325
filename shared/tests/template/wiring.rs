//! Time limits, queues, streams and what is kept.

use serde_json::{Value, json};

use crate::read::{properties, resources, template};

fn event(function: &str, name: &str) -> Value {
    properties(function)["Events"][name]["Properties"].clone()
}

#[test]
fn a_message_is_hidden_for_six_times_as_long_as_its_function_may_run() {
    let (queue, function) = (properties("RollBacks"), properties("RollBack"));
    assert!(queue["VisibilityTimeout"].as_i64().unwrap() >= 6 * function["Timeout"].as_i64().unwrap());
    let mapping = event("RollBack", "RollBacks");
    assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
    assert!(mapping["ScalingConfig"]["MaximumConcurrency"].as_i64().unwrap() >= 2);
    assert!(function["ReservedConcurrentExecutions"].is_null(), "what the queue cannot place counts as received");
}

#[test]
fn every_queue_is_encrypted_and_ends_in_dead_letters_that_outlive_it() {
    let mut dead = 0;
    for (name, queue) in resources("AWS::SQS::Queue") {
        let queue = &queue["Properties"];
        assert_eq!(queue["SqsManagedSseEnabled"], true, "{name}");
        if queue["RedrivePolicy"].is_null() {
            dead += 1;
            assert_eq!(queue["MessageRetentionPeriod"], 1_209_600, "{name}: the longest that there is");
            assert!(queue["RedriveAllowPolicy"]["redrivePermission"].is_string(), "{name}");
            continue;
        }
        let target = queue["RedrivePolicy"]["deadLetterTargetArn"]["GetAtt"].as_str().unwrap();
        let letters = properties(target.trim_end_matches(".Arn"));
        assert_eq!(letters["RedriveAllowPolicy"]["redrivePermission"], "byQueue", "{name}");
        assert_eq!(letters["RedriveAllowPolicy"]["sourceQueueArns"].as_array().unwrap().len(), 1, "{name}");
        assert!(letters["MessageRetentionPeriod"].as_i64() > queue["MessageRetentionPeriod"].as_i64(), "{name}");
        assert_eq!(queue["RedrivePolicy"]["maxReceiveCount"], 5, "{name}");
    }
    assert_eq!(dead, 3);
}

#[test]
fn no_change_of_the_table_is_lost_on_its_way() {
    let mapping = event("Relay", "Changes");
    assert_eq!(mapping["FunctionResponseTypes"], json!(["ReportBatchItemFailures"]));
    assert_eq!(mapping["StartingPosition"], "TRIM_HORIZON");
    assert_eq!(mapping["BisectBatchOnFunctionError"], true);
    assert_eq!(mapping["MaximumRecordAgeInSeconds"], 86_400, "as long as the stream keeps it");
    assert_eq!(mapping["MaximumRetryAttempts"], -1);
    // A queue would get where the records were, in a stream that has forgotten them by then.
    assert_eq!(mapping["DestinationConfig"]["OnFailure"]["Type"], "S3");
    assert_eq!(properties("Orders")["StreamSpecification"]["StreamViewType"], "NEW_AND_OLD_IMAGES");
}

#[test]
fn what_cannot_be_made_again_is_kept_and_can_be_brought_back() {
    for name in ["Orders", "Audit", "RelayFailures"] {
        let resource = &template()["Resources"][name];
        assert_eq!(
            (&resource["DeletionPolicy"], &resource["UpdateReplacePolicy"]),
            (&json!("Retain"), &json!("Retain"))
        );
    }
    for (name, table) in resources("AWS::DynamoDB::Table") {
        let table = &table["Properties"];
        assert_eq!(table["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"], true, "{name}");
        assert_eq!(table["SSESpecification"]["SSEEnabled"], true, "{name}");
        assert_eq!(table["DeletionProtectionEnabled"], json!({ "If": ["IsProd", true, false] }), "{name}");
    }
    let audit = properties("Audit");
    assert!(audit["StreamSpecification"].is_null() && audit["TimeToLiveSpecification"].is_null());
    assert_eq!(
        properties("Orders")["TimeToLiveSpecification"],
        json!({ "AttributeName": "expires_at", "Enabled": true })
    );
}

/// Whole records with the names of buyers lie in it.
#[test]
fn nobody_outside_reads_what_the_relay_gave_up() {
    let bucket = properties("RelayFailures");
    let closed = ["BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets"];
    for way in closed {
        assert_eq!(bucket["PublicAccessBlockConfiguration"][way], true, "{way}");
    }
    let policy = &properties("RelayFailuresPolicy")["PolicyDocument"]["Statement"][0];
    assert_eq!(
        (&policy["Effect"], &policy["Principal"], &policy["Action"]),
        (&json!("Deny"), &json!("*"), &json!("s3:*"))
    );
    assert_eq!(policy["Condition"], json!({ "Bool": { "aws:SecureTransport": "false" } }));
}

#[test]
fn redis_refuses_rather_than_forgets_and_only_functions_reach_it() {
    assert_eq!(properties("RedisParameters")["Properties"]["maxmemory-policy"], "noeviction");
    let valkey = properties("Valkey");
    for on in ["AutomaticFailoverEnabled", "MultiAZEnabled", "TransitEncryptionEnabled", "AtRestEncryptionEnabled"] {
        assert_eq!(valkey[on], true, "{on}");
    }
    assert_eq!(valkey["AuthToken"]["Sub"], "{{resolve:secretsmanager:${RedisPassword}}}");
    assert_eq!(valkey["CacheParameterGroupName"], json!({ "Ref": "RedisParameters" }));
    assert_eq!(valkey["SecurityGroupIds"], json!([{ "Ref": "RedisGroup" }]));
    let ways = resources("AWS::EC2::SecurityGroupIngress");
    let [(_, way)] = ways.as_slice() else { panic!("{ways:?}") };
    assert_eq!(way["Properties"]["SourceSecurityGroupId"], json!({ "Ref": "FunctionsGroup" }));
    assert!(properties("RedisGroup")["SecurityGroupIngress"].is_null());
}

#[test]
fn a_function_is_in_the_network_exactly_if_it_asks_redis() {
    for (name, function) in resources("AWS::Serverless::Function") {
        let function = &function["Properties"];
        let asks = !function["Environment"]["Variables"]["HOLDFAST_REDIS_URL"].is_null();
        assert_eq!(!function["VpcConfig"].is_null(), asks, "{name}");
        assert_eq!(asks, name != "Relay", "{name}");
    }
}

#[test]
fn schedules_do_not_pile_up() {
    for (function, schedule) in
        [("Reconcile", "EveryFiveMinutes"), ("ExpireOrders", "EveryMinute"), ("RebalanceStock", "EveryMinute")]
    {
        let every = event(function, schedule)["Schedule"].as_str().unwrap().to_owned();
        let minutes: i64 = every.trim_start_matches("rate(").split(' ').next().unwrap().parse().unwrap();
        let function = properties(function);
        assert!(function["Timeout"].as_i64().unwrap() < 60 * minutes, "{every}");
        assert_eq!(function["EventInvokeConfig"]["MaximumRetryAttempts"], 0);
    }
}
