//! Int8 codec: one signed byte per value and one f32 scale per tensor, `x ~ q * scale`, `scale = max |x| / 127`, `q` in
//! `-127..=127` rounded to nearest even. Layout: scale (4 bytes, little endian), then the bytes `q`.

use std::sync::Arc;

/// Passes the scale and then one signed byte per value to `take`.
///
/// # Errors
/// Returns the index of the first value that is not finite.
pub(super) fn encode(values: &[f32], mut take: impl FnMut(&[u8])) -> Result<(), usize> {
    let scale = scale(values)?;
    take(&scale.to_le_bytes());
    let mut buffer = [0u8; 4096];
    for piece in values.chunks(buffer.len()) {
        for (byte, value) in buffer.iter_mut().zip(piece) {
            *byte = quantize(*value, scale) as u8;
        }
        take(&buffer[..piece.len()]);
    }
    Ok(())
}

/// Decodes the values; `None` if there is no scale, or one that no encoder writes.
pub(super) fn decode(bytes: &[u8]) -> Option<Arc<[f32]>> {
    let (scale, bytes) = bytes.split_first_chunk::<4>()?;
    let scale = f32::from_le_bytes(*scale);
    (scale.is_finite() && scale.is_sign_positive())
        .then(|| bytes.iter().map(|q| dequantize(*q as i8, scale)).collect())
}

pub(super) fn round_trip(values: &[f32]) -> Result<Arc<[f32]>, usize> {
    let scale = scale(values)?;
    Ok(values.iter().map(|v| dequantize(quantize(*v, scale), scale)).collect())
}

fn scale(values: &[f32]) -> Result<f32, usize> {
    // The bits of absolute values order as the values do, with infinity and NaN above all finite ones.
    let largest = values.iter().map(|v| v.abs().to_bits()).max().unwrap_or(0);
    let largest = f32::from_bits(largest);
    if !largest.is_finite() {
        return Err(values.iter().position(|v| !v.is_finite()).unwrap_or(0));
    }
    Ok(largest / 127.0)
}

/// 1.5 * 2^23: the spacing of floats here is 1, so adding it rounds to an integer (ties to even), which the
/// lowest byte of the sum then holds. Unlike `round_ties_even` this needs no special instruction.
const ROUND: f32 = 12_582_912.0;

/// Quantizes a value.
///
/// A scale of zero (all values zero, or too small for a separate scale) makes every value zero.
fn quantize(value: f32, scale: f32) -> i8 {
    let steps = if scale == 0.0 { 0.0 } else { value / scale };
    (steps.clamp(-127.0, 127.0) + ROUND).to_bits() as i8
}

/// Restores a value, clamped, because 127 times a scale that was rounded up may exceed the largest f32.
fn dequantize(q: i8, scale: f32) -> f32 {
    (f32::from(q) * scale).clamp(-f32::MAX, f32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_error_is_at_most_half_the_scale(
            values in proptest::collection::vec(-1e6f32..1e6, 1..300),
        ) {
            let s = scale(&values).unwrap();
            for (x, y) in values.iter().zip(&round_trip(&values).unwrap()[..]) {
                let error = f64::from((x - y).abs());
                prop_assert!(error <= 0.5 * f64::from(s) * (1.0 + 1e-4), "{x} -> {y}, scale {s}");
            }
        }
    }

    #[test]
    fn rounding_is_to_nearest_even() {
        for i in -1300..=1300 {
            let steps = i as f32 / 10.0; // with every half
            let want = steps.round_ties_even().clamp(-127.0, 127.0);
            assert_eq!(f32::from(quantize(steps, 1.0)), want, "{steps}");
        }
    }

    #[test]
    fn the_largest_value_and_zero_survive() {
        let got = round_trip(&[-127.0, 0.0, 64.0, 0.5, 1.5]).unwrap();
        assert_eq!(got[..], [-127.0, 0.0, 64.0, 0.0, 2.0]); // scale 1, ties to even
        assert_eq!(round_trip(&[0.0; 3]).unwrap()[..], [0.0; 3]);
        assert_eq!(round_trip(&[]).unwrap().len(), 0);
        let tiny = round_trip(&[1e-45, -1e-45]).unwrap(); // no f32 is small enough for the scale
        assert_eq!(tiny[..], [0.0; 2]);
        assert!(round_trip(&[f32::MAX, -f32::MAX]).unwrap().iter().all(|v| v.is_finite()));
        let middle = round_trip(&[f32::MAX, 1.0]).unwrap();
        assert!((middle[0] / f32::MAX - 1.0).abs() < 1e-6);
    }

    #[test]
    fn what_is_not_finite_is_refused() {
        assert_eq!(round_trip(&[1.0, f32::NAN]), Err(1));
        assert_eq!(encode(&[f32::INFINITY], |_| ()), Err(0));
        assert!(decode(&[0, 0, 0]).is_none());
        assert!(decode(&f32::NAN.to_le_bytes()).is_none());
    }
}
