//! The cross-entropy of independent outputs with targets between 0 and 1.

use candle_core::{Result, Tensor, bail};

use super::closed_form;

/// `mean over samples of sum over columns of BCE(sigmoid z, target)`, of the first `targets.len() / b` columns of logits
/// `(b, C)`, as a scalar; `by_column` divides it by their number, too. Other columns get no gradient.
///
/// # Errors
/// More targets than logits, or none.
pub fn sigmoid_targets(z: &Tensor, targets: &[f32], by_column: bool) -> Result<Tensor> {
    let (samples, classes) = z.dims2()?;
    let columns = targets.len() / samples.max(1);
    if columns == 0 || columns > classes || columns * samples != targets.len() {
        bail!("sigmoid cross-entropy: {} targets for {:?}", targets.len(), z.shape());
    }
    let share = 1.0 / (samples * if by_column { columns } else { 1 }) as f64;
    closed_form(z, |z| {
        let (mut total, mut gradient) = (0.0, vec![0f32; z.len()]);
        let rows = z.chunks_exact(classes).zip(gradient.chunks_exact_mut(classes));
        for ((z, gradient), targets) in rows.zip(targets.chunks_exact(columns)) {
            for ((z, g), t) in z.iter().zip(gradient).zip(targets) {
                let (z, t) = (f64::from(*z), f64::from(*t));
                total += z.max(0.0) - z * t + libm::log1p(libm::exp(-z.abs()));
                *g = (share * (sigmoid(z) - t)) as f32;
            }
        }
        (share * total, gradient)
    })
}

/// `1 / (1 + exp(-z))`, without overflow.
pub fn sigmoid(z: f64) -> f64 {
    let small = libm::exp(-z.abs());
    if z >= 0.0 { 1.0 / (1.0 + small) } else { small / (1.0 + small) }
}
