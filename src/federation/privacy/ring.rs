//! Fixed-point numbers in a ring, as secure aggregation adds them.
//!
//! A number x becomes the integer nearest to `x * 2^bits`, modulo 2^32 or 2^64. Integers add
//! without rounding and in any order, so the sum is exact however it was masked, and who takes part
//! cannot be seen from it. Everything is computed modulo 2^64; reducing to 2^32 on the wire is the
//! same as computing modulo 2^32.
//!
//! ```
//! use fedcast::federation::privacy::{FixedPoint, Modulus};
//! let numbers = FixedPoint { modulus: Modulus::Bits32, bits: 16 };
//! let (a, b) = (numbers.encode(1.5, 2)?, numbers.encode(-4.25, 2)?);
//! assert_eq!(numbers.decode(a.wrapping_add(b)), -2.75);
//! assert!(numbers.encode(20_000.0, 2).is_err()); // two of them could pass 2^31
//! # Ok::<(), fedcast::federation::privacy::Unrepresentable>(())
//! ```

use thiserror::Error;

pub use crate::scenario::Modulus;
use crate::wire::{Body, Dtype, NamedTensor, Section, TensorValues, WireError};

impl Modulus {
    /// Returns the type of masked tensors.
    pub fn dtype(self) -> Dtype {
        match self {
            Modulus::Bits32 => Dtype::U32,
            Modulus::Bits64 => Dtype::U64,
        }
    }
}

/// Conversion of numbers to integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedPoint {
    /// The ring.
    pub modulus: Modulus,
    /// Binary digits after the point.
    pub bits: u32,
}

/// A number that the ring cannot carry.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{value} is beyond the {limit:e} that each of {members} summands may have")]
pub struct Unrepresentable {
    /// The number.
    pub value: f64,
    /// Largest magnitude that a number may have.
    pub limit: f64,
    /// Number of summands.
    pub members: usize,
}

impl FixedPoint {
    /// Returns the ring element of a summand, one of at most `members`.
    ///
    /// # Errors
    /// Returns an error for a number that is not finite, or so large that the sum of `members` such numbers could
    /// exceed half of the ring, which would change its sign.
    pub fn encode(&self, value: f64, members: usize) -> Result<u64, Unrepresentable> {
        let half = match self.modulus {
            Modulus::Bits32 => u64::from(u32::MAX >> 1),
            Modulus::Bits64 => u64::MAX >> 1,
        };
        let room = half / members.max(1) as u64;
        let scaled = (value * self.scale()).round_ties_even();
        // The first comparison keeps the cast from saturating, the second one is exact.
        if scaled.abs() <= room as f64 && (scaled as i64).unsigned_abs() <= room {
            return Ok(scaled as i64 as u64);
        }
        Err(Unrepresentable { value, limit: room as f64 / self.scale(), members })
    }

    /// Returns the number that a ring element stands for.
    pub fn decode(&self, word: u64) -> f64 {
        let integer = match self.modulus {
            Modulus::Bits32 => i64::from(word as u32 as i32),
            Modulus::Bits64 => word as i64,
        };
        integer as f64 / self.scale()
    }

    fn scale(&self) -> f64 {
        (1u64 << self.bits.min(63)) as f64
    }

    /// Returns the ring elements of a body of f64, in order; the error names the tensor.
    pub(super) fn words(&self, body: &Body, members: usize) -> Result<Vec<u64>, String> {
        let mut words = Vec::new();
        for (_, tensor) in body.tensors() {
            let values = tensor.as_f64().map_err(|error| error.to_string())?;
            for value in values.iter() {
                let word = self.encode(*value, members);
                words.push(word.map_err(|error| {
                    format!("a summand of `{}` does not fit: {error}", tensor.name())
                })?);
            }
        }
        Ok(words)
    }

    /// Returns ring elements as they travel, in the layout of `like`.
    pub(super) fn pack(&self, words: &[u64], like: &Body) -> Result<Body, WireError> {
        fill(words, like, |words| match self.modulus {
            Modulus::Bits32 => TensorValues::U32(words.iter().map(|word| *word as u32).collect()),
            Modulus::Bits64 => TensorValues::U64(words.into()),
        })
    }

    /// Reads the output of [`pack`](Self::pack).
    pub(super) fn unpack(&self, body: &Body) -> Result<Vec<u64>, WireError> {
        let mut words = Vec::new();
        for (_, tensor) in body.tensors() {
            match self.modulus {
                Modulus::Bits32 => {
                    words.extend(tensor.as_u32()?.iter().map(|word| u64::from(*word)));
                }
                Modulus::Bits64 => words.extend_from_slice(tensor.as_u64()?),
            }
        }
        Ok(words)
    }

    /// Returns the numbers of a sum, as f64 in the layout of `like`.
    pub(super) fn numbers(&self, words: &[u64], like: &Body) -> Result<Body, WireError> {
        fill(words, like, |words| {
            TensorValues::F64(words.iter().map(|word| self.decode(*word)).collect())
        })
    }
}

/// Returns a body like another one, its values made of consecutive words.
fn fill(
    mut words: &[u64],
    like: &Body,
    values: impl Fn(&[u64]) -> TensorValues,
) -> Result<Body, WireError> {
    let mut sections = Vec::with_capacity(like.sections.len());
    for section in &like.sections {
        let mut tensors = Vec::with_capacity(section.tensors.len());
        for tensor in &section.tensors {
            let length = (tensor.elements() as usize).min(words.len());
            let (mine, rest) = words.split_at(length);
            words = rest;
            tensors.push(NamedTensor::new(tensor.name().clone(), tensor.shape(), values(mine))?);
        }
        sections.push(Section::new(section.kind, tensors));
    }
    Ok(Body::new(like.meta.clone(), sections))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ring() -> impl Strategy<Value = FixedPoint> {
        let modulus = prop_oneof![Just(Modulus::Bits32), Just(Modulus::Bits64)];
        (modulus, 0u32..24).prop_map(|(modulus, bits)| FixedPoint { modulus, bits })
    }

    proptest! {
        /// The maximum number of summands of the largest size never wraps.
        #[test]
        fn a_sum_is_exact_or_refused(
            ring in ring(),
            values in prop::collection::vec(-1e12f64..1e12, 1..9),
        ) {
            let encoded: Result<Vec<u64>, _> =
                values.iter().map(|value| ring.encode(*value, values.len())).collect();
            if let Ok(words) = encoded {
                let sum = words.iter().fold(0u64, |sum, word| sum.wrapping_add(*word));
                let integers: i128 = words.iter().map(|word| i128::from(*word as i64)).sum();
                prop_assert_eq!(ring.decode(sum), integers as f64 / ring.scale());
                let error = (ring.decode(sum) - values.iter().sum::<f64>()).abs();
                prop_assert!(error <= values.len() as f64 * (0.5 / ring.scale() + 1e-3));
            }
        }

        #[test]
        fn encoding_errs_by_half_a_step_at_most(ring in ring(), value in -100.0f64..100.0) {
            let back = ring.decode(ring.encode(value, 1).unwrap());
            prop_assert!((back - value).abs() <= 0.5 / ring.scale());
        }
    }

    #[test]
    fn the_edges_of_the_ring() {
        let ring = FixedPoint { modulus: Modulus::Bits32, bits: 0 };
        let most = f64::from(i32::MAX);
        assert_eq!(ring.decode(ring.encode(most, 1).unwrap()), most);
        assert_eq!(ring.decode(ring.encode(-most, 1).unwrap()), -most);
        assert!(ring.encode(most + 1.0, 1).is_err());
        assert!(ring.encode(most, 2).is_err());
        let wide = FixedPoint { modulus: Modulus::Bits64, bits: 0 };
        for bad in [f64::NAN, f64::INFINITY, 9.3e18, -9.3e18] {
            assert!(wide.encode(bad, 1).is_err(), "{bad}");
        }
        let error = wide.encode(1e19, 4).unwrap_err().to_string();
        assert!(error.contains("each of 4 summands"), "{error}");
    }
}
