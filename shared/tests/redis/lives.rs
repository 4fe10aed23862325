//! How long keys live.

use holdfast::{
    adapters::redis::keys,
    domain::order::Take,
    ports::{OrderGate, PlaceAnswer, StockGate, TokenGate, Undone},
};

use super::support::{World, bucket, now};

pub async fn every_key_has_a_life_and_marks_outlive_stock(world: &World) {
    let sale = world.sale(1, &[("a", 5)]).await;
    let keys = sale.keys(0);
    let placement = sale.placement("alice", 1, &[("a", 1)]);
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![1]));
    // The last record goes: a hash that is emptied would lose its life.
    assert_eq!(world.gate.undo(&sale.activity, &placement, bucket(0)).await.unwrap(), Undone::Done);
    // A ledger that went missing comes back with a life.
    world.del(&keys.ledger).await;
    assert_eq!(world.place(&sale, &placement).await, PlaceAnswer::Admitted(vec![1]));
    assert!(world.gate.allow_token(&sale.activity.id, bucket(0), &placement.buyer, 9).await.unwrap().is_ok());
    let now = now().get();
    let stock = world.expires_at(&keys.bucket).await - now;
    assert_eq!(world.expires_at(&keys.bucket).await, sale.activity.stock_keys_expire_at().get());
    for key in [&keys.orders, &keys.ledger] {
        let life = world.expires_at(key).await - now;
        assert!(life >= 2 * stock - 60_000, "{key}: {life} ms, stock {stock} ms");
    }
    let tokens = world.expires_at(&keys::tokens(&sale.activity.id, bucket(0), &placement.buyer)).await - now;
    assert!((0..=61_000).contains(&tokens), "{tokens}");
}

pub async fn keys_made_on_a_flushed_bucket_have_a_life(world: &World) {
    let sale = world.sale(1, &[("a", 5)]).await;
    let keys = sale.keys(0);
    let placement = sale.placement("alice", 1, &[("a", 1)]);
    world.flush(&sale, 0).await;
    let _ = world.gate.restock(&sale.activity, &placement.order_no, bucket(0), Take::FIRST, false).await.unwrap();
    let expected = sale.activity.marks_expire_at(now()).get();
    for key in [&keys.orders, &keys.ledger] {
        assert!((world.expires_at(key).await - expected).abs() < 60_000, "{key}");
    }
    assert_eq!(world.expires_at(&keys.bucket).await, -2, "no stock key was made");
}
