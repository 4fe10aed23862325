//! Random scripts. What is tried more often comes from where the rules meet: few orders, little stock,
//! a limit that two orders reach.

use holdfast::domain::limit::LimitScope;
use model::reference::{Bucket, Part, Sku, Units, gate::Allotment};
use proptest::{collection::vec, option, prelude::*, sample::subsequence, strategy::BoxedStrategy};

use super::operation::{Fault, Operation, Scene, Script, Spoil, TooGreat, allotment};
use crate::cast::{BUCKETS, CARTS, CONFIGURATIONS, FILLERS_MAX, ORDERS, SKUS, Submission};

/// Steps of a script.
const STEPS: std::ops::RangeInclusive<usize> = 1..=55;
/// Steps before a group, and calls in it.
const STEPS_BEFORE_GROUP: std::ops::RangeInclusive<usize> = 0..=8;
const GROUP: std::ops::RangeInclusive<usize> = 1..=5;

pub fn scripts() -> impl Strategy<Value = Script> {
    (scene(), vec(step(), STEPS)).prop_map(|(scene, steps)| Script { scene, steps, group: Vec::new() })
}

/// A few steps, then a group of calls at once on few orders.
pub fn groups() -> impl Strategy<Value = Script> {
    let group = vec(call(&few(), &Just(0).boxed()), GROUP);
    (scene(), vec(step(), STEPS_BEFORE_GROUP), group).prop_map(|(scene, steps, group)| Script { scene, steps, group })
}

fn scene() -> impl Strategy<Value = Scene> {
    let scope = prop_oneof![Just(LimitScope::Activity), Just(LimitScope::Sku), Just(LimitScope::Day)];
    let stock = option::weighted(0.9, vec(0_u16..7, 2..=usize::from(SKUS)));
    let configuration = prop_oneof![6 => Just(1_u16), 3 => Just(2), 1 => Just(3), 1 => Just(4)];
    (scope, prop_oneof![1_u16..8, Just(100)], configuration, stock)
        .prop_map(|(scope, limit, configuration, stock)| Scene { scope, limit, configuration, stock })
}

/// What the submission of this number mostly asks for.
pub fn default_cart(order: u8) -> u8 {
    order % u8::try_from(CARTS.len()).unwrap()
}

/// Whether the call begins after midnight.
fn late() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.15)
}

fn submission() -> BoxedStrategy<Submission> {
    let carts = u8::try_from(CARTS.len()).unwrap();
    // Mostly what its number says, so that retries ask for the same.
    let cart = prop_oneof![4 => Just(None), 1 => (0..carts).prop_map(Some)];
    (0..ORDERS, cart, late())
        .prop_map(move |(order, cart, late)| Submission { order, cart: cart.unwrap_or(default_cart(order)), late })
        .boxed()
}

/// Submissions that meet: two buyers of one home, two orders each.
fn few() -> BoxedStrategy<Submission> {
    (0_u8..4, 0_u8..3, late())
        .prop_map(|(order, cart, late)| Submission { order: [0, 1, 3, 4][usize::from(order)], cart, late })
        .boxed()
}

fn bucket() -> BoxedStrategy<u8> {
    (0..BUCKETS).boxed()
}

fn units() -> impl Strategy<Value = Vec<(u8, Units)>> {
    let skus: Vec<u8> = (0..SKUS).collect();
    (subsequence(skus, 1..=usize::from(SKUS)), vec(0_u16..4, usize::from(SKUS)))
        .prop_map(|(skus, units)| skus.into_iter().zip(units).collect())
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = (0..SKUS, 0..BUCKETS, 0_u16..4);
    vec(part, 0..4).prop_map(|parts| {
        parts.into_iter().map(|(sku, bucket, units)| Part { sku: Sku(sku), bucket: Bucket(bucket), units }).collect()
    })
}

fn allotments() -> impl Strategy<Value = Vec<Allotment>> {
    let skus: Vec<u8> = (0..SKUS).collect();
    let details = vec((0_u16..9, 0_u16..9, prop::bool::weighted(0.8)), usize::from(SKUS));
    (subsequence(skus, 1..=usize::from(SKUS)), details).prop_map(|(skus, details)| {
        let one = |(sku, (units, version, on_sale))| allotment(sku, units, version, on_sale);
        skus.into_iter().zip(details).map(one).collect()
    })
}

fn stale() -> impl Strategy<Value = bool> {
    prop::bool::weighted(0.05)
}

fn configuration() -> impl Strategy<Value = u16> {
    1..=u16::try_from(CONFIGURATIONS.len()).unwrap()
}

/// A call of the gate.
fn call(of: &BoxedStrategy<Submission>, at: &BoxedStrategy<u8>) -> BoxedStrategy<Operation> {
    let (of, at) = (|| of.clone(), || at.clone());
    let take = || prop_oneof![3 => Just(1_u8), 1 => Just(2_u8)];
    prop_oneof![
        24 => (of(), prop::bool::weighted(0.3), stale()).prop_map(|(of, look, stale)| Operation::Place { of, look, stale }),
        12 => (of(), at(), units(), stale())
            .prop_map(|(of, at, units, stale)| Operation::Deduct { of, at, units, stale }),
        8 => (of(), at()).prop_map(|(of, at)| Operation::Undo { of, at }),
        10 => (of(), at(), take(), prop::bool::weighted(0.3), any::<bool>())
            .prop_map(|(of, at, take, keep_mark, known)| Operation::Restock { of, at, take, keep_mark, known }),
        10 => (of(), take(), at(), parts())
            .prop_map(|(of, take, at, parts)| Operation::Restore { of, take, at, parts }),
        3 => (at(), configuration(), allotments())
            .prop_map(|(at, version, allotments)| Operation::Preheat { at, version, allotments }),
        6 => (at(), allotments()).prop_map(|(at, allotments)| Operation::SyncAllotment { at, allotments }),
        1 => (at(), configuration()).prop_map(|(at, version)| Operation::SyncControl { at, version }),
        4 => (at(), any::<bool>()).prop_map(|(at, repair)| Operation::Sum { at, repair }),
        6 => (of(), stale()).prop_map(|(of, stale)| Operation::Look { of, stale }),
        3 => (of(), at()).prop_map(|(of, at)| Operation::Record { order: of.order, at }),
        2 => at().prop_map(|at| Operation::ReadBucket { at }),
        2 => at().prop_map(|at| Operation::ListRecords { at }),
        3 => of().prop_map(|of| Operation::Marked { of }),
    ]
    .boxed()
}

fn step() -> BoxedStrategy<Operation> {
    let anything = || call(&submission(), &bucket());
    prop_oneof![
        82 => anything(),
        8 => fault().prop_map(Operation::Fault),
        8 => (spoil(), anything()).prop_map(|(what, then)| Operation::Spoiled { what, then: Box::new(then) }),
        2 => (bucket(), too_great()).prop_map(|(at, number)| Operation::TooGreat { at, number }),
    ]
    .boxed()
}

fn fault() -> BoxedStrategy<Fault> {
    prop_oneof![
        4 => Just(Fault::NextSecond),
        2 => bucket().prop_map(|at| Fault::LoseStock { at }),
        2 => bucket().prop_map(|at| Fault::LoseOrders { at }),
        2 => bucket().prop_map(|at| Fault::LoseLedger { at }),
        1 => Just(Fault::LoseAll),
        1 => Just(Fault::ForgetScripts),
        3 => bucket().prop_map(|at| Fault::ReplicaStops { at }),
        4 => bucket().prop_map(|at| Fault::FailOver { at }),
        3 => (bucket(), 0..SKUS, prop_oneof![-3..0_i32, 1..4_i32], any::<bool>())
            .prop_map(|(at, sku, by, sold)| Fault::Drift { at, sku, by, sold }),
        2 => (0..ORDERS, FILLERS_MAX - 3..=FILLERS_MAX).prop_map(|(order, others)| Fault::Crowd { order, others }),
    ]
    .boxed()
}

fn spoil() -> BoxedStrategy<Spoil> {
    prop_oneof![
        2 => Just(Spoil::BucketKey),
        2 => Just(Spoil::OrdersKey),
        3 => Just(Spoil::LedgerKey),
        2 => any::<u8>().prop_map(Spoil::Control),
        2 => any::<u8>().prop_map(Spoil::Admitted),
        4 => (0..SKUS, any::<u8>()).prop_map(|(sku, garbage)| Spoil::Sku(sku, garbage)),
        2 => (0..SKUS).prop_map(Spoil::GreatSku),
        4 => any::<u8>().prop_map(Spoil::Record),
        3 => Just(Spoil::Placement),
        4 => any::<u8>().prop_map(Spoil::Mark),
    ]
    .boxed()
}

fn too_great() -> BoxedStrategy<TooGreat> {
    prop_oneof![
        Just(TooGreat::PreheatUnits),
        Just(TooGreat::PreheatVersion),
        Just(TooGreat::PreheatConfiguration),
        Just(TooGreat::SyncUnits),
        Just(TooGreat::SyncVersion),
        Just(TooGreat::SyncConfiguration),
    ]
    .boxed()
}
