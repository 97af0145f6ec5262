//! A keyed permutation of `0..size` that is computed, not stored.
//!
//! A Feistel network permutes the next power of four; values outside `0..size` walk on until
//! they fall inside (Black and Rogaway 2002). So the hundred-thousandth fresh client is found without
//! listing the others.

use rand::RngCore;

use crate::numerics::streams::StreamKey;

const ROUNDS: usize = 6;

/// A bijection of `0..size`, fixed by its key.
#[derive(Clone, Debug)]
pub struct Permutation {
    size: u64,
    half_bits: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// Creates the permutation of `0..size` that this key determines.
    pub fn new(size: u64, key: StreamKey) -> Permutation {
        let bits = u64::BITS - size.saturating_sub(1).leading_zeros();
        let mut rng = key.rng();
        Permutation {
            size,
            half_bits: bits.div_ceil(2).max(1),
            keys: std::array::from_fn(|_| rng.next_u64()),
        }
    }

    /// Returns the image of `index < size`.
    pub fn at(&self, index: u64) -> u64 {
        debug_assert!(index < self.size);
        let mut value = index;
        loop {
            value = self.pass(value);
            if value < self.size {
                return value;
            }
        }
    }

    fn pass(&self, value: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (value >> self.half_bits, value & mask);
        for key in self.keys {
            (left, right) = (right, left ^ (scramble(right ^ key) & mask));
        }
        (left << self.half_bits) | right
    }
}

/// Applies SplitMix64's finalizer.
fn scramble(x: u64) -> u64 {
    let z = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::Domain;

    #[test]
    fn every_size_is_a_bijection_and_keys_differ() {
        let key = StreamKey::new(3, Domain::Cohort);
        for size in [1u64, 2, 3, 5, 64, 65, 1000] {
            let permutation = Permutation::new(size, key);
            let mut seen: Vec<u64> = (0..size).map(|i| permutation.at(i)).collect();
            seen.sort_unstable();
            assert_eq!(seen, (0..size).collect::<Vec<_>>());
        }
        let of = |key| -> Vec<u64> {
            let permutation = Permutation::new(1000, key);
            (0..20).map(|i| permutation.at(i)).collect()
        };
        assert_ne!(of(key), of(key.step(1)));
        assert_ne!(of(key), (0..20).collect::<Vec<_>>());
    }
}
