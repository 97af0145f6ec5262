//! Loss of distribution compensation (C²Prompt's LCDC): features move towards their class's Gaussian.
//!
//! `L_c = 1/2 (f - mu)ᵀ diag(var + eps)⁻¹ (f - mu)`, which is equivalent to minimizing the negative log-likelihood of
//! the Gaussian; the review of the paper prints the log-likelihood itself, with a minus sign, which is to be
//! maximized. Variances far below those of the other dimensions make it explode, hence the floor.

use candle_core::{Result, Tensor, bail};

use crate::model::ops;

/// Lower bound that keeps variances away from zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Whitening {
    /// Value added to every variance.
    pub eps: f64,
    /// Smallest variance of a dimension, as a fraction of the class's mean variance; 0 for none.
    pub floor: f64,
}

impl Default for Whitening {
    /// `eps = 1e-4` without a floor: our choice, the paper does not say.
    fn default() -> Self {
        Whitening { eps: 1e-4, floor: 0.0 }
    }
}

impl Whitening {
    /// Returns `1 / (max(var, floor * mean of var) + eps)` of one class, `(dim,)`.
    pub fn precision(&self, variance: &[f64]) -> Vec<f64> {
        let mean = variance.iter().sum::<f64>() / variance.len().max(1) as f64;
        let least = self.floor * mean;
        variance.iter().map(|variance| 1.0 / (variance.max(least) + self.eps)).collect()
    }
}

/// Returns `1/2 sum_i precision_i (f_i - mu_i)^2` of every sample, `(b,)`. Features, means and precisions `(b, dim)`
/// are of each sample and its class. Differentiable in the features.
///
/// ```
/// use candle_core::{Device, Tensor};
/// use fedcast::learning::compensation::{Whitening, compensation_losses};
/// # fn main() -> candle_core::Result<()> {
/// let precision = Whitening { eps: 0.0, floor: 0.0 }.precision(&[0.5, 2.0]);
/// let row = |values: &[f64]| Tensor::new(&[[values[0] as f32, values[1] as f32]], &Device::Cpu);
/// let losses = compensation_losses(&row(&[1.0, 3.0])?, &row(&[0.0, 1.0])?, &row(&precision)?)?;
/// assert_eq!(losses.to_vec1::<f32>()?, [2.0]); // (1 / 0.5 + 4 / 2) / 2
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Returns an error if the tensors have different shapes.
pub fn compensation_losses(features: &Tensor, mean: &Tensor, precision: &Tensor) -> Result<Tensor> {
    if features.dims() != mean.dims() || features.dims() != precision.dims() {
        bail!(
            "compensation: features {:?}, means {:?}, precisions {:?}",
            features.shape(),
            mean.shape(),
            precision.shape()
        );
    }
    ops::sum(&((features - mean)?.sqr()? * precision)?, 1)? * 0.5
}

#[cfg(test)]
mod vectors;

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    fn rows(values: &[[f32; 3]]) -> Tensor {
        Tensor::from_slice(values.as_flattened(), (values.len(), 3), &Device::Cpu).unwrap()
    }

    /// Invariant 2 of the card: at least 0, and 0 at the mean alone; the gradient is the whitened difference.
    #[test]
    fn it_is_zero_at_the_mean_and_pulls_towards_it() -> Result<()> {
        let mean = rows(&[[1.0, -2.0, 0.5], [0.0, 0.0, 0.0]]);
        let precision = rows(&[[4.0, 1.0, 0.25], [1.0, 1.0, 1.0]]);
        let losses = compensation_losses(&mean, &mean, &precision)?;
        assert_eq!(losses.to_vec1::<f32>()?, [0.0, 0.0]);
        let features = Var::from_tensor(&rows(&[[2.0, 0.0, 0.5], [-3.0, 0.0, 4.0]]))?;
        let losses = compensation_losses(&features, &mean, &precision)?;
        assert_eq!(losses.to_vec1::<f32>()?, [4.0, 12.5]);
        let gradients = losses.sum_all()?.backward()?;
        let gradient = gradients.get(&features).expect("it depends on the features");
        assert_eq!(gradient.to_vec2::<f32>()?, [[4.0, 2.0, 0.0], [-3.0, 0.0, 4.0]]);
        // A step against it makes the loss smaller.
        let stepped = (features.as_tensor() - (gradient * 0.1)?)?;
        let after = compensation_losses(&stepped, &mean, &precision)?.to_vec1::<f32>()?;
        assert!(after[0] < 4.0 && after[1] < 12.5, "{after:?}");
        Ok(())
    }

    #[test]
    fn small_variances_are_kept_away_from_zero() {
        let variance = [0.0, 1.0, 3.0];
        let exact = Whitening { eps: 0.0, floor: 0.0 };
        assert_eq!(exact.precision(&variance)[1..], [1.0, 1.0 / 3.0]);
        assert!((Whitening::default().precision(&variance)[0] - 1e4).abs() < 1e-6);
        // 0.3 of the mean variance 4/3.
        let floored = Whitening { eps: 0.1, floor: 0.3 }.precision(&variance);
        assert!((floored[0] - 2.0).abs() < 1e-12 && (floored[1] - 1.0 / 1.1).abs() < 1e-12);
        // One class of one sample has no variance at all.
        assert_eq!(Whitening::default().precision(&[0.0; 2]), [1e4; 2]);
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let one = rows(&[[0.0; 3]]);
        assert!(compensation_losses(&rows(&[[0.0; 3]; 2]), &one, &one).is_err());
    }
}
