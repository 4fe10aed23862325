//! Batches that the service answers in part. The local server never does, so an interceptor takes the
//! answer away and calls the keys unprocessed.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use aws_sdk_dynamodb::{
    Client,
    config::{
        ConfigBag, Intercept, RuntimeComponents,
        interceptors::{BeforeSerializationInterceptorContextMut, FinalizerInterceptorContextMut},
    },
    error::BoxError,
    operation::batch_get_item::{BatchGetItemInput, BatchGetItemOutput},
    types::KeysAndAttributes,
};
use holdfast::ports::{Effect, StockStore};

use crate::world::{World, bucket, database, sale};

/// Leaves so many batches unprocessed: of each, all keys but the first.
#[derive(Clone, Debug, Default)]
struct Busy {
    batches: Arc<AtomicU32>,
    asked: Arc<Mutex<HashMap<String, KeysAndAttributes>>>,
}

impl Intercept for Busy {
    fn name(&self) -> &'static str {
        "Busy"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(input) = context.input_mut().downcast_mut::<BatchGetItemInput>() else { return Ok(()) };
        let left = self.batches.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        let mut asked = self.asked.lock().unwrap();
        asked.clear();
        if left.is_ok() {
            let tables = input.request_items.as_mut().unwrap();
            asked.clone_from(tables);
            for wanted in tables.values_mut() {
                wanted.keys.truncate(1);
            }
            for wanted in asked.values_mut() {
                wanted.keys.remove(0);
            }
            asked.retain(|_, wanted| !wanted.keys.is_empty());
        }
        Ok(())
    }

    fn modify_before_completion(
        &self,
        context: &mut FinalizerInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let output = context.output_or_error_mut().and_then(|answer| answer.as_mut().ok());
        if let Some(output) = output.and_then(|output| output.downcast_mut::<BatchGetItemOutput>()) {
            output.unprocessed_keys = Some(self.asked.lock().unwrap().clone());
        }
        Ok(())
    }
}

#[tokio::test]
async fn unprocessed_keys_are_asked_for_again_with_a_bound() {
    let world = World::start().await;
    let names: Vec<String> = (0..30).map(|n| format!("sku{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for name in &names {
        world.open(name, 0, 5).await;
    }
    let busy = Busy::default();
    let config = aws_sdk_dynamodb::config::Builder::from(&world.config).interceptor(busy.clone()).build();
    let database = database(Client::from_conf(config));
    busy.batches.store(3, Ordering::Relaxed);
    let items = database.bucket_stock(&sale(&names), bucket(0)).await.unwrap();
    assert_eq!((items.len(), world.control().count("BatchGetItem")), (30, 4));
    busy.batches.store(u32::MAX, Ordering::Relaxed);
    let fault = database.bucket_stock(&sale(&names), bucket(0)).await.unwrap_err();
    assert_eq!((fault.effect, world.control().count("BatchGetItem")), (Effect::None, 4 + 20));
}
