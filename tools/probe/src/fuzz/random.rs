// SPDX-License-Identifier: GPL-2.0

//! Pseudo-random numbers that depend only on the seed.

/// A pseudo-random number generator (xorshift64*).
pub(super) struct Random(u64);

impl Random {
    /// Creates generator number `index` of `seed`.
    pub(super) fn new(seed: u64, index: u64) -> Self {
        // Mixes the bits, so that neighbouring seeds give unrelated numbers. The state must not be
        // 0.
        let mut state = seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Self((state ^ (state >> 31)) | 1)
    }

    /// Returns the next number.
    pub(super) fn word(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        ((u64::from(self.word()) * end as u64) >> 32) as usize
    }

    /// Returns true once in `n` times on average.
    pub(super) fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// Returns one of `choices`, which must not be empty.
    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let numbers = |seed, index| {
            let mut random = Random::new(seed, index);
            [random.word(), random.word(), random.word()]
        };
        assert_eq!(numbers(1, 2), numbers(1, 2));
        assert_ne!(numbers(1, 2), numbers(1, 3));
        assert_ne!(numbers(1, 2), numbers(2, 2));
    }

    #[test]
    fn every_number_below_the_end_comes() {
        let mut random = Random::new(7, 7);
        let mut seen = [false; 10];
        (0..1000).for_each(|_| seen[random.below(10)] = true);
        assert_eq!(seen, [true; 10]);
        assert_eq!(random.below(0), 0);
    }
}
