//! The plan of a sale: the same for the same seed, and of the shape that was asked for.

use std::collections::{BTreeMap, BTreeSet};

use dev::sale::garbage::Garbage;
use dev::sale::plan::{Plan, Quirk, SLOT, Visit, Want};
use dev::sale::shape::Shape;

fn plan(requests: u64, seed: u64) -> (Shape, Plan) {
    let shape = Shape::of(requests, None, None).unwrap();
    (shape, Plan::new(&shape, seed))
}

#[test]
fn the_same_seed_gives_the_same_requests_and_another_gives_others() {
    let (_, first) = plan(20_000, 7);
    assert_eq!(first, plan(20_000, 7).1);
    assert_ne!(first, plan(20_000, 8).1);
}

#[test]
fn a_plan_has_exactly_the_requests_of_its_shape() {
    for requests in [1_000, 5_000, 126_000] {
        let (shape, plan) = plan(requests, 1);
        assert_eq!(plan.visits.iter().map(|(_, visit)| visit.requests()).sum::<u64>(), requests);
        let mut buyers = BTreeSet::new();
        let (mut doubles, mut lost, mut replays, mut queries, mut garbage) = (0, 0, 0, 0, 0);
        for (_, visit) in &plan.visits {
            match visit {
                Visit::Order { buyer, quirk, .. } => {
                    assert!(buyers.insert(*buyer), "a buyer comes once");
                    match quirk {
                        Quirk::None => {}
                        Quirk::Replay(times) => replays += u64::from(*times),
                        Quirk::DoubleClick => doubles += 1,
                        Quirk::LostReply => lost += 1,
                    }
                }
                Visit::Garbage(..) => garbage += 1,
                _ => queries += 1,
            }
        }
        assert_eq!(buyers.len() as u64, shape.buyers);
        let counted = (doubles, lost, replays, queries, garbage);
        assert_eq!(
            counted,
            (shape.double_clicks, shape.lost_replies, shape.replays, shape.queries, shape.garbage),
            "{requests}"
        );
    }
}

#[test]
fn the_first_burst_and_the_peaks_have_470_requests_in_a_slot() {
    let (_, plan) = plan(126_000, 1);
    assert_eq!(SLOT.as_millis(), 100);
    let mut slots: BTreeMap<u32, u64> = BTreeMap::new();
    for (slot, visit) in &plan.visits {
        *slots.entry(*slot).or_default() += visit.requests();
    }
    // A visit of up to four requests may begin in the last place of a slot.
    assert!((0..20).all(|slot| (470..=473).contains(&slots[&slot])), "{slots:?}");
    assert!(slots.values().all(|requests| *requests <= 473));
    assert!((300..=303).contains(&slots[&25]) && (470..=473).contains(&slots[&31]));
    assert!(plan.visits.is_sorted_by_key(|(slot, _)| slot));
}

#[test]
fn queries_come_among_orders_at_two_point_three_to_one() {
    let (shape, plan) = plan(126_000, 1);
    let is_query =
        |visit: &Visit| matches!(visit, Visit::SeeActivity | Visit::SeeOrder { .. } | Visit::SeeOrders { .. });
    let first = plan.visits.iter().position(|(_, visit)| is_query(visit)).unwrap();
    let last = plan.visits.iter().rposition(|(_, visit)| is_query(visit)).unwrap();
    let orders = plan.visits[first..=last].iter().filter(|(_, visit)| matches!(visit, Visit::Order { .. })).count();
    let ratio = shape.queries * 10 / orders as u64;
    assert!((22..=24).contains(&ratio), "{ratio}");
}

#[test]
fn every_kind_of_garbage_and_of_wish_is_there() {
    let (_, plan) = plan(126_000, 1);
    let mut kinds = BTreeSet::new();
    let mut wants: BTreeMap<Want, u64> = BTreeMap::new();
    for (_, visit) in &plan.visits {
        match visit {
            Visit::Garbage(kind, _) => {
                kinds.insert(*kind);
            }
            Visit::Order { want, .. } => *wants.entry(*want).or_default() += 1,
            _ => {}
        }
    }
    assert_eq!(kinds.len(), Garbage::ALL.len());
    // Carts of up to five lines.
    assert!(wants[&Want::THREE] > 200 && wants[&Want::FIVE] > 100, "{wants:?}");
    assert!(wants[&Want::CASE] > 300 && wants[&Want::PIN] > 100 && wants[&Want::PHONE_AND_CASE] > 800, "{wants:?}");
}
