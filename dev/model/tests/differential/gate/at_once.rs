//! Calls that run at once, each from a process of its own: answers and state must be those of some
//! order of them in the reference.

use std::sync::Arc;

use model::reference::gate::Gate;
use proptest::test_runner::TestCaseError;
use tokio::{sync::Barrier, task::JoinSet};

use super::{
    answer::{Answer, expect},
    ask::ask,
    check,
    operation::Operation,
    stage::Stage,
};
use crate::run::permutations;

pub async fn group(stage: &mut Stage<'_>, group: &[Operation]) -> Result<(), TestCaseError> {
    stage.step += 1;
    let mut second = None;
    for operation in group {
        second = stage.begin_second(operation).await.or(second);
    }
    let answers = ask_all(stage, group).await;
    let before = stage.gates.clone();
    let after = stage.reread().await;
    if second.is_some_and(|second| second != after) {
        return Err(TestCaseError::reject("a second of Redis's clock ended meanwhile"));
    }
    let mut tried = Vec::new();
    for order in permutations(group.len()) {
        let mut gates: Vec<Gate> = before.clone();
        let expected = order.iter().map(|at| (*at, expect(&stage.cast, &mut gates, &group[*at], stage.moments())));
        let expected: Vec<(usize, Answer)> = expected.collect();
        let unlike = expected.iter().find(|(at, answer)| answers[*at] != *answer);
        if let Some((at, answer)) = unlike {
            tried.push(format!("  in the order {order:?}, call {at} answers {answer:?}"));
            continue;
        }
        stage.gates = gates;
        match stage.compare(&"at once") {
            Ok(()) => return Ok(()),
            Err(differs) => tried.push(format!("  in the order {order:?}: {differs}")),
        }
    }
    stage.gates = before;
    let told: Vec<String> =
        (0..).zip(&answers).map(|(at, answer): (usize, _)| format!("  {at}: {answer:?}\n")).collect();
    Err(TestCaseError::fail(format!(
        "no order of the calls gives what they gave:\n{}{}",
        told.concat(),
        tried.join("\n")
    )))
}

async fn ask_all(stage: &mut Stage<'_>, group: &[Operation]) -> Vec<Answer> {
    let at = stage.moments();
    let ready = Arc::new(Barrier::new(group.len()));
    let mut running = JoinSet::new();
    for (index, operation) in group.iter().enumerate() {
        let (gate, cast, operation) = (stage.server.another_gate(), stage.cast.clone(), operation.clone());
        let ready = ready.clone();
        running.spawn(async move {
            // Its connection is made before all of them start.
            let warm = Operation::ReadBucket { at: check::buckets().next().unwrap().0 };
            let _ = ask(&cast, &gate, &warm, at, None).await;
            ready.wait().await;
            (index, ask(&cast, &gate, &operation, at, None).await)
        });
    }
    let mut answers = running.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}
