//! Agreement between the moments of a batch and the running moments of batch norms.

use candle_core::{DType, Result, Tensor};

use crate::learning::losses::closed_form;
use crate::model::{NormInput, ops};

/// Added to both variances, as in the releases.
const FLOOR: f64 = 1e-8;

/// Returns the mean of [`normal_divergence`] over the inputs of batch norms; `None` if there are none.
///
/// # Errors
/// Returns an error if the device fails.
pub fn norm_statistics(inputs: &[NormInput]) -> Result<Option<Tensor>> {
    let mut sum: Option<Tensor> = None;
    for NormInput { input, running_mean, running_variance } in inputs {
        let moments = ops::differentiable_moments(input)?.to_dtype(DType::F32)?;
        let running = [running_mean, running_variance].map(|moment| moment.to_vec1::<f32>());
        let [mean, variance] = running;
        let term = normal_divergence(&moments, (&mean?, &variance?))?;
        sum = Some(match sum {
            None => term,
            Some(sum) => (sum + term)?,
        });
    }
    sum.map(|sum| sum * (1.0 / inputs.len() as f64)).transpose()
}

/// Returns the mean over channels of the divergence `KL(N(mu_run, var_run) | N(mu, var))`. It is `ln(sd / sd_run) - 1/2
/// (1 - (var_run + (mu_run - mu)^2) / var)`.
///
/// `moments` `(2, c)` are the batch's means and biased variances, `running` means and variances. It is 0 where they
/// agree and positive elsewhere.
///
/// # Errors
/// Returns an error if the moments have another number of channels.
pub fn normal_divergence(moments: &Tensor, running: (&[f32], &[f32])) -> Result<Tensor> {
    let channels = running.0.len();
    if moments.dims() != [2, channels] || running.1.len() != channels {
        candle_core::bail!("moments {:?} and running ones of {channels} channels", moments.shape());
    }
    closed_form(moments, |moments| {
        let (means, variances) = moments.split_at(channels);
        let share = 1.0 / channels as f64;
        let (mut total, mut by_mean, mut by_variance) = (0.0, Vec::new(), Vec::new());
        let batch = means.iter().zip(variances);
        for ((mean, variance), (old_mean, old_variance)) in
            batch.zip(running.0.iter().zip(running.1))
        {
            let variance = f64::from(*variance) + FLOOR;
            let old = f64::from(*old_variance) + FLOOR;
            let gap = f64::from(*old_mean) - f64::from(*mean);
            let spread = (old + gap * gap) / variance;
            total += 0.5 * libm::log(variance / old) - 0.5 * (1.0 - spread);
            by_mean.push((-share * gap / variance) as f32);
            by_variance.push((share * 0.5 * (1.0 - spread) / variance) as f32);
        }
        by_mean.extend(by_variance);
        (share * total, by_mean)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    const RUNNING: ([f32; 2], [f32; 2]) = ([0.5, -1.0], [2.0, 0.25]);

    fn value(moments: [[f32; 2]; 2]) -> f64 {
        let moments = Tensor::new(&moments, &Device::Cpu).unwrap();
        let term = normal_divergence(&moments, (&RUNNING.0, &RUNNING.1)).unwrap();
        f64::from(term.to_scalar::<f32>().unwrap())
    }

    /// MFCL card, invariant 4.
    #[test]
    fn it_is_zero_only_where_moments_agree() {
        assert!(value([RUNNING.0, RUNNING.1]).abs() < 1e-7);
        for moments in
            [[[0.6, -1.0], RUNNING.1], [RUNNING.0, [1.0, 0.25]], [RUNNING.0, [4.0, 0.25]]]
        {
            assert!(value(moments) > 1e-4, "{moments:?}");
        }
        // By hand: variance 4 and mean 1 in place of 2 and 0.5, the other channel as it was.
        let known = 0.5 * 2f64.ln() - 0.5 * (1.0 - (2.0 + 0.25) / 4.0);
        assert!((value([[1.0, -1.0], [4.0, 0.25]]) - known / 2.0).abs() < 1e-6);
        // The batch divides: exchanged it would be another number.
        let exchanged = 0.5 * 0.5f64.ln() - 0.5 * (1.0 - (4.0 + 0.25) / 2.0);
        assert!((value([[1.0, -1.0], [4.0, 0.25]]) - exchanged / 2.0).abs() > 1e-2);
    }

    #[test]
    fn the_gradient_is_the_slope() -> Result<()> {
        let at = [[1.0f32, -0.2], [3.0, 0.4]];
        let moments = Var::new(&at, &Device::Cpu)?;
        let term = normal_divergence(&moments, (&RUNNING.0, &RUNNING.1))?;
        let slopes = term.backward()?.get(&moments).expect("a gradient").to_vec2::<f32>()?;
        for row in 0..2 {
            for channel in 0..2 {
                let moved = |by: f32| {
                    let mut at = at;
                    at[row][channel] += by;
                    value(at)
                };
                let difference = (moved(1e-3) - moved(-1e-3)) / 2e-3;
                let slope = f64::from(slopes[row][channel]);
                assert!(
                    (slope - difference).abs() < 1e-3 * slope.abs().max(1.0),
                    "{slope} {difference}"
                );
            }
        }
        Ok(())
    }

    #[test]
    fn the_mean_is_over_layers_and_moments_must_fit() -> Result<()> {
        let vector = |values: [f32; 2]| Tensor::new(&values, &Device::Cpu);
        let layer = |by: f64| -> Result<NormInput> {
            let input = Tensor::new(&[[0f32, 1.0], [1.0, 4.0], [3.0, 2.0]], &Device::Cpu)?;
            let (running_mean, running_variance) = (vector(RUNNING.0)?, vector(RUNNING.1)?);
            Ok(NormInput { input: (input * by)?, running_mean, running_variance })
        };
        let of = |inputs: &[NormInput]| -> Result<f32> {
            norm_statistics(inputs)?.expect("a layer").to_scalar()
        };
        let (one, other) = (of(&[layer(1.0)?])?, of(&[layer(3.0)?])?);
        let both = of(&[layer(1.0)?, layer(3.0)?])?;
        assert!((both - (one + other) / 2.0).abs() < 1e-5 && one != other);
        assert!(norm_statistics(&[])?.is_none());
        assert!(normal_divergence(&vector([0.0, 1.0])?, (&[0.0], &[1.0])).is_err());
        Ok(())
    }
}
