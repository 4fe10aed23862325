//! Who may do what.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::read::{list, properties, resources, template, texts};

/// What is allowed on everything, in which policy, and why.
const WILD: [(&str, &str, &str); 4] = [
    ("UseNetwork", "ec2:DescribeNetworkInterfaces", "EC2 does not narrow a description"),
    ("UseNetwork", "ec2:DescribeSubnets", "EC2 does not narrow a description"),
    ("WriteLogs", "xray:PutTelemetryRecords", "X-Ray has no resources to name"),
    ("WriteLogs", "xray:PutTraceSegments", "X-Ray has no resources to name"),
];

/// What each function may do beside logs, traces, secrets and the network: `<service>:<action> <resource>`.
const MAY: [(&str, &[&str]); 11] = [
    ("IssueToken", &["dynamodb:GetItem Orders"]),
    (
        "PlaceOrder",
        &[
            "dynamodb:BatchGetItem Orders",
            "dynamodb:GetItem Orders",
            "dynamodb:PutItem Orders",
            "dynamodb:UpdateItem Orders",
            "sqs:SendMessage RollBacks",
        ],
    ),
    (
        "CancelOrder",
        &[
            "dynamodb:GetItem Orders",
            "dynamodb:PutItem Orders",
            "dynamodb:UpdateItem Orders",
            "sqs:SendMessage RollBacks",
        ],
    ),
    (
        "Payment",
        &[
            "dynamodb:BatchGetItem Orders",
            "dynamodb:GetItem Orders",
            "dynamodb:PutItem Orders",
            "dynamodb:Query Orders",
            "dynamodb:UpdateItem Orders",
            "secretsmanager:GetSecretValue WebhookSecretsSecret",
            "sqs:SendMessage RollBacks",
        ],
    ),
    ("Query", &["dynamodb:BatchGetItem Orders", "dynamodb:GetItem Orders", "dynamodb:Query Orders"]),
    (
        "Console",
        &[
            "dynamodb:BatchGetItem Orders",
            "dynamodb:GetItem Orders",
            "dynamodb:PutItem Audit",
            "dynamodb:PutItem Orders",
            "dynamodb:Query Audit",
            "dynamodb:Query Orders",
            "dynamodb:Query Orders/index/home_orders",
            "dynamodb:UpdateItem Orders",
            "sqs:SendMessage RollBacks",
        ],
    ),
    (
        "RollBack",
        &[
            "dynamodb:GetItem Orders",
            "dynamodb:PutItem Orders",
            "dynamodb:UpdateItem Orders",
            "sqs:DeleteMessage RollBacks",
            "sqs:GetQueueAttributes RollBacks",
            "sqs:ReceiveMessage RollBacks",
        ],
    ),
    (
        "Reconcile",
        &[
            "dynamodb:BatchGetItem Orders",
            "dynamodb:DeleteItem Orders",
            "dynamodb:GetItem Orders",
            "dynamodb:PutItem Audit",
            "dynamodb:PutItem Orders",
            "dynamodb:Query Audit",
            "dynamodb:Query Orders",
            "dynamodb:Query Orders/index/home_orders",
            "dynamodb:UpdateItem Orders",
            "sqs:GetQueueAttributes RollBacks",
        ],
    ),
    (
        "ExpireOrders",
        &[
            "dynamodb:BatchGetItem Orders",
            "dynamodb:GetItem Orders",
            "dynamodb:PutItem Orders",
            "dynamodb:Query Orders",
            "dynamodb:Query Orders/index/home_orders",
            "dynamodb:UpdateItem Orders",
            "sqs:SendMessage RollBacks",
        ],
    ),
    (
        "RebalanceStock",
        &[
            "dynamodb:BatchGetItem Orders",
            "dynamodb:GetItem Orders",
            "dynamodb:PutItem Orders",
            "dynamodb:Query Orders",
            "dynamodb:UpdateItem Orders",
        ],
    ),
    (
        "Relay",
        &[
            "dynamodb:DescribeStream Orders.StreamArn",
            "dynamodb:GetRecords Orders.StreamArn",
            "dynamodb:GetShardIterator Orders.StreamArn",
            "dynamodb:ListStreams Orders/stream/*",
            "dynamodb:PutItem Audit",
            "s3:ListBucket RelayFailures",
            "s3:PutObject RelayFailures/*",
            "sqs:SendMessage Fulfilment",
            "sqs:SendMessage RelayDeadLetters",
        ],
    ),
];

/// Every statement of every policy document that allows something, with the resource it stands in.
fn allowed() -> Vec<(String, Value)> {
    fn statements(value: &Value) -> Vec<Value> {
        match value {
            Value::Array(all) => all.iter().flat_map(statements).collect(),
            Value::Object(all) => {
                let here = all.get("Statement").map(list).unwrap_or_default();
                here.into_iter().chain(all.values().flat_map(statements)).collect()
            }
            _ => Vec::new(),
        }
    }
    let all = template();
    let of = |(name, it): (&String, &Value)| statements(it).into_iter().map(|s| (name.clone(), s)).collect::<Vec<_>>();
    let all: Vec<_> = all["Resources"].as_object().unwrap().iter().flat_map(of).collect();
    all.into_iter().filter(|(_, statement)| statement["Effect"] != "Deny").collect()
}

/// `!GetAtt Orders.Arn`, `!Ref X` and `!Sub '${Orders.Arn}/stream/*'` in the same short form.
fn short(resource: &Value) -> String {
    let text = texts(resource).join(" ");
    let secret = text.split("secret:${").nth(1).and_then(|rest| rest.split('}').next());
    secret.map_or_else(|| text.replace("${", "").replace('}', "").replace(".Arn", ""), str::to_owned)
}

#[test]
fn nothing_is_allowed_on_everything_but_what_is_listed_and_explained() {
    let mut found = BTreeSet::new();
    for (name, statement) in allowed() {
        let (actions, resources) = (list(&statement["Action"]), list(&statement["Resource"]));
        let wild_action = actions.iter().any(|action| action.as_str().unwrap().contains('*'));
        let wild_resource = resources.iter().any(|resource| texts(resource).iter().any(|text| text == "*"));
        if name == "DynamoDbWay" {
            // The gateway lets all actions through, but to these tables only; roles decide about actions.
            assert_eq!(resources.iter().map(short).collect::<Vec<_>>(), ["Orders", "Orders/index/*", "Audit"]);
            continue;
        }
        assert!(!wild_action, "{name} allows {actions:?}");
        if wild_resource {
            found.extend(actions.iter().map(|action| (name.clone(), action.as_str().unwrap().to_owned())));
        }
    }
    let listed = WILD.map(|(name, action, _)| (name.to_owned(), action.to_owned())).into();
    assert_eq!(found, listed);
}

#[test]
fn each_function_has_its_own_role_and_may_do_only_this() {
    let functions = resources("AWS::Serverless::Function");
    let listed: BTreeSet<&str> = MAY.iter().map(|(name, _)| *name).collect();
    assert_eq!(functions.iter().map(|(name, _)| name.as_str()).collect::<BTreeSet<_>>(), listed);
    for (name, function) in functions {
        let own = json!({ "GetAtt": format!("{name}Role.Arn") });
        assert_eq!(function["Properties"]["Role"], own, "{name}: a role that SAM makes may more");
        assert!(function["Properties"]["Policies"].is_null() && function["Connectors"].is_null(), "{name}");
        let role = properties(&format!("{name}Role"));
        let documents = list(&role["Policies"]);
        let statements = documents.iter().flat_map(|policy| list(&policy["PolicyDocument"]["Statement"]));
        let may: BTreeSet<String> = statements
            .flat_map(|statement| {
                let resources = list(&statement["Resource"]);
                let actions = list(&statement["Action"]).into_iter();
                let pairs = actions.flat_map(move |action| {
                    let action = action.as_str().unwrap().to_owned();
                    resources.clone().into_iter().map(move |resource| format!("{action} {}", short(&resource)))
                });
                pairs.collect::<Vec<_>>()
            })
            .collect();
        let (_, listed) = MAY.iter().find(|(listed, _)| *listed == name).unwrap();
        assert_eq!(may, listed.iter().map(|&it| it.to_owned()).collect(), "{name}");
    }
}

#[test]
fn audit_rows_are_put_and_never_changed_or_removed() {
    for (name, statement) in allowed() {
        if name == "DynamoDbWay" || !list(&statement["Resource"]).iter().any(|it| short(it).starts_with("Audit")) {
            continue;
        }
        for action in list(&statement["Action"]) {
            assert!(["dynamodb:PutItem", "dynamodb:Query"].contains(&action.as_str().unwrap()), "{name}: {action}");
        }
    }
}

#[test]
fn secrets_are_given_by_reference_and_to_whom_they_concern() {
    let mut readers = BTreeSet::new();
    for (name, function) in resources("AWS::Serverless::Function") {
        let variables = function["Properties"]["Environment"]["Variables"].as_object().unwrap().clone();
        for (variable, value) in &variables {
            let texts = texts(value);
            assert!(!texts.iter().any(|text| text.contains("resolve:")), "{name} shows {variable}");
            if ["HOLDFAST_TOKEN_KEYS", "HOLDFAST_WEBHOOK_SECRETS"].contains(&variable.as_str()) {
                // Declared where a local run may give it; empty all the same.
                assert_eq!(*value, json!({ "If": ["OtherDynamoDb", "", { "Ref": "AWS::NoValue" }] }), "{name}");
            }
            assert_ne!(variable, "HOLDFAST_REDIS_PASSWORD", "{name}");
        }
        let managed = texts(&properties(&format!("{name}Role"))["ManagedPolicyArns"]);
        let reads = |policy: &str| managed.iter().any(|text| text == policy);
        assert_eq!(variables.contains_key("HOLDFAST_TOKEN_KEYS_SECRET"), reads("ReadTokenKeys"), "{name}");
        assert_eq!(variables.contains_key("HOLDFAST_REDIS_PASSWORD_SECRET"), reads("ReadRedisPassword"), "{name}");
        if reads("ReadTokenKeys") {
            readers.insert(name);
        }
    }
    assert_eq!(readers, ["CancelOrder", "IssueToken", "PlaceOrder"].map(str::to_owned).into());
}

#[test]
fn every_call_needs_a_token_but_two_and_operators_need_a_scope_as_well() {
    let mut open = Vec::new();
    let mut seen = 0;
    for (name, function) in resources("AWS::Serverless::Function") {
        let events = function["Properties"]["Events"].as_object().unwrap().clone();
        for event in events.values().filter(|event| event["Type"] == "HttpApi") {
            let call = &event["Properties"];
            let path = call["Path"].as_str().unwrap();
            seen += 1;
            if call["Auth"]["Authorizer"] == "NONE" {
                open.push(format!("{} {path}", call["Method"].as_str().unwrap()));
            }
            let scopes = json!([{ "Ref": "OperatorScope" }]);
            let admin = path.starts_with("/v1/admin/");
            assert_eq!(call["Auth"]["AuthorizationScopes"] == scopes, admin, "{name} {path}");
        }
    }
    open.sort();
    assert_eq!(open, ["GET /v1/activities/{activity}", "POST /v1/payments/webhook"]);
    let auth = properties("Api")["Auth"].clone();
    assert_eq!(auth["DefaultAuthorizer"], "Jwt");
    let trusted = json!({ "issuer": { "Ref": "JwtIssuer" }, "audience": { "Ref": "JwtAudience" } });
    assert_eq!(auth["Authorizers"]["Jwt"]["JwtConfiguration"], trusted);
    assert_eq!(auth["Authorizers"]["Jwt"]["IdentitySource"], "$request.header.Authorization");
    assert!(seen > 15, "{seen}");
}
