//! How stock is split over buckets, and which buckets fill an order that its home bucket cannot.

use super::{
    ids::{Bucket, BucketCount, Sku},
    order::Part,
};
use sha2::{Digest, Sha256};

/// Most actions of the order transaction. The service takes 100; the rest is room for what joins the
/// same transaction later (coupon, move).
pub const ACTIONS_MAX: usize = 90;

/// Splits stock evenly. The remainder starts at a bucket that depends on the SKU, so that SKUs with
/// few units do not all land in the first buckets.
#[must_use]
pub fn split(sku: &Sku, stock: u64, buckets: BucketCount) -> Vec<(Bucket, u64)> {
    let count = u64::from(buckets.get());
    let (each, remainder) = (stock / count, stock % count);
    let offset = u64::from(Sha256::digest(sku.as_str().as_bytes())[0]) % count;
    buckets
        .all()
        .map(|bucket| {
            let turn = (u64::from(bucket.get()) + count - offset) % count;
            (bucket, each + u64::from(turn < remainder))
        })
        .collect()
}

/// What one bucket offers to an order that looks for more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketOffer {
    pub bucket: Bucket,
    /// Units that the order may hold here per SKU: what is free, plus what it already holds.
    pub available: Vec<(Sku, u64)>,
    /// Whether the order already has a record here, from an earlier try.
    pub has_record: bool,
}

impl BucketOffer {
    fn free(&self, sku: &Sku) -> u64 {
        self.available.iter().find(|(offered, _)| offered == sku).map_or(0, |(_, free)| *free)
    }
}

/// One of these by chance, each as likely as its weight is great. `None` when none has any.
#[must_use]
pub fn by_weight<T: Copy>(weights: &[(T, u64)], dice: u64) -> Option<T> {
    let total = weights.iter().map(|(_, weight)| weight).sum::<u64>();
    let mut place = dice.checked_rem(total)?;
    let found = weights.iter().find(|(_, weight)| {
        let here = place < *weight;
        place = place.saturating_sub(*weight);
        here
    });
    found.map(|(one, _)| *one)
}

/// As [`fill`], but an order that one bucket alone can fill goes to any of those that can, more likely to one that
/// has much: so that those who look around at the same moment do not all meet in the fullest, where their
/// transactions would cancel each other. A bucket that already holds part of this order comes first.
#[must_use]
pub fn fill_apart(missing: &[(Sku, u32)], offers: &[BucketOffer], parts_max: usize, dice: u64) -> Option<Vec<Part>> {
    let has_all = |offer: &&BucketOffer| missing.iter().all(|(sku, units)| offer.free(sku) >= u64::from(*units));
    let weight = |offer| (offer, missing.first().map_or(0, |(sku, _)| BucketOffer::free(offer, sku)));
    let weights: Vec<(&BucketOffer, u64)> = offers.iter().filter(has_all).map(weight).collect();
    match by_weight(&weights, dice) {
        Some(one) if !offers.iter().any(|offer| offer.has_record) => {
            fill(missing, std::slice::from_ref(one), parts_max)
        }
        _ => fill(missing, offers, parts_max),
    }
}

/// Which buckets fill the missing units, with as few parts as it can: a bucket that already holds
/// part of this order first, then one that covers a whole line, then the fullest ones.
///
/// `None` when all together have too little, or when more than `parts_max` parts were needed.
#[must_use]
pub fn fill(missing: &[(Sku, u32)], offers: &[BucketOffer], parts_max: usize) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    for (sku, units) in missing.iter().filter(|(_, units)| *units > 0) {
        let mut sources: Vec<(&BucketOffer, u64)> = offers
            .iter()
            .filter_map(|offer| {
                let free = offer.free(sku);
                (free > 0).then_some((offer, free))
            })
            .collect();
        sources.sort_by_key(|(offer, free)| {
            let covers = *free >= u64::from(*units);
            (!offer.has_record, !covers, std::cmp::Reverse(*free), offer.bucket)
        });
        let mut left = *units;
        for (offer, free) in sources {
            if left == 0 {
                break;
            }
            let units = left.min(u32::try_from(free).unwrap_or(u32::MAX));
            parts.push(Part { sku: sku.clone(), bucket: offer.bucket, units });
            left -= units;
        }
        if left > 0 {
            return None;
        }
    }
    (parts.len() <= parts_max).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sku(text: &str) -> Sku {
        Sku::parse(text).unwrap()
    }

    fn offer(bucket: u16, free: u64, has_record: bool) -> BucketOffer {
        BucketOffer { bucket: Bucket::new(bucket).unwrap(), available: vec![(sku("a"), free)], has_record }
    }

    proptest! {
        #[test]
        fn a_split_loses_nothing_and_differs_by_one_at_most(stock in 0_u64..10_000, buckets in 1_u16..=64, name in "[a-z]{1,8}") {
            let parts = split(&sku(&name), stock, BucketCount::new(buckets).unwrap());
            prop_assert_eq!(parts.iter().map(|(_, units)| units).sum::<u64>(), stock);
            let (low, high) = (parts.iter().map(|p| p.1).min().unwrap(), parts.iter().map(|p| p.1).max().unwrap());
            prop_assert!(high - low <= 1);
        }

        #[test]
        fn a_fill_is_exact_or_refused(need in 1_u32..20, free in proptest::collection::vec(0_u64..5, 1..8)) {
            let offers: Vec<_> = free.iter().enumerate().map(|(b, f)| offer(u16::try_from(b).unwrap(), *f, false)).collect();
            match fill(&[(sku("a"), need)], &offers, ACTIONS_MAX) {
                Some(parts) => {
                    prop_assert_eq!(parts.iter().map(|p| p.units).sum::<u32>(), need);
                    for part in parts {
                        prop_assert!(u64::from(part.units) <= free[usize::from(part.bucket.get())]);
                    }
                }
                None => prop_assert!(free.iter().sum::<u64>() < u64::from(need)),
            }
        }
    }

    proptest! {
        #[test]
        fn a_fill_apart_is_a_fill(
            need in 1_u32..12, free in proptest::collection::vec((0_u64..8, any::<bool>()), 1..8), dice in any::<u64>(),
        ) {
            let offers: Vec<_> =
                free.iter().zip(0..).map(|((free, record), bucket)| offer(bucket, *free, *record)).collect();
            let missing = [(sku("a"), need)];
            let (apart, plain) = (fill_apart(&missing, &offers, 9, dice), fill(&missing, &offers, 9));
            prop_assert_eq!(apart.is_some(), plain.is_some());
            for part in apart.iter().flatten() {
                prop_assert!(u64::from(part.units) <= free[usize::from(part.bucket.get())].0);
            }
            prop_assert_eq!(apart.iter().flatten().map(|part| part.units).sum::<u32>(), if plain.is_some() { need } else { 0 });
            prop_assert!(apart.map_or(0, |parts| parts.len()) <= plain.map_or(0, |parts| parts.len()));
        }
    }

    #[test]
    fn those_who_look_at_once_go_to_different_buckets() {
        let offers = [offer(0, 0, false), offer(1, 30, false), offer(2, 60, false), offer(3, 1, false)];
        let mut went = [0; 4];
        for dice in 0..900 {
            let parts = fill_apart(&[(sku("a"), 2)], &offers, 9, dice * 31).unwrap();
            went[usize::from(parts[0].bucket.get())] += 1;
        }
        assert_eq!((went[0], went[3]), (0, 0), "they do not have enough");
        assert!((250..350).contains(&went[1]) && went[1] + went[2] == 900, "{went:?}");
        assert_eq!(by_weight::<u8>(&[], 7), None);
        assert_eq!(by_weight(&[(1, 0), (2, 0)], 7), None);
    }

    #[test]
    fn small_skus_do_not_all_land_in_the_first_bucket() {
        let eight = BucketCount::new(8).unwrap();
        let first = |name: &str| split(&sku(name), 1, eight).into_iter().find(|(_, units)| *units == 1).unwrap().0;
        let homes: std::collections::BTreeSet<_> = ["a", "b", "c", "d", "e", "f", "g", "h"].map(first).into();
        assert!(homes.len() > 2, "{homes:?}");
    }

    #[test]
    fn one_bucket_that_covers_the_line_is_preferred_and_an_old_part_before_it() {
        let offers = [offer(0, 2, false), offer(1, 3, false), offer(2, 9, false)];
        let bucket = |parts: Option<Vec<Part>>| parts.unwrap().iter().map(|p| p.bucket.get()).collect::<Vec<_>>();
        assert_eq!(bucket(fill(&[(sku("a"), 3)], &offers, 9)), [2]);
        let offers = [offer(0, 2, true), offer(2, 9, false)];
        assert_eq!(bucket(fill(&[(sku("a"), 3)], &offers, 9)), [0, 2]);
        assert_eq!(fill(&[(sku("a"), 3)], &offers, 1), None);
    }
}
