//! Transactions that overlap, as AWS refuses them.

use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::ProvideErrorMetadata;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{ConditionCheck, Get, TransactGetItem, TransactWriteItem};
use servers::{Dynamodb, DynamodbOptions, Fault, FaultKind};

use crate::clients::{self, TABLE, create_table, exists, key, put};

/// Long enough for the second call to arrive during the first one on a loaded machine.
const LATENCY: Duration = Duration::from_millis(300);

async fn start(conflicts: bool) -> (Dynamodb, Client) {
    let options = DynamodbOptions { conflicts, ..DynamodbOptions::default() };
    let server = Dynamodb::start(options).await.unwrap();
    let client = clients::dynamodb(server.endpoint());
    create_table(&client).await;
    server.set_latency(LATENCY);
    (server, client)
}

/// Answers the codes of the cancellation reasons, or the error's code when it has none.
async fn transact(client: &Client, actions: Vec<TransactWriteItem>, token: Option<&str>) -> Result<(), Vec<String>> {
    let request = client
        .transact_write_items()
        .set_transact_items(Some(actions))
        .set_client_request_token(token.map(str::to_owned));
    let Err(error) = request.send().await else {
        return Ok(());
    };
    match error.as_service_error() {
        Some(TransactWriteItemsError::TransactionCanceledException(canceled)) => {
            let reasons = canceled.cancellation_reasons().iter();
            Err(reasons.map(|reason| reason.code().unwrap().to_owned()).collect())
        }
        _ => Err(vec![error.code().unwrap_or("no answer").to_owned()]),
    }
}

fn conflict(codes: &[&str]) -> Result<(), Vec<String>> {
    Err(codes.iter().map(|code| (*code).to_owned()).collect())
}

/// Waits until the server has counted a transaction more than `before`, so that it is in flight.
async fn in_flight(server: &Dynamodb, before: u64) {
    while server.control().count("TransactWriteItems") == before {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn of_two_overlapping_transactions_the_later_is_refused_with_reasons_in_order() {
    let (server, client) = start(true).await;
    let second = async {
        in_flight(&server, 0).await;
        transact(&client, vec![put("c"), put("a"), put("d"), put("b")], None).await
    };
    let (first, second) = tokio::join!(transact(&client, vec![put("a"), put("b")], None), second);
    assert_eq!(first, Ok(()));
    let expected = ["None", "TransactionConflict", "None", "TransactionConflict"];
    assert_eq!(second, conflict(&expected));
    assert!(!exists(&client, "c").await, "a refused transaction is not applied");
    // Nothing stays locked, and what was refused locked nothing.
    assert_eq!(transact(&client, vec![put("c"), put("a")], None).await, Ok(()));
}

#[tokio::test]
async fn of_many_simultaneous_transactions_on_an_item_exactly_one_is_applied() {
    let (server, client) = start(true).await;
    let mut racing = tokio::task::JoinSet::new();
    for index in 0..8 {
        let client = client.clone();
        racing.spawn(async move { transact(&client, vec![put(&format!("own{index}")), put("shared")], None).await });
    }
    let results = racing.join_all().await;
    let refused = conflict(&["None", "TransactionConflict"]);
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 1);
    assert_eq!(results.iter().filter(|result| **result == refused).count(), 7);
    assert_eq!(server.control().count("TransactWriteItems"), 8);
}

#[tokio::test]
async fn transactions_that_share_nothing_go_side_by_side() {
    let (_server, client) = start(true).await;
    let (first, second) =
        tokio::join!(transact(&client, vec![put("a")], None), transact(&client, vec![put("b")], None));
    assert_eq!((first, second), (Ok(()), Ok(())));
}

#[tokio::test]
async fn other_operations_on_an_item_in_a_transaction_are_refused() {
    let (server, client) = start(true).await;
    let check = ConditionCheck::builder()
        .table_name(TABLE)
        .set_key(Some(key("checked")))
        .condition_expression("attribute_not_exists(pk)")
        .build()
        .unwrap();
    let check = TransactWriteItem::builder().condition_check(check).build();
    let others = async {
        in_flight(&server, 0).await;
        let (put, update, delete) = tokio::join!(
            client.put_item().table_name(TABLE).set_item(Some(key("a"))).send(),
            client.update_item().table_name(TABLE).set_key(Some(key("checked"))).send(),
            client.delete_item().table_name(TABLE).set_key(Some(key("a"))).send()
        );
        let codes = [
            put.unwrap_err().code().unwrap().to_owned(),
            update.unwrap_err().code().unwrap().to_owned(),
            delete.unwrap_err().code().unwrap().to_owned(),
        ];
        assert_eq!(codes, ["TransactionConflictException"; 3]);
    };
    let (applied, ()) = tokio::join!(transact(&client, vec![put("a"), check], None), others);
    assert_eq!(applied, Ok(()));
}

#[tokio::test]
async fn reads_in_a_transaction_are_refused_and_plain_reads_are_not() {
    let (server, client) = start(true).await;
    let reads = async {
        in_flight(&server, 0).await;
        let get = Get::builder().table_name(TABLE).set_key(Some(key("a")));
        let get = TransactGetItem::builder().get(get.build().unwrap()).build();
        let read = client.transact_get_items().transact_items(get).send();
        let (read, _) = tokio::join!(read, exists(&client, "a"));
        let code = read.unwrap_err().code().unwrap().to_owned();
        assert_eq!(code, "TransactionCanceledException");
    };
    let (applied, ()) = tokio::join!(transact(&client, vec![put("a")], None), reads);
    assert_eq!(applied, Ok(()));
}

#[tokio::test]
async fn a_transaction_sent_again_is_in_progress_first_and_answered_like_the_first_later() {
    let (server, client) = start(true).await;
    let again = async {
        in_flight(&server, 0).await;
        transact(&client, vec![put("a")], Some("token")).await
    };
    let (first, again) = tokio::join!(transact(&client, vec![put("a")], Some("token")), again);
    assert_eq!(first, Ok(()));
    assert_eq!(again, conflict(&["TransactionInProgressException"]));
    assert_eq!(transact(&client, vec![put("a")], Some("token")).await, Ok(()));
}

#[tokio::test]
async fn without_conflicts_both_are_applied_one_after_the_other() {
    let (_server, client) = start(false).await;
    let (first, second) =
        tokio::join!(transact(&client, vec![put("a")], None), transact(&client, vec![put("a")], None));
    assert_eq!((first, second), (Ok(()), Ok(())));
}

#[tokio::test]
async fn an_injected_conflict_marks_every_action() {
    let (server, client) = start(false).await;
    let fault = Fault::once("TransactWriteItems", FaultKind::Conflict);
    server.control().inject(fault);
    let result = transact(&client, vec![put("a"), put("b"), put("c")], None).await;
    assert_eq!(result, conflict(&["TransactionConflict"; 3]));
    assert!(!exists(&client, "a").await);
}
