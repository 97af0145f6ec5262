//! Leaky rectifier: `x` where it is above 0, else `slope x`. The derivative at 0 is `slope`, as in PyTorch.

use candle_core::{Result, Tensor};

use super::pointwise::{self, Pointwise};

/// Applies the leaky rectifier to every entry of `x` (any shape), with this slope below 0.
///
/// # Errors
/// Returns an error only if candle fails.
pub fn leaky_relu(x: &Tensor, slope: f32) -> Result<Tensor> {
    pointwise::apply(LeakyRelu { below: slope }, x)
}

#[derive(Clone, Copy)]
struct LeakyRelu {
    /// Slope below 0.
    below: f32,
}

impl LeakyRelu {
    /// Returns 1 where `x` is above 0, and the slope elsewhere.
    fn composed(self, x: &Tensor) -> Result<Tensor> {
        let above = x.gt(&x.zeros_like()?)?.to_dtype(x.dtype())?;
        let below = f64::from(self.below);
        above.affine(1.0 - below, below)
    }
}

impl Pointwise for LeakyRelu {
    const NAME: &'static str = "leaky-relu";

    #[inline(always)]
    fn value(self, x: f32) -> f32 {
        // `x < 0` rather than `x > 0`: NaN passes through and is noticed.
        if x < 0.0 { self.below * x } else { x }
    }

    #[inline(always)]
    fn slope(self, x: f32) -> f32 {
        if x > 0.0 { 1.0 } else { self.below }
    }

    fn composed_value(self, x: &Tensor) -> Result<Tensor> {
        x * self.composed(x)?
    }

    fn composed_slope(self, x: &Tensor) -> Result<Tensor> {
        self.composed(x)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{agrees_everywhere, draw, finite_difference};
    use super::super::without_kernels;
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn agrees_with_the_composed_and_finite_differences() {
        // Away from the kink, where the central difference is between both slopes.
        let x = (draw("x", (3, 25)).sign().unwrap() + draw("x", (3, 25))).unwrap();
        agrees_everywhere(&[&x], |t| leaky_relu(&t[0], 0.2));
        finite_difference(&[&x], |t| leaky_relu(&t[0], 0.2));
    }

    #[test]
    fn negative_entries_keep_a_fraction() -> Result<()> {
        let of = |x: &Var| -> Result<(Vec<f32>, Vec<f32>)> {
            let y = leaky_relu(x, 0.25)?;
            let slopes = y.sum_all()?.backward()?.get(x).expect("a gradient").to_vec1()?;
            Ok((y.to_vec1()?, slopes))
        };
        let x = Var::new(&[-4f32, 0.0, 2.0], &Device::Cpu)?;
        let known = (vec![-1.0, 0.0, 2.0], vec![0.25, 0.25, 1.0]);
        assert_eq!(of(&x)?, known);
        assert_eq!(without_kernels(|| of(&x))?, known);
        Ok(())
    }
}
