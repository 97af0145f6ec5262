//! Two bytes per value: IEEE half and bfloat16, rounded to nearest, ties to even.

use std::sync::Arc;

use half::{bf16, f16};

/// A 16-bit float format. `half` converts in software or with the CPU's instructions; both round the same way.
pub(super) trait Format {
    fn narrow(value: f32) -> u16;
    fn widen(bits: u16) -> f32;
}

/// IEEE 754 binary16.
pub(super) struct Half;

/// The upper half of an f32.
pub(super) struct Brain;

impl Format for Half {
    fn narrow(value: f32) -> u16 {
        f16::from_f32(value).to_bits()
    }
    fn widen(bits: u16) -> f32 {
        f16::from_bits(bits).to_f32()
    }
}

impl Format for Brain {
    fn narrow(value: f32) -> u16 {
        bf16::from_f32(value).to_bits()
    }
    fn widen(bits: u16) -> f32 {
        bf16::from_bits(bits).to_f32()
    }
}

/// Fails with the index of the first finite value that becomes infinite.
pub(super) fn encode<F: Format>(values: &[f32], mut take: impl FnMut(&[u8])) -> Result<(), usize> {
    let mut buffer = [0u8; 4096];
    for (at, piece) in values.chunks(buffer.len() / 2).enumerate() {
        let mut overflow = false;
        for (bytes, value) in buffer.chunks_exact_mut(2).zip(piece) {
            let bits = F::narrow(*value);
            overflow |= value.is_finite() && !F::widen(bits).is_finite();
            bytes.copy_from_slice(&bits.to_le_bytes());
        }
        if overflow {
            return Err(at * (buffer.len() / 2) + first_overflow::<F>(piece));
        }
        take(&buffer[..piece.len() * 2]);
    }
    Ok(())
}

pub(super) fn decode<F: Format>(bytes: &[u8]) -> Option<Arc<[f32]>> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().map(|b| F::widen(u16::from_le_bytes(*b))).collect())
}

pub(super) fn round_trip<F: Format>(values: &[f32]) -> Result<Arc<[f32]>, usize> {
    let mut overflow = false;
    let received = values
        .iter()
        .map(|v| {
            let wide = F::widen(F::narrow(*v));
            overflow |= v.is_finite() && !wide.is_finite();
            wide
        })
        .collect();
    if overflow { Err(first_overflow::<F>(values)) } else { Ok(received) }
}

fn first_overflow<F: Format>(values: &[f32]) -> usize {
    let overflows = |v: &f32| v.is_finite() && !F::widen(F::narrow(*v)).is_finite();
    values.iter().position(overflows).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trip<F: Format>(value: f32) -> f32 {
        F::widen(F::narrow(value))
    }

    #[test]
    fn ties_go_to_even() {
        // Spacing at 1 is 2^-10 in f16 and 2^-7 in bf16: halfway cases fall to the even neighbour.
        let (half, brain) = ((2f32).powi(-11), (2f32).powi(-8));
        assert_eq!(trip::<Half>(1.0 + half), 1.0);
        assert_eq!(trip::<Half>(1.0 + 3.0 * half), 1.0 + 4.0 * half);
        assert_eq!(trip::<Half>(1.0 + 1.01 * half), 1.0 + 2.0 * half);
        assert_eq!(trip::<Brain>(1.0 + brain), 1.0);
        assert_eq!(trip::<Brain>(1.0 + 3.0 * brain), 1.0 + 4.0 * brain);
        // Subnormals of f16 are multiples of 2^-24.
        assert_eq!(trip::<Half>(1.4 * (2f32).powi(-24)), (2f32).powi(-24));
        assert_eq!(trip::<Half>(0.5 * (2f32).powi(-24)), 0.0);
        assert_eq!(trip::<Half>(-0.0).to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn finite_stays_finite_or_is_refused() {
        assert_eq!(round_trip::<Half>(&[65519.0]).unwrap()[..], [65504.0]);
        assert_eq!(round_trip::<Half>(&[1.0, 65520.0]), Err(1));
        assert_eq!(round_trip::<Brain>(&[1.0, 0.0, f32::MAX]), Err(2));
        let mut long = vec![0.0; 5000];
        long[4321] = 1e30;
        assert_eq!(encode::<Half>(&long, |_| ()), Err(4321));
        let passed = round_trip::<Half>(&[f32::NAN, f32::INFINITY]).unwrap();
        assert!(passed[0].is_nan() && passed[1] == f32::INFINITY);
    }
}
