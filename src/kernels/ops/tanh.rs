//! Hyperbolic tangent, `sign(x) (1 - e) / (1 + e)` with `e = exp(-2 |x|)`, which never grows.
//!
//! Slope `1 - tanh(x)^2`. The C library's function differs between machines.

use candle_core::{Result, Tensor};

use super::pointwise::{self, Pointwise};
use super::stock;
use crate::wide::exp;

/// Hyperbolic tangent of every entry of `x` (any shape).
///
/// # Errors
/// Returns an error only if candle fails.
pub fn tanh(x: &Tensor) -> Result<Tensor> {
    pointwise::apply(Tanh, x)
}

#[derive(Clone, Copy)]
struct Tanh;

impl Pointwise for Tanh {
    const NAME: &'static str = "tanh";

    #[inline(always)]
    fn value(self, x: f32) -> f32 {
        let small = exp(-2.0 * x.abs());
        let size = (1.0 - small) / (1.0 + small);
        if x < 0.0 { -size } else { size }
    }

    #[inline(always)]
    fn slope(self, x: f32) -> f32 {
        let value = self.value(x);
        1.0 - value * value
    }

    fn composed_value(self, x: &Tensor) -> Result<Tensor> {
        stock::tanh(x)
    }

    fn composed_slope(self, x: &Tensor) -> Result<Tensor> {
        stock::tanh(x)?.sqr()?.affine(-1.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference, values};
    use super::*;
    use candle_core::Device;

    #[test]
    fn agrees_with_the_composition_and_finite_differences() {
        let x = (draw("x", (3, 25)) * 2.0).unwrap();
        agrees_everywhere(&[&x], |t| tanh(&t[0]));
        finite_difference(&[&x], |t| tanh(&t[0]));
    }

    /// Of PyTorch in f64.
    #[test]
    fn values_are_known_and_saturate() -> Result<()> {
        let known = [
            (-30f32, -1.0),
            (-1.0, -0.761_594_155_955_764_9),
            (-0.01, -0.009_999_666_686_665_238),
            (0.0, 0.0),
            (0.5, 0.462_117_157_260_009_76),
            (2.0, 0.964_027_580_075_816_9),
            (1e30, 1.0),
        ];
        let x = Tensor::new(&known.map(|(x, _)| x), &Device::Cpu)?;
        for ((x, wanted), got) in known.iter().zip(values(&tanh(&x)?)) {
            assert!((f64::from(got) - wanted).abs() < 2e-7, "tanh({x}) is {got}, not {wanted}");
        }
        assert!(values(&tanh(&Tensor::new(&[f32::NAN], &Device::Cpu)?)?)[0].is_nan());
        Ok(())
    }
}
