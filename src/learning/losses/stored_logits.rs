//! Distance of logits from those that were stored with a sample (dark experience replay).

use candle_core::{Result, Tensor, bail};

use super::closed_form;

/// Returns the mean over samples of the mean of `(z - stored)^2` over compared columns, a scalar. `z` are logits `(b,
/// C)`. A sample's first `columns` columns are compared, or all that were stored of it if fewer; a sample without
/// stored logits adds nothing.
///
/// # Errors
/// Returns an error if there is not one entry of `stored` per sample, or if more columns are compared than there are.
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

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn compared_columns_are_drawn_to_what_was_noted() {
        let z = Var::new(&[[3f32, 1.0, 9.0], [5.0, 5.0, 5.0]], &Device::Cpu).unwrap();
        // Of the second sample nothing was noted; the third column is not compared.
        let notes: [&[f32]; 2] = [&[1.0, 2.0, 0.0], &[]];
        let loss = stored_logits(&z, &notes, 2).unwrap();
        assert_eq!(loss.to_scalar::<f32>().unwrap(), (4.0 + 1.0) / 2.0 / 2.0);
        let gradients = loss.backward().unwrap();
        let gradient = gradients.get(&z).unwrap().to_vec2::<f32>().unwrap();
        assert_eq!(gradient, [[1.0, -0.5, 0.0], [0.0; 3]]);
        // One note of a sample is compared alone.
        let loss = stored_logits(&z, &[&[1.0], &[5.0, 7.0]], 2).unwrap();
        assert_eq!(loss.to_scalar::<f32>().unwrap(), (4.0 + 4.0 / 2.0) / 2.0);
    }

    #[test]
    fn notes_of_others_are_refused() {
        let z = Tensor::zeros((2, 3), candle_core::DType::F32, &Device::Cpu).unwrap();
        let one: &[f32] = &[0.0; 4];
        for (notes, columns) in [(&[one][..], 2), (&[one, one], 4)] {
            let error = stored_logits(&z, notes, columns).unwrap_err().to_string();
            assert!(error.starts_with("stored logits: "), "{error}");
        }
    }
}
