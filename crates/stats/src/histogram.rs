//! Buckets of a histogram of event times: 64 for each doubling, so a bucket is at most 1.6 % wide.
//!
//! This module contains only the arithmetic. The counts are kept where workers can update them without a
//! lock.

/// Sub-buckets of a doubling, as a power of two.
const SUB_BITS: u32 = 6;

/// Times at or above 2^40 ns (18 minutes) share the last bucket.
const TOP_BITS: u32 = 40;

/// Number of buckets.
pub const BUCKETS: usize = ((TOP_BITS - SUB_BITS + 1) << SUB_BITS) as usize;

/// Returns the bucket of a time in nanoseconds.
pub fn bucket(ns: u64) -> usize {
    let ns = ns.min((1 << TOP_BITS) - 1);
    if ns < 1 << SUB_BITS {
        return ns as usize;
    }
    let exponent = ns.ilog2() - SUB_BITS;
    (u64::from((exponent + 1) << SUB_BITS) + (ns >> exponent) - (1 << SUB_BITS)) as usize
}

/// Returns the midpoint of a bucket in nanoseconds.
pub fn midpoint(bucket: usize) -> f64 {
    let (exponent, sub) = ((bucket >> SUB_BITS) as u32, bucket & ((1 << SUB_BITS) - 1));
    match exponent {
        0 => sub as f64,
        _ => {
            let width = 1u64 << (exponent - 1);
            ((1 << SUB_BITS) + sub) as f64 * width as f64 + (width - 1) as f64 / 2.0
        }
    }
}

/// Returns the `q`-quantile of counts by bucket, in nanoseconds: the midpoint of the bucket that contains
/// the event of that rank. `None` where nothing was counted.
pub fn quantile(buckets: &[(u32, u64)], q: f64) -> Option<f64> {
    let total: u64 = buckets.iter().map(|&(_, count)| count).sum();
    let rank = ((total as f64 * q).ceil() as u64).clamp(1, total.max(1));
    let mut seen = 0;
    buckets
        .iter()
        .find(|&&(_, count)| {
            seen += count;
            seen >= rank
        })
        .map(|&(index, _)| midpoint(index as usize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_time_lies_within_one_percent_of_its_bucket(ns in 0u64..(1 << 40)) {
            let index = bucket(ns);
            prop_assert!(index < BUCKETS);
            prop_assert!((midpoint(index) - ns as f64).abs() <= 0.008 * ns as f64 + 0.5, "{ns} {}", midpoint(index));
        }

        #[test]
        fn buckets_ascend(a in 0u64..u64::MAX, b in 0u64..u64::MAX) {
            prop_assert!(bucket(a.min(b)) <= bucket(a.max(b)));
        }
    }

    #[test]
    fn the_largest_time_has_the_last_bucket() {
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket((1 << 40) - 1), BUCKETS - 1);
    }

    #[test]
    fn quantiles_take_the_bucket_of_the_rank() {
        let buckets = [(10, 90), (20, 9), (30, 1)];
        assert_eq!(quantile(&buckets, 0.5), Some(10.0));
        assert_eq!(quantile(&buckets, 0.95), Some(20.0));
        assert_eq!(quantile(&buckets, 1.0), Some(30.0));
        assert_eq!(quantile(&[], 0.5), None);
    }
}
