//! Clients of the local servers. They do not retry, so that a test sees every answer.

use std::collections::HashMap;

use aws_sdk_dynamodb::config::{BehaviorVersion, Credentials, Region, retry::RetryConfig};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, KeySchemaElement, KeyType, Put, ScalarAttributeType,
    TransactWriteItem,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;

pub const TABLE: &str = "orders";

fn credentials() -> Credentials {
    Credentials::new("local", "local", None, None, "tests")
}

pub fn dynamodb(endpoint: &str) -> aws_sdk_dynamodb::Client {
    let config = aws_sdk_dynamodb::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .credentials_provider(credentials())
        .region(Region::new("eu-west-1"))
        .retry_config(RetryConfig::disabled())
        .endpoint_url(endpoint)
        .build();
    aws_sdk_dynamodb::Client::from_conf(config)
}

pub fn sqs(endpoint: &str) -> aws_sdk_sqs::Client {
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(aws_sdk_sqs::config::BehaviorVersion::latest())
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .credentials_provider(credentials())
        .region(aws_sdk_sqs::config::Region::new("eu-west-1"))
        .retry_config(aws_sdk_sqs::config::retry::RetryConfig::disabled())
        .endpoint_url(endpoint)
        .build();
    aws_sdk_sqs::Client::from_conf(config)
}

/// Creates [`TABLE`] with the key `pk`, `sk`, both strings.
pub async fn create_table(client: &aws_sdk_dynamodb::Client) {
    let mut request = client.create_table().table_name(TABLE).billing_mode(BillingMode::PayPerRequest);
    for (name, key_type) in [("pk", KeyType::Hash), ("sk", KeyType::Range)] {
        let definition = AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::S);
        let key = KeySchemaElement::builder().attribute_name(name).key_type(key_type);
        request = request.attribute_definitions(definition.build().unwrap()).key_schema(key.build().unwrap());
    }
    request.send().await.unwrap();
}

pub fn key(pk: &str) -> HashMap<String, AttributeValue> {
    let text = |value: &str| AttributeValue::S(value.to_owned());
    HashMap::from([("pk".to_owned(), text(pk)), ("sk".to_owned(), text("#"))])
}

pub fn put(pk: &str) -> TransactWriteItem {
    let put = Put::builder().table_name(TABLE).set_item(Some(key(pk)));
    TransactWriteItem::builder().put(put.build().unwrap()).build()
}

pub async fn exists(client: &aws_sdk_dynamodb::Client, pk: &str) -> bool {
    let got = client.get_item().table_name(TABLE).set_key(Some(key(pk)));
    got.send().await.unwrap().item.is_some()
}

/// Sends a call of DynamoDB Streams and answers the status and the body.
pub async fn streams_call(endpoint: &str, operation: &str, body: &str) -> (u16, String) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let request = http::Request::post(endpoint)
        .header("content-type", "application/x-amz-json-1.0")
        .header("x-amz-target", format!("DynamoDBStreams_20120810.{operation}"))
        .header("x-amz-date", "20260101T000000Z")
        .header(
            "authorization",
            "AWS4-HMAC-SHA256 Credential=local/20260101/eu-west-1/dynamodb/aws4_request, \
             SignedHeaders=host, Signature=0",
        )
        .body(Full::from(body.to_owned()))
        .unwrap();
    let reply = client.request(request).await.unwrap();
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}
