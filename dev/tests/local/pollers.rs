//! What the event source mappings make of a function's answer.

use aws_lambda_events::sqs::SqsBatchResponse;
use dev::pollers::queue::succeeded;
use dev::pollers::stream::handled;
use serde_json::{Value, json};

fn answer(failed: &[&str]) -> SqsBatchResponse {
    let mut answer = SqsBatchResponse::default();
    for id in failed {
        answer.add_failure(*id);
    }
    answer
}

#[test]
fn f18_only_messages_that_did_not_fail_are_deleted() {
    let batch = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
    for (failed, done) in [
        (&[][..], &["a", "b", "c"][..]),
        (&["b"], &["a", "c"]),
        (&["a", "b", "c"], &[]),
        // As Lambda does it: a name that makes no sense fails the whole batch.
        (&["x"], &[]),
        (&[""], &[]),
    ] {
        assert_eq!(succeeded(batch.iter(), &answer(failed)), done, "{failed:?}");
    }
}

#[test]
fn a_stream_batch_goes_on_at_its_first_failure() {
    let records: Vec<Value> = ["5", "6", "7"].map(|n| json!({ "dynamodb": { "SequenceNumber": n } })).into();
    let failures = |named: &[Value]| {
        let failures: Vec<Value> = named.iter().map(|name| json!({ "itemIdentifier": name })).collect();
        json!({ "batchItemFailures": failures })
    };
    for (named, done) in [
        (vec![], 3),
        (vec![json!("7")], 2),
        (vec![json!("7"), json!("6")], 1),
        (vec![json!("5")], 0),
        (vec![json!("9")], 0),
        (vec![json!("")], 0),
        (vec![Value::Null], 0),
    ] {
        assert_eq!(handled(&records, &failures(&named)), done, "{named:?}");
    }
    assert_eq!(handled(&records, &Value::Null), 3, "no answer at all is success");
}
