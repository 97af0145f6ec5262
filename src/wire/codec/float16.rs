//! Two bytes per value: IEEE half and bfloat16, rounded to nearest, ties to even.

use std::sync::Arc;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Number of values that are converted together.
///
/// The CPU's conversion instructions are used where it has them; they round as the software conversion does.
const PIECE: usize = 2048;

/// A 16-bit float format.
pub(super) trait HalfFloat: Copy {
    /// The smallest finite magnitude that rounds to infinity.
    const LIMIT: f32;
    const ZERO: Self;
    fn narrow(values: &[f32], out: &mut [Self]);
    fn widen(values: &[Self], out: &mut [f32]);
    fn to_le(self) -> [u8; 2];
    fn from_le(bytes: [u8; 2]) -> Self;
}

impl HalfFloat for f16 {
    const LIMIT: f32 = 65_520.0;
    const ZERO: f16 = f16::ZERO;
    fn narrow(values: &[f32], out: &mut [f16]) {
        out.convert_from_f32_slice(values);
    }
    fn widen(values: &[f16], out: &mut [f32]) {
        values.convert_to_f32_slice(out);
    }
    fn to_le(self) -> [u8; 2] {
        self.to_le_bytes()
    }
    fn from_le(bytes: [u8; 2]) -> f16 {
        f16::from_le_bytes(bytes)
    }
}

impl HalfFloat for bf16 {
    const LIMIT: f32 = f32::from_bits(0x7f7f_8000);
    const ZERO: bf16 = bf16::ZERO;
    fn narrow(values: &[f32], out: &mut [bf16]) {
        out.convert_from_f32_slice(values);
    }
    fn widen(values: &[bf16], out: &mut [f32]) {
        values.convert_to_f32_slice(out);
    }
    fn to_le(self) -> [u8; 2] {
        self.to_le_bytes()
    }
    fn from_le(bytes: [u8; 2]) -> bf16 {
        bf16::from_le_bytes(bytes)
    }
}

/// Encodes values as two bytes each, little endian, and passes them to `take` in pieces.
///
/// # Errors
/// Returns the index of the first finite value that would become infinite.
pub(super) fn encode<F: HalfFloat>(
    values: &[f32],
    mut take: impl FnMut(&[u8]),
) -> Result<(), usize> {
    check::<F>(values)?;
    let mut narrow = [F::ZERO; PIECE];
    let mut buffer = [[0u8; 2]; PIECE];
    for piece in values.chunks(PIECE) {
        let narrow = &mut narrow[..piece.len()];
        F::narrow(piece, narrow);
        buffer.iter_mut().zip(&*narrow).for_each(|(bytes, value)| *bytes = value.to_le());
        take(buffer[..piece.len()].as_flattened());
    }
    Ok(())
}

/// Decodes the values; `None` for an odd number of bytes.
pub(super) fn decode<F: HalfFloat>(bytes: &[u8]) -> Option<Arc<[f32]>> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    rest.is_empty().then(|| {
        let mut narrow = [F::ZERO; PIECE];
        fill(pairs.len(), |at, out| {
            let narrow = &mut narrow[..out.len()];
            narrow
                .iter_mut()
                .zip(&pairs[at..])
                .for_each(|(value, bytes)| *value = F::from_le(*bytes));
            F::widen(narrow, out);
        })
    })
}

/// Returns the values of [`encode`] followed by [`decode`].
pub(super) fn round_trip<F: HalfFloat>(values: &[f32]) -> Result<Arc<[f32]>, usize> {
    check::<F>(values)?;
    let mut narrow = [F::ZERO; PIECE];
    Ok(fill(values.len(), |at, out| {
        let narrow = &mut narrow[..out.len()];
        F::narrow(&values[at..at + out.len()], narrow);
        F::widen(narrow, out);
    }))
}

fn check<F: HalfFloat>(values: &[f32]) -> Result<(), usize> {
    let overflows = |v: &f32| v.abs() >= F::LIMIT && v.is_finite();
    // Without an early exit, so that the compiler can test several values at once.
    let found = values.iter().fold(false, |found, v| found | overflows(v));
    if !found {
        return Ok(());
    }
    values.iter().position(overflows).map_or(Ok(()), Err)
}

/// Creates shared values of this length, written piece by piece: `write(first index, piece)`.
fn fill(length: usize, mut write: impl FnMut(usize, &mut [f32])) -> Arc<[f32]> {
    let mut values: Arc<[f32]> = std::iter::repeat_n(0.0, length).collect();
    let unshared = Arc::get_mut(&mut values).expect("no other reference exists yet");
    for (i, piece) in unshared.chunks_mut(PIECE).enumerate() {
        write(i * PIECE, piece);
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trip<F: HalfFloat>(value: f32) -> f32 {
        round_trip::<F>(&[value]).unwrap()[0]
    }

    #[test]
    fn ties_go_to_even() {
        // Spacing at 1 is 2^-10 in f16 and 2^-7 in bf16: halfway cases fall to the even neighbor.
        let (half, brain) = ((2f32).powi(-11), (2f32).powi(-8));
        assert_eq!(trip::<f16>(1.0 + half), 1.0);
        assert_eq!(trip::<f16>(1.0 + 3.0 * half), 1.0 + 4.0 * half);
        assert_eq!(trip::<f16>(1.0 + 1.01 * half), 1.0 + 2.0 * half);
        assert_eq!(trip::<bf16>(1.0 + brain), 1.0);
        assert_eq!(trip::<bf16>(1.0 + 3.0 * brain), 1.0 + 4.0 * brain);
        // Subnormals of f16 are multiples of 2^-24.
        assert_eq!(trip::<f16>(1.4 * (2f32).powi(-24)), (2f32).powi(-24));
        assert_eq!(trip::<f16>(0.5 * (2f32).powi(-24)), 0.0);
        assert_eq!(trip::<f16>(-0.0).to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn finite_stays_finite_or_is_refused() {
        assert_eq!(round_trip::<f16>(&[65519.0]).unwrap()[..], [65504.0]);
        assert_eq!(round_trip::<f16>(&[1.0, 65520.0]), Err(1));
        assert_eq!(round_trip::<bf16>(&[1.0, 0.0, f32::MAX]), Err(2));
        let below = f32::from_bits(bf16::LIMIT.to_bits() - 1);
        assert_eq!(round_trip::<bf16>(&[-below]).unwrap()[..], [-f32::from(bf16::MAX)]);
        assert_eq!(round_trip::<bf16>(&[-bf16::LIMIT]), Err(0));
        let mut long = vec![0.0; 5000];
        long[4321] = 1e30;
        assert_eq!(encode::<f16>(&long, |_| ()), Err(4321));
        let passed = round_trip::<f16>(&[f32::NAN, f32::INFINITY]).unwrap();
        assert!(passed[0].is_nan() && passed[1] == f32::INFINITY);
    }

    #[test]
    fn many_values_convert_as_one_does() {
        // Every bit pattern class: all exponents, some mantissas, both signs; long enough for several pieces.
        let values: Vec<f32> = (0..3 * PIECE as u32 + 7)
            .map(|i| f32::from_bits(i.wrapping_mul(0x9e37_79b1)))
            .filter(|v| v.abs() < f16::LIMIT)
            .collect();
        assert!(values.len() > PIECE);
        let together = round_trip::<f16>(&values).unwrap();
        let mut bytes = vec![];
        encode::<f16>(&values, |b| bytes.extend_from_slice(b)).unwrap();
        let decoded = decode::<f16>(&bytes).unwrap();
        for (i, v) in values.iter().enumerate() {
            let one = f16::from_f32_const(*v).to_f32_const(); // never the CPU's instruction
            assert_eq!(together[i].to_bits(), one.to_bits(), "{v}");
            assert_eq!(decoded[i].to_bits(), one.to_bits(), "{v}");
        }
        assert!(decode::<f16>(&bytes[1..]).is_none());
    }
}
