//! Reading records and marks.

use std::collections::BTreeSet;

use holdfast::{
    domain::{
        limit::{Limit, LimitScope},
        order::Take,
    },
    ports::{GateRefusal, PlaceAnswer, StockGate},
};

use super::support::{World, bucket};

pub async fn every_record_and_mark_is_listed(world: &World) {
    let limit = Limit { scope: LimitScope::Sku, max: 9 };
    let sale = world.sale_of(1, &[("a", 1000), ("b", 1000)], |activity| activity.limit = limit).await;
    let mut orders = BTreeSet::new();
    for n in 0..300_u16 {
        let placement = sale.placement(&format!("b|{n}"), 1, &[("a", 1), ("b", 2)]);
        while world.place(&sale, &placement).await == PlaceAnswer::Refused(GateRefusal::Limited) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        orders.insert(placement.order_no);
    }
    world.hset(&sale.keys(0).orders, orders.first().unwrap().as_str(), "garbage").await;
    // What cannot be listed by number keeps nothing else from it.
    world.hset(&sale.keys(0).orders, "A|eve", "garbage").await;
    world.hset(&sale.keys(0).orders, "garbage", "garbage").await;
    let (mut records, mut marked, mut bad, mut cursor, mut pages) = (BTreeSet::new(), Vec::new(), 0, Some(0), 0);
    while let Some(at) = cursor {
        let page = world.gate.list_records(&sale.activity.id, bucket(0), at).await.unwrap();
        bad += page.records.iter().filter(|(_, record)| record.is_err()).count();
        records.extend(page.records.into_iter().map(|(order_no, _)| order_no));
        marked.extend(page.marked);
        (cursor, pages) = (page.next, pages + 1);
    }
    assert!(pages > 1);
    assert_eq!((&records, bad), (&orders, 1));
    assert_eq!(marked.len(), 600, "one mark per SKU");
    assert_eq!(marked.into_iter().collect::<BTreeSet<_>>(), orders);
    world.flush(&sale, 0).await;
    let page = world.gate.list_records(&sale.activity.id, bucket(0), 0).await.unwrap();
    assert!(page.records.is_empty() && page.next.is_none());
}

pub async fn a_mark_is_told_by_order_number(world: &World) {
    let sale = world.sale(1, &[("a", 9)]).await;
    let (first, second) = (sale.placement("alice", 1, &[("a", 1)]), sale.placement("alice", 2, &[("a", 1)]));
    assert!(!world.marked(&sale, &first).await);
    assert_eq!(world.place(&sale, &first).await, PlaceAnswer::Admitted(vec![1]));
    assert!(world.marked(&sale, &first).await);
    assert!(!world.marked(&sale, &second).await, "the buyer is marked, but not by this order");
    assert_eq!(world.place(&sale, &second).await, PlaceAnswer::Admitted(vec![1]));
    let _ = world.gate.restock(&sale.activity, &first.order_no, bucket(0), Take::FIRST, false, None).await.unwrap();
    assert!(!world.marked(&sale, &first).await && world.marked(&sale, &second).await);
}
