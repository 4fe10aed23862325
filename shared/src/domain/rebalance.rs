//! Which units go to another bucket, so that a buyer's home has stock while any bucket has much, and so that what is
//! left near the end lies in few places.

use std::cmp::Reverse;

use super::ids::Bucket;

/// Units per bucket under which stock is drawn together: an order of several units finds them in one place, and a
/// buyer whose home is empty finds one bucket that has some. A bucket takes some hundred orders a second, so these
/// few are sold from one as fast as from many.
pub const MERGE_UNDER: u64 = 16;

/// Units of one SKU that go from one bucket to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shift {
    pub from: Bucket,
    pub to: Bucket,
    pub units: u64,
}

/// What to shift between buckets that have so much free.
///
/// With enough for all, only a bucket that has less than half of its share gets some, from those above their share:
/// small differences are left alone. With less, the fullest few keep the stock and the others give them all they
/// have.
#[must_use]
pub fn shifts(free: &[(Bucket, u64)]) -> Vec<Shift> {
    let total: u64 = free.iter().map(|(_, units)| units).sum();
    let keepers = (total / MERGE_UNDER).clamp(1, u64::try_from(free.len()).unwrap_or(1).max(1));
    let share = total / keepers;
    let mut by_units = free.to_vec();
    by_units.sort_by_key(|(bucket, units)| (Reverse(*units), *bucket));
    let (kept, dropped) = by_units.split_at(usize::try_from(keepers).unwrap_or(usize::MAX).min(by_units.len()));
    let merging = !dropped.is_empty();
    let givers: Vec<(Bucket, u64)> = if merging {
        dropped.iter().filter(|(_, units)| *units > 0).copied().collect()
    } else {
        kept.iter().filter(|(_, units)| *units > share).map(|(bucket, units)| (*bucket, units - share)).collect()
    };
    // The emptiest first.
    let takers = kept.iter().rev().filter(|(_, units)| merging || units * 2 < share);
    let mut takers: Vec<(Bucket, u64)> =
        takers.map(|(bucket, units)| (*bucket, share.saturating_sub(*units))).collect();
    if merging && let Some((_, room)) = takers.first_mut() {
        // Whole buckets move: what rounding leaves over goes somewhere.
        *room = (*room).max(total);
    }
    pour(givers, takers)
}

fn pour(givers: Vec<(Bucket, u64)>, takers: Vec<(Bucket, u64)>) -> Vec<Shift> {
    let mut shifts = Vec::new();
    let mut givers = givers.into_iter();
    let mut giver = givers.next();
    // Those with room for little first, so that nothing is left for a bucket that is full.
    let mut takers = takers;
    takers.sort_by_key(|(bucket, room)| (*room, *bucket));
    for (to, mut room) in takers {
        while let Some((from, left)) = giver
            && room > 0
        {
            let units = left.min(room);
            shifts.push(Shift { from, to, units });
            room -= units;
            giver = if left > units { Some((from, left - units)) } else { givers.next() };
        }
    }
    shifts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn buckets(free: &[u64]) -> Vec<(Bucket, u64)> {
        free.iter().zip(0..).map(|(units, index)| (Bucket::new(index).unwrap(), *units)).collect()
    }

    fn after(free: &[u64]) -> Vec<u64> {
        let mut left = free.to_vec();
        for shift in shifts(&buckets(free)) {
            left[usize::from(shift.from.get())] -= shift.units;
            left[usize::from(shift.to.get())] += shift.units;
        }
        left
    }

    #[test]
    fn a_bucket_that_is_nearly_empty_gets_its_share() {
        assert_eq!(after(&[400, 0, 400, 0]), [200, 200, 200, 200]);
        assert_eq!(after(&[1_000, 10, 200, 190]), [660, 350, 200, 190]);
        // More than half of the share: left alone.
        assert_eq!(shifts(&buckets(&[100, 60, 110, 130])), []);
        assert_eq!(shifts(&buckets(&[50])), []);
    }

    #[test]
    fn what_is_left_near_the_end_is_drawn_together() {
        assert_eq!(after(&[1, 1, 1, 1, 1, 1, 1, 1]), [8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(after(&[2, 2, 3, 2]), [0, 0, 9, 0]);
        assert_eq!(after(&[9, 9, 9, 9]).iter().filter(|units| **units > 0).count(), 2);
        assert_eq!(shifts(&buckets(&[0, 5, 0])), [], "there already");
        assert_eq!(shifts(&buckets(&[0, 0])), []);
        assert_eq!(shifts(&[]), []);
    }

    proptest! {
        #[test]
        fn no_unit_is_lost_and_a_second_look_finds_nothing_to_do(free in proptest::collection::vec(0_u64..200, 1..64)) {
            let all = shifts(&buckets(&free));
            for shift in &all {
                prop_assert!(shift.from != shift.to && shift.units > 0);
            }
            prop_assert!(all.len() < 2 * free.len());
            let left = after(&free);
            prop_assert_eq!(left.iter().sum::<u64>(), free.iter().sum::<u64>());
            prop_assert_eq!(shifts(&buckets(&left)), vec![]);
            // With enough for all, none is left with less than half of its share.
            let share = free.iter().sum::<u64>() / u64::try_from(free.len()).unwrap();
            if share >= MERGE_UNDER {
                prop_assert!(left.iter().all(|units| units * 2 >= share), "{:?}", left);
            }
        }
    }
}
