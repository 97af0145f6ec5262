//! Loss for batches with equal shares of all classes.

use candle_core::{Result, Tensor};

use crate::learning::losses::closed_form;

/// Returns `1 + sum_c p_c ln p_c / ln K` of `scores` `(b, K)`, with `p` the mean of their softmax. It is 0 for equal
/// shares and 1 for a single class (MFCL's information entropy).
///
/// With `K = 1` it is 0 without a gradient.
///
/// # Errors
/// Returns an error if the scores are not a matrix.
pub fn diversity(scores: &Tensor) -> Result<Tensor> {
    let (batch, classes) = scores.dims2()?;
    closed_form(scores, |scores| {
        if classes < 2 {
            return (0.0, vec![0.0; scores.len()]);
        }
        let rows: Vec<Vec<f64>> = scores.chunks_exact(classes).map(softmax).collect();
        let share = |class: usize| rows.iter().map(|row| row[class]).sum::<f64>() / batch as f64;
        let shares: Vec<f64> = (0..classes).map(share).collect();
        let scale = 1.0 / libm::log(classes as f64);
        // A share that underflowed to zero has no slope either, as its softmax is zero.
        let logs: Vec<f64> = shares.iter().map(|p| libm::log(p.max(f64::MIN_POSITIVE))).collect();
        let value = 1.0 + scale * shares.iter().zip(&logs).map(|(p, log)| p * log).sum::<f64>();
        let mut gradient = Vec::with_capacity(scores.len());
        for row in &rows {
            // The derivative by `p_c` is `ln p_c + 1`; the 1 cancels, as every softmax sums to 1.
            let mean: f64 = row.iter().zip(&logs).map(|(p, log)| p * log).sum();
            let slope = |(p, log): (&f64, &f64)| (scale / batch as f64 * p * (log - mean)) as f32;
            gradient.extend(row.iter().zip(&logs).map(slope));
        }
        (value, gradient)
    })
}

fn softmax(row: &[f32]) -> Vec<f64> {
    let top = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers = row.iter().map(|z| libm::exp(f64::from(*z) - f64::from(top)));
    let powers: Vec<f64> = powers.collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    fn value(scores: &[[f32; 3]]) -> f32 {
        let z = Tensor::from_slice(scores.as_flattened(), (scores.len(), 3), &Device::Cpu).unwrap();
        diversity(&z).unwrap().to_scalar().unwrap()
    }

    /// MFCL card, invariant 3: shares of a batch count, not the confidence in single samples.
    #[test]
    fn equal_shares_are_zero_and_one_class_is_one() {
        assert!(value(&[[2.0, 2.0, 2.0]; 4]).abs() < 1e-6);
        assert!((value(&[[60.0, -60.0, 0.0]; 4]) - 1.0).abs() < 1e-6);
        let one_each = [[60.0, 0.0, 0.0], [0.0, 60.0, 0.0], [0.0, 0.0, 60.0]];
        assert!(value(&one_each).abs() < 1e-6);
        let two = value(&[[60.0, 0.0, 0.0], [0.0, 60.0, 0.0]]);
        assert!((f64::from(two) - (1.0 - 2f64.ln() / 3f64.ln())).abs() < 1e-6, "{two}");
        let alone = Tensor::new(&[[3f32], [1.0]], &Device::Cpu).unwrap();
        assert_eq!(diversity(&alone).unwrap().to_scalar::<f32>().unwrap(), 0.0);
    }

    #[test]
    fn the_gradient_is_the_slope() -> Result<()> {
        let scores = [[0.3f32, -1.0, 0.8], [1.5, 0.2, 0.1]];
        let z = Var::new(&scores, &Device::Cpu)?;
        let slopes = diversity(&z)?.backward()?.get(&z).expect("a gradient").to_vec2::<f32>()?;
        for row in 0..2 {
            for class in 0..3 {
                let moved = |by: f32| {
                    let mut scores = scores;
                    scores[row][class] += by;
                    value(&scores)
                };
                let difference = (moved(1e-2) - moved(-1e-2)) / 2e-2;
                assert!((slopes[row][class] - difference).abs() < 1e-4, "{difference}");
            }
        }
        Ok(())
    }
}
