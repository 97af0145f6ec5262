//! Distance between batch moments and running moments, as in TARGET and LANDER.
//!
//! ```text
//! sum over batch norms of  |var_run - v|_2 + |mean_run - m|_2
//! v, m   moments of the batch; after the first call (1 - w) moment + w kept, with a weight w of what was kept
//! kept   moments of the last step of the first call; after each further call  w kept + (1 - w) moment
//! ```
//! Kept moments have no gradient. Variances of batches are biased, running ones are not.

use candle_core::{DType, Result, Tensor, bail};

use crate::learning::losses::closed_form;
use crate::model::{NormInput, ops};

/// Moments of batches, smoothed over the calls of a synthesis.
#[derive(Clone, Debug, Default)]
pub struct SmoothedMoments {
    /// Weight `w` of the kept moments.
    weight: f64,
    /// Means, then variances, of each norm, from earlier calls; `None` before the first call ends.
    pub(super) kept: Option<Vec<Vec<f32>>>,
    /// Means, then variances, of each norm for the last batch.
    last: Vec<Vec<f32>>,
}

impl SmoothedMoments {
    /// Returns moments of a synthesis before its first call, with nothing kept.
    pub fn new(weight: f64) -> SmoothedMoments {
        SmoothedMoments { weight, ..SmoothedMoments::default() }
    }

    /// Returns the distance for a batch with these batch-norm inputs; `None` if there are none.
    ///
    /// # Errors
    /// Returns an error if a norm has another number of channels than before.
    pub fn distance(&mut self, inputs: &[NormInput]) -> Result<Option<Tensor>> {
        let mut sum: Option<Tensor> = None;
        self.last.clear();
        for (norm, NormInput { input, running_mean, running_variance }) in inputs.iter().enumerate()
        {
            let moments = ops::differentiable_moments(input)?.to_dtype(DType::F32)?;
            self.last.push(moments.flatten_all()?.to_vec1()?);
            let running = [running_mean, running_variance].map(|moment| moment.to_vec1::<f32>());
            let [means, variances] = running;
            let running = [means?, variances?].concat();
            let kept = self.kept.as_ref().and_then(|kept| kept.get(norm));
            let term =
                norm_distance(&moments, &running, kept.map(|kept| (&kept[..], self.weight)))?;
            sum = Some(match sum {
                None => term,
                Some(sum) => (sum + term)?,
            });
        }
        Ok(sum)
    }

    /// Updates the kept moments with those of the last batch, at the end of a call.
    pub fn end_call(&mut self) {
        let weight = self.weight;
        let mix = |(kept, last): (&f32, &f32)| {
            (weight * f64::from(*kept) + (1.0 - weight) * f64::from(*last)) as f32
        };
        self.kept = Some(match &self.kept {
            None => self.last.clone(),
            Some(kept) => {
                let pairs = kept.iter().zip(&self.last);
                pairs.map(|(kept, last)| kept.iter().zip(last).map(mix).collect()).collect()
            }
        });
    }
}

/// Returns `|var_run - v|_2 + |mean_run - m|_2` of one norm.
///
/// `moments` `(2, c)` are means and variances of the batch, `running` and `kept` as many values in the same order.
/// `kept` comes with its weight.
///
/// # Errors
/// Returns an error if the moments have another number of channels.
pub fn norm_distance(
    moments: &Tensor,
    running: &[f32],
    kept: Option<(&[f32], f64)>,
) -> Result<Tensor> {
    let channels = running.len() / 2;
    let fits = kept.is_none_or(|(kept, _)| kept.len() == running.len());
    if moments.dims() != [2, channels] || running.len() != 2 * channels || !fits {
        bail!("moments {:?} and {} running ones", moments.shape(), running.len());
    }
    closed_form(moments, |moments| {
        let own = kept.map_or(1.0, |(_, weight)| 1.0 - weight);
        let held = |at: usize| kept.map_or(0.0, |(kept, weight)| weight * f64::from(kept[at]));
        let gap = |at: usize| f64::from(running[at]) - own * f64::from(moments[at]) - held(at);
        let gaps: Vec<f64> = (0..moments.len()).map(gap).collect();
        let (mut total, mut gradient) = (0.0, Vec::with_capacity(moments.len()));
        for part in gaps.chunks(channels.max(1)) {
            let length = part.iter().map(|gap| gap * gap).sum::<f64>().sqrt();
            total += length;
            let scale = if length > 0.0 { own / length } else { 0.0 };
            gradient.extend(part.iter().map(|gap| (-scale * gap) as f32));
        }
        (total, gradient)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    fn value(moments: [[f32; 2]; 2], kept: Option<(&[f32], f64)>) -> f64 {
        let moments = Tensor::new(&moments, &Device::Cpu).unwrap();
        let term = norm_distance(&moments, &[0.5, -1.0, 2.0, 0.25], kept).unwrap();
        f64::from(term.to_scalar::<f32>().unwrap())
    }

    /// TARGET card, invariant 3.
    #[test]
    fn it_is_zero_where_moments_agree() -> Result<()> {
        assert_eq!(value([[0.5, -1.0], [2.0, 0.25]], None), 0.0);
        let at = Var::new(&[[0.5f32, -1.0], [2.0, 0.25]], &Device::Cpu)?;
        let term = norm_distance(&at, &[0.5, -1.0, 2.0, 0.25], None)?;
        let slopes = term.backward()?.get(&at).expect("a gradient").flatten_all()?;
        assert_eq!(slopes.to_vec1::<f32>()?, [0.0; 4]);
        // Gaps (3, 4) of means and (0, 1) of variances: lengths, not squares.
        assert!((value([[3.5, 3.0], [2.0, 1.25]], None) - 6.0).abs() < 1e-6);
        Ok(())
    }

    #[test]
    fn kept_moments_stand_for_most_of_the_batch() {
        // A tenth of (3.5, 3) and nine tenths of (0.5, -1): gaps (0.3, 0.4), and of variances nothing.
        let kept: &[f32] = &[0.5, -1.0, 2.0, 0.25];
        assert!((value([[3.5, 3.0], [2.0, 0.25]], Some((kept, 0.9))) - 0.5).abs() < 1e-6);
        assert!((value([[3.5, 3.0], [2.0, 0.25]], Some((kept, 0.0))) - 5.0).abs() < 1e-6);
    }

    #[test]
    fn the_gradient_is_the_slope() -> Result<()> {
        let at = [[1.0f32, -0.2], [3.0, 0.4]];
        let kept: &[f32] = &[0.1, 0.2, 0.3, 0.4];
        for kept in [None, Some((kept, 0.7))] {
            let moments = Var::new(&at, &Device::Cpu)?;
            let term = norm_distance(&moments, &[0.5, -1.0, 2.0, 0.25], kept)?;
            let slopes = term.backward()?.get(&moments).expect("a gradient").to_vec2::<f32>()?;
            for row in 0..2 {
                for channel in 0..2 {
                    let moved = |by: f32| {
                        let mut at = at;
                        at[row][channel] += by;
                        value(at, kept)
                    };
                    let difference = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                    assert!((f64::from(slopes[row][channel]) - difference).abs() < 1e-3);
                }
            }
        }
        Ok(())
    }

    /// Kept are the last moments of the first call, then a mean that forgets.
    #[test]
    fn calls_are_smoothed_one_after_the_other() -> Result<()> {
        let input = |scale: f64| -> Result<NormInput> {
            let input = (Tensor::new(&[[0f32, 1.0], [2.0, 3.0]], &Device::Cpu)? * scale)?;
            let vector = |v: f32| Tensor::full(v, 2, &Device::Cpu);
            Ok(NormInput { input, running_mean: vector(0.0)?, running_variance: vector(1.0)? })
        };
        let mut moments = SmoothedMoments::new(0.9);
        assert!(moments.distance(&[])?.is_none());
        let first = moments.distance(&[input(5.0)?])?.expect("a norm").to_scalar::<f32>()?;
        let again = moments.distance(&[input(1.0)?])?.expect("a norm").to_scalar::<f32>()?;
        assert_ne!(first, again);
        assert!(moments.kept.is_none());
        moments.end_call();
        assert_eq!(
            moments.kept.as_ref().expect("kept")[0],
            [1.0, 2.0, 1.0, 1.0],
            "the last batch's"
        );
        let smooth = moments.distance(&[input(1.0)?])?.expect("a norm").to_scalar::<f32>()?;
        assert!((smooth - again).abs() < 1e-6, "the same moments");
        moments.distance(&[input(3.0)?])?;
        moments.end_call();
        let kept = &moments.kept.as_ref().expect("kept")[0];
        for (got, wanted) in kept.iter().zip([1.2, 2.4, 1.8, 1.8]) {
            assert!((got - wanted).abs() < 1e-5, "{kept:?}");
        }
        assert!(
            norm_distance(&Tensor::zeros((2, 3), DType::F32, &Device::Cpu)?, &[0.0; 4], None)
                .is_err()
        );
        Ok(())
    }
}
