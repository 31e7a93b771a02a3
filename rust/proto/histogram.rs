// SPDX-License-Identifier: GPL-2.0

//! Buckets of a histogram of times. Each bucket is twice as wide as the one before.

/// The number of buckets.
pub const BUCKETS: usize = 24;

/// Returns the bucket of a time of `micros` microseconds. Bucket `n` has the times of at least `2^n`
/// and less than `2^(n+1)` microseconds. The first bucket also has all shorter times, and the last
/// one, which begins at 8.4 seconds, all longer ones.
#[inline]
pub fn bucket(micros: u64) -> usize {
    // CAST: Less than 64.
    (micros.checked_ilog2().unwrap_or(0) as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_times_from_a_power_of_two_to_the_next() {
        for n in 1..BUCKETS - 1 {
            assert_eq!(bucket(1 << n), n);
            assert_eq!(bucket((1 << n) + 1), n);
            assert_eq!(bucket((2 << n) - 1), n);
        }
    }

    #[test]
    fn the_outer_buckets_have_all_other_times() {
        assert_eq!((bucket(0), bucket(1)), (0, 0));
        assert_eq!(bucket(1 << (BUCKETS - 1)), BUCKETS - 1);
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }
}
