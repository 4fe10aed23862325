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
                let free = offer.available.iter().find(|(offered, _)| offered == sku)?.1;
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
