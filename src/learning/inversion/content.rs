//! Loss for images that a classifier assigns to a class with confidence.

use candle_core::{Result, Tensor};

use crate::learning::losses::closed_form;

/// Returns the mean cross-entropy of `scores / temperature` against their own largest class.
///
/// `scores` are `(b, K)`. The class is a constant, the first of equal scores. At MFCL's temperature of 1000 the term is
/// nearly constant.
///
/// # Errors
/// Returns an error if the scores are not a matrix.
pub fn content(scores: &Tensor, temperature: f64) -> Result<Tensor> {
    let (batch, classes) = scores.dims2()?;
    closed_form(scores, |scores| {
        let (mut total, mut gradient) = (0.0, Vec::with_capacity(scores.len()));
        for row in scores.chunks_exact(classes) {
            let label = largest(row);
            let top = f64::from(row[label]);
            let powers = row.iter().map(|z| libm::exp((f64::from(*z) - top) / temperature));
            let powers: Vec<f64> = powers.collect();
            let sum: f64 = powers.iter().sum();
            total += libm::log(sum);
            let share = 1.0 / (temperature * batch as f64);
            gradient.extend(powers.iter().enumerate().map(|(class, power)| {
                let wanted = if class == label { 1.0 } else { 0.0 };
                (share * (power / sum - wanted)) as f32
            }));
        }
        (total / batch as f64, gradient)
    })
}

/// Returns the index of the largest score, the first of equals.
pub(crate) fn largest(row: &[f32]) -> usize {
    let mut best = 0;
    for (at, score) in row.iter().enumerate() {
        if *score > row[best] {
            best = at;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    /// Two samples of three classes by hand: `ln sum exp((z - top) / T)`, and its slope.
    #[test]
    fn the_largest_class_is_the_label() -> Result<()> {
        let scores = [[1f32, 3.0, -2.0], [0.5, 0.5, 0.0]];
        let z = Var::new(&scores, &Device::Cpu)?;
        let loss = content(&z, 2.0)?;
        let log_sum =
            |row: [f64; 3], top: f64| row.iter().map(|z| ((z - top) / 2.0).exp()).sum::<f64>().ln();
        let wanted = (log_sum([1.0, 3.0, -2.0], 3.0) + log_sum([0.5, 0.5, 0.0], 0.5)) / 2.0;
        assert!((f64::from(loss.to_scalar::<f32>()?) - wanted).abs() < 1e-6);
        let slopes = loss.backward()?.get(&z).expect("a gradient").to_vec2::<f32>()?;
        for (row, (label, slopes)) in scores.iter().zip([1, 0].into_iter().zip(&slopes)) {
            let powers = row.map(|z| (f64::from(z) / 2.0).exp());
            let sum: f64 = powers.iter().sum();
            for (class, slope) in slopes.iter().enumerate() {
                let one = if class == label { 1.0 } else { 0.0 };
                let wanted = (powers[class] / sum - one) / 4.0;
                assert!((f64::from(*slope) - wanted).abs() < 1e-7, "{slope} {wanted}");
            }
        }
        assert_eq!(largest(&[0.0, 2.0, 2.0]), 1);
        Ok(())
    }
}
