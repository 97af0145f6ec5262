//! The distance of logits from those that were noted when a sample was stored (dark experience).

use candle_core::{Result, Tensor, bail};

use super::closed_form;

/// `mean over samples of mean over compared columns of (z - stored)^2`, of logits `(b, C)`, as a scalar. A sample's first
/// `columns` columns are compared, or as many as were noted of it; one of which nothing was noted adds nothing.
///
/// # Errors
/// As many notes as samples, and no more columns than there are.
pub fn stored_logits(z: &Tensor, stored: &[&[f32]], columns: usize) -> Result<Tensor> {
    let (samples, classes) = z.dims2()?;
    if stored.len() != samples || columns > classes || samples == 0 {
        bail!("stored logits: {} notes and {columns} columns for {:?}", stored.len(), z.shape());
    }
    closed_form(z, |z| {
        let (mut total, mut gradient) = (0.0, vec![0f32; z.len()]);
        let rows = z.chunks_exact(classes).zip(gradient.chunks_exact_mut(classes)).zip(stored);
        for ((z, gradient), stored) in rows {
            let compared = columns.min(stored.len());
            let share = 1.0 / (compared.max(1) * samples) as f64;
            for ((z, g), s) in z.iter().zip(gradient).zip(*stored).take(compared) {
                let gap = f64::from(*z) - f64::from(*s);
                total += share * gap * gap;
                *g = (2.0 * share * gap) as f32;
            }
        }
        (total, gradient)
    })
}
