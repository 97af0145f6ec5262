//! Logistic function.
//!
//! `1 / (1 + e)` above 0 and `e / (1 + e)` below, with `e = exp(-|x|)`, which never grows. Slope `s (1 - s)`. The C
//! library's function differs between machines.

use candle_core::{Result, Tensor};

use super::pointwise::{self, Pointwise};
use super::stock;
use crate::wide::exp;

/// Logistic function of every entry of `x` (any shape).
///
/// # Errors
/// Returns an error only if candle fails.
pub fn sigmoid(x: &Tensor) -> Result<Tensor> {
    pointwise::apply(Sigmoid, x)
}

#[derive(Clone, Copy)]
struct Sigmoid;

impl Pointwise for Sigmoid {
    const NAME: &'static str = "sigmoid";

    #[inline(always)]
    fn value(self, x: f32) -> f32 {
        let small = exp(-x.abs());
        if x < 0.0 { small / (1.0 + small) } else { 1.0 / (1.0 + small) }
    }

    #[inline(always)]
    fn slope(self, x: f32) -> f32 {
        let value = self.value(x);
        value * (1.0 - value)
    }

    fn composed_value(self, x: &Tensor) -> Result<Tensor> {
        stock::sigmoid(x)
    }

    fn composed_slope(self, x: &Tensor) -> Result<Tensor> {
        let value = stock::sigmoid(x)?;
        &value * value.affine(-1.0, 1.0)?
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
        agrees_everywhere(&[&x], |t| sigmoid(&t[0]));
        finite_difference(&[&x], |t| sigmoid(&t[0]));
    }

    #[test]
    fn values_are_known_and_saturate() -> Result<()> {
        let known = [
            (-200f32, 0.0),
            (-1.0, 0.268_941_421_369_995_1),
            (0.0, 0.5),
            (0.5, 0.622_459_331_201_854_6),
            (3.0, 0.952_574_126_822_433_1),
            (1e30, 1.0),
        ];
        let x = Tensor::new(&known.map(|(x, _)| x), &Device::Cpu)?;
        for ((x, wanted), got) in known.iter().zip(values(&sigmoid(&x)?)) {
            assert!((f64::from(got) - wanted).abs() < 2e-7, "sigmoid({x}) is {got}");
        }
        assert!(values(&sigmoid(&Tensor::new(&[f32::NAN], &Device::Cpu)?)?)[0].is_nan());
        Ok(())
    }
}
