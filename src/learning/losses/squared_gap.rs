//! Squared gaps between outputs and fixed targets, with a tolerance.

use candle_core::{Result, Tensor, bail};

use super::closed_form;

/// Returns `weight max(0, mean (h - t)^2 - radius)` over all entries of `h`, as a scalar.
///
/// The mean is over samples and width together, so that one hinge decides for the batch (LANDER). Up to the radius, or
/// with a weight of zero, the gradient is exactly zero, but it exists. `targets` are row-major and have no gradient.
///
/// # Errors
/// Returns an error if the number of targets differs, or there are none.
pub fn squared_gap(h: &Tensor, targets: &[f32], radius: f64, weight: f64) -> Result<Tensor> {
    if targets.is_empty() || targets.len() != h.elem_count() {
        bail!("squared gap: {} targets for {:?}", targets.len(), h.shape());
    }
    closed_form(h, |h| {
        let count = h.len() as f64;
        let gaps: Vec<f64> =
            h.iter().zip(targets).map(|(h, t)| f64::from(*h) - f64::from(*t)).collect();
        let beyond = gaps.iter().map(|gap| gap * gap).sum::<f64>() / count - radius;
        if beyond <= 0.0 {
            return (0.0, vec![0.0; h.len()]);
        }
        let slope = |gap: &f64| (2.0 * weight * gap / count) as f32;
        (weight * beyond, gaps.iter().map(slope).collect())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    fn of(radius: f64, weight: f64) -> Result<(f32, Vec<f32>)> {
        let h = Var::new(&[[1f32, 0.0], [0.0, 3.0]], &Device::Cpu)?;
        let term = squared_gap(&h, &[0.0, 0.0, 0.0, 1.0], radius, weight)?;
        let gradients = term.backward()?;
        let slope = gradients.get(&h).expect("a gradient").flatten_all()?.to_vec1()?;
        Ok((term.to_scalar()?, slope))
    }

    /// LANDER card, invariant 2: gaps (1, 0) and (0, 2), a mean of squares of 5/4.
    #[test]
    fn one_hinge_is_of_the_whole_batch() -> Result<()> {
        assert_eq!(of(0.0, 1.0)?, (1.25, vec![0.5, 0.0, 0.0, 1.0]));
        // The first sample alone would be within this radius; the batch is not.
        assert_eq!(of(1.0, 1.0)?, (0.25, vec![0.5, 0.0, 0.0, 1.0]));
        for radius in [1.25, 2.0] {
            assert_eq!(of(radius, 1.0)?, (0.0, vec![0.0; 4]));
        }
        assert_eq!(of(1.0, 4.0)?, (1.0, vec![2.0, 0.0, 0.0, 4.0]));
        assert_eq!(of(1.0, 0.0)?, (0.0, vec![0.0; 4]));
        let h = Tensor::new(&[[1f32]], &Device::Cpu)?;
        assert!(squared_gap(&h, &[0.0, 1.0], 0.0, 1.0).is_err());
        Ok(())
    }
}
