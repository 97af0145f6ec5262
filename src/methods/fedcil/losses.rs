//! Losses of an AC-GAN, and of its consistency with the server's generator.

use candle_core::Tensor;

use crate::learning::LearningError;
use crate::learning::losses::closed_form;
use crate::model::GanAnswer;
use crate::model::ops;

/// Weights of the consistency with the server's generator; `p` are class probabilities.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ConsistencyWeights {
    /// Weight of `K1`: `KL(p of the server's images | p of real images)`.
    pub real: f64,
    /// Weight of `K2`: `KL(p of the server's images | p of the client's generated images)`.
    pub generated: f64,
    /// Weight of `K3`: cross-entropy of the server's images.
    pub labels: f64,
}

/// Images of a batch and the head row of each.
#[derive(Clone, Debug)]
pub(super) struct LabeledImages {
    /// Images, `(b, channels, image, image)`, without gradients.
    pub images: Tensor,
    /// Head rows of the images, `b` of them.
    pub labels: Vec<u32>,
}

/// Returns the mean binary cross-entropy of the logits `(b)` of being real, a scalar.
///
/// # Errors
/// Returns the errors of the device.
pub(super) fn realness(logits: &Tensor, is_real: bool) -> candle_core::Result<Tensor> {
    let sign = if is_real { -1.0 } else { 1.0 };
    closed_form(logits, |logits| {
        let count = logits.len().max(1) as f64;
        // Computed from exp(-|z|) only, which cannot overflow.
        let each = |z: f64| {
            let small = libm::exp(-z.abs());
            let slope = if z > 0.0 { 1.0 } else { small } / (1.0 + small);
            (z.max(0.0) + libm::log1p(small), slope)
        };
        let each: Vec<(f64, f64)> = logits.iter().map(|z| each(sign * f64::from(*z))).collect();
        let value = each.iter().map(|(value, _)| value).sum::<f64>() / count;
        (value, each.iter().map(|(_, slope)| (sign * slope / count) as f32).collect())
    })
}

/// Returns the loss of real or generated images: binary cross-entropy plus cross-entropy over all classes.
pub(super) fn auxiliary(
    answer: &GanAnswer,
    labels: &[u32],
    is_real: bool,
) -> Result<Tensor, LearningError> {
    let classes = answer.classes.dim(1)?;
    let right = ops::cross_entropy(&answer.classes, labels, 0..classes)?;
    Ok((realness(&answer.real, is_real)? + right)?)
}

/// Returns the divergence `mean_i sum_j q_ij (log q_ij - log p_ij)` of class logits, a scalar.
///
/// Both arguments are `(b, classes)`. Its gradient reaches both, as the release detaches neither.
pub(super) fn divergence(target: &Tensor, prediction: &Tensor) -> candle_core::Result<Tensor> {
    let (samples, classes) = target.dims2()?;
    closed_form(&Tensor::cat(&[target, prediction], 0)?, |logits| {
        let (targets, predictions) = logits.split_at(samples * classes);
        let (mut of_targets, mut of_predictions) = (Vec::new(), Vec::new());
        let mut sum = 0.0;
        let scale = 1.0 / samples.max(1) as f64;
        for (q, p) in targets.chunks_exact(classes).zip(predictions.chunks_exact(classes)) {
            let (log_q, log_p) = (log_softmax(q), log_softmax(p));
            let pairs = || log_q.iter().zip(&log_p);
            let own: f64 = pairs().map(|(q, p)| libm::exp(*q) * (q - p)).sum();
            sum += own;
            of_targets.extend(pairs().map(|(q, p)| (scale * libm::exp(*q) * (q - p - own)) as f32));
            of_predictions
                .extend(pairs().map(|(q, p)| (scale * (libm::exp(*p) - libm::exp(*q))) as f32));
        }
        of_targets.extend(of_predictions);
        (scale * sum, of_targets)
    })
}

fn log_softmax(logits: &[f32]) -> Vec<f64> {
    let most = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shifted = || logits.iter().map(|z| f64::from(*z) - f64::from(most));
    let log_sum = libm::log(shifted().map(libm::exp).sum::<f64>());
    shifted().map(|z| z - log_sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ops::testing::{draw, finite_difference};
    use candle_core::Device;

    fn tensor(values: &[f32], shape: &[usize]) -> Tensor {
        Tensor::from_slice(values, shape, &Device::Cpu).unwrap()
    }

    fn value(tensor: &Tensor) -> f64 {
        f64::from(tensor.to_scalar::<f32>().unwrap())
    }

    /// Real images have the loss `-log s(z)`, others `-log (1 - s(z))`, also at large logits.
    #[test]
    fn realness_is_the_binary_cross_entropy() {
        let logits = tensor(&[0.3, -2.0], &[2]);
        let s = |z: f64| 1.0 / (1.0 + (-z).exp());
        let real = -(s(0.3).ln() + s(-2.0).ln()) / 2.0;
        let generated = -((1.0 - s(0.3)).ln() + (1.0 - s(-2.0)).ln()) / 2.0;
        assert!((value(&realness(&logits, true).unwrap()) - real).abs() < 1e-6);
        assert!((value(&realness(&logits, false).unwrap()) - generated).abs() < 1e-6);
        let far = tensor(&[500.0, -500.0], &[2]);
        assert_eq!(value(&realness(&far, true).unwrap()), 250.0);
        assert_eq!(value(&realness(&far, false).unwrap()), 250.0);
    }

    #[test]
    fn gradients_are_finite_differences() {
        let one = |result: candle_core::Result<Tensor>| result?.reshape(1);
        for is_real in [true, false] {
            finite_difference(&[&draw("logits", 5)], |t| one(realness(&t[0], is_real)));
        }
        finite_difference(&[&draw("q", (3, 4)), &draw("p", (3, 4))], |t| {
            one(divergence(&t[0], &t[1]))
        });
    }

    /// One sample has probabilities 1/4 and 3/4, the other equal ones; the first argument is the target.
    #[test]
    fn divergence_is_of_the_target_from_the_prediction() {
        let (skewed, even) = (tensor(&[0.0, 3f32.ln()], &[1, 2]), tensor(&[5.0, 5.0], &[1, 2]));
        let kl = |q: [f64; 2], p: [f64; 2]| -> f64 {
            q.iter().zip(p).map(|(q, p)| q * (q / p).ln()).sum()
        };
        let found = value(&divergence(&skewed, &even).unwrap());
        assert!((found - kl([0.25, 0.75], [0.5, 0.5])).abs() < 1e-6);
        let other = value(&divergence(&even, &skewed).unwrap());
        assert!((other - kl([0.5, 0.5], [0.25, 0.75])).abs() < 1e-6);
        let both = |a: &Tensor, b: &Tensor| Tensor::cat(&[a, b], 0).unwrap();
        let mean = divergence(&both(&skewed, &even), &both(&even, &even)).unwrap();
        assert!((value(&mean) - found / 2.0).abs() < 1e-6, "a mean over samples");
    }

    /// Both heads have weight 1, and all classes compete.
    #[test]
    fn a_side_adds_both_heads() {
        let answer = GanAnswer {
            features: tensor(&[0.0], &[1, 1]),
            real: tensor(&[1.0], &[1]),
            classes: tensor(&[0.0, 1.0, 2.0], &[1, 3]),
        };
        let softmax: f64 = [0f64, 1.0, 2.0].iter().map(|z| z.exp()).sum();
        let right = softmax.ln() - 1.0;
        let real = (1.0 + (-1f64).exp()).ln();
        let found = [true, false].map(|is_real| value(&auxiliary(&answer, &[1], is_real).unwrap()));
        assert!((found[0] - (real + right)).abs() < 1e-6);
        assert!((found[1] - (1.0 + real + right)).abs() < 1e-6);
    }
}
