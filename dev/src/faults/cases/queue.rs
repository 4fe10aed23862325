//! Faults of the roll-back queue. What fills it is transactions that are applied and never answered.

use std::sync::Arc;
use std::time::Duration;

use aws_lambda_events::sqs::SqsEvent;
use redis::AsyncCommands;
use servers::{Fault, FaultKind};

use super::super::FaultCase;
use super::super::scene::Scene;
use super::super::setup::Setup;
use super::case;
use super::database::{impatient, strike_times};
use crate::functions::Functions;
use crate::stack::StartError;

/// Attempts of transactions that are applied and not answered: three make one unknown outcome.
const AMBIGUOUS: u32 = 45;
/// Attempts that never arrive: their orders do not exist, and somebody has to find that out.
const DROPPED: u32 = 45;
/// Messages that nobody can read.
const POISON: usize = 5;
/// Messages that overtake their transactions.
const EARLY: u64 = 5;
/// Longer than all attempts of a call together.
const VERY_SLOW: Duration = Duration::from_secs(4);

pub(super) fn cases() -> Vec<FaultCase> {
    let repeated = |setup: &mut Setup| {
        impatient(setup);
        setup.wrap = Some(twice);
    };
    let early = |setup: &mut Setup| {
        impatient(setup);
        setup.early_messages = true;
    };
    vec![
        case!(Queue, "unavailable", "SQS is unavailable while outcomes are unknown", unavailable).with(impatient),
        case!(Queue, "duplicates", "each batch is delivered twice at once, the second in reverse", unknown)
            .with(repeated),
        case!(Queue, "early", "messages overtake the transactions that they are about", early_messages).with(early),
        case!(Queue, "poison", "messages that nobody can read, between others", poison).with(impatient),
        case!(Queue, "function-fails", "the consumer's database calls fail: messages come again", consumer_fails)
            .with(impatient),
        case!(Queue, "beyond-keys", "messages come when Redis has forgotten the sale's keys", beyond_keys)
            .with(impatient),
    ]
}

/// Every batch to two runs of the consumer at the same time.
fn twice(functions: Functions) -> Functions {
    let consumer = Arc::clone(&functions.roll_back);
    let roll_back = move |event: SqsEvent| {
        let mut reversed = event.clone();
        reversed.records.reverse();
        let (one, other) = (consumer(event), consumer(reversed));
        let both = async move {
            let (answer, _) = tokio::join!(one, other);
            answer
        };
        Box::pin(both) as crate::functions::Later<_>
    };
    Functions { roll_back: Arc::new(roll_back), ..functions }
}

/// Orders that exist and orders that do not, and nobody who was told.
async fn unknown(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    strike_times(scene, FaultKind::DropAfter, AMBIGUOUS).await?;
    strike_times(scene, FaultKind::DropBefore, DROPPED).await
}

async fn unavailable(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let sqs = scene.stage.stack.backend.sqs.control().clone();
    sqs.inject(Fault::standing("SendMessage", FaultKind::DropBefore));
    unknown(scene).await?;
    scene.until_seen("20", 10).await?;
    let lost = sqs.strikes();
    sqs.clear();
    scene.claim("messages were lost", lost > 0, format!("{lost} sends failed"));
    Ok(())
}

async fn early_messages(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    strike_times(scene, FaultKind::Delay(VERY_SLOW), AMBIGUOUS).await?;
    let early = |scene: &Scene| scene.stage.sqs_proxy.as_ref().map_or(0, |proxy| proxy.counts().rewritten);
    scene.until("messages come early", |scene| early(scene) >= EARLY).await?;
    let early = early(scene);
    scene.struck(early);
    Ok(())
}

async fn poison(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let backend = &scene.stage.stack.backend;
    let url = backend.queues.roll_back_url.clone().unwrap_or_default();
    for number in 0..POISON {
        let body = [r#"{"format":99}"#, "not even JSON", "{}", r#"{"format":1,"activity":"sale"}"#, "[]"][number];
        backend.sdk.sqs.send_message().queue_url(&url).message_body(body).send().await?;
    }
    strike_times(scene, FaultKind::DropBefore, DROPPED).await?;
    scene.end().await?;
    let [dead, _] = scene.stage.stack.dead_letters().await?;
    let numbers = format!("{dead} dead letters for {POISON} unreadable messages");
    scene.claim("only what cannot be read is a dead letter", usize::try_from(dead) == Ok(POISON), numbers);
    scene.struck(dead);
    Ok(())
}

async fn consumer_fails(scene: &mut Scene) -> Result<(), StartError> {
    unknown(scene).await?;
    let control = scene.stage.stack.backend.dynamodb.control().clone();
    control.inject(Fault::standing("PutItem", FaultKind::Error500));
    let roll_back = Arc::clone(&scene.stage.stack.roll_back);
    let failed = || roll_back.failed.load(std::sync::atomic::Ordering::Relaxed);
    scene.until("messages fail", |_| failed() >= 3).await?;
    control.clear();
    scene.struck(failed());
    Ok(())
}

/// The bucket's keys are gone, as after their life, before the messages come: a restock writes its
/// record and no stock.
async fn beyond_keys(scene: &mut Scene) -> Result<(), StartError> {
    scene.under_way().await?;
    let sqs = scene.stage.stack.backend.sqs.control().clone();
    sqs.inject(Fault::standing("ReceiveMessage", FaultKind::Error500));
    unknown(scene).await?;
    let waiting = scene.stage.stack.messages_waiting().await?;
    scene.claim("messages wait", waiting > 0, format!("{waiting} messages"));
    scene.load.finish().await;
    scene.stage.stop_schedule().await;
    let keys: Vec<String> = (0..scene.setup.buckets)
        .flat_map(|bucket| ["bucket", "orders", "ledger"].map(|key| scene.key(bucket, key)))
        .collect();
    let gone: u64 = scene.stage.connect().await?.del(keys).await?;
    scene.claim("the keys were there", gone > 0, format!("{gone} keys"));
    sqs.clear();
    Ok(())
}
