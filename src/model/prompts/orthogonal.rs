//! Orthogonal rows: their construction, and the deviation of rows from orthogonality.

use candle_core::{Result, Tensor};

use crate::model::ops;

/// Returns unit rows that are orthogonal to `old` rows and to each other. They are made from `draws` by classical
/// Gram-Schmidt: each draw loses its projections on every earlier row, with coefficients from the original draw. All
/// rows have `width` values and are concatenated.
///
/// The result is exact if the old rows are orthogonal to each other. Trained rows no longer are, and new rows then keep
/// a small part of them, as in CODA-Prompt's code. A draw of which nothing is left becomes zero.
pub fn gram_schmidt(old: &[f32], draws: &[f32], width: usize) -> Vec<f32> {
    let wide = |row: &[f32]| row.iter().map(|v| f64::from(*v)).collect::<Vec<f64>>();
    let mut rows: Vec<Vec<f64>> = old.chunks_exact(width).map(wide).collect();
    let first_new = rows.len();
    for draw in draws.chunks_exact(width).map(wide) {
        let mut left = draw.clone();
        for row in &rows {
            let square = dot(row, row);
            if square > 0.0 {
                let factor = dot(&draw, row) / square;
                left.iter_mut().zip(row).for_each(|(value, u)| *value -= factor * u);
            }
        }
        rows.push(left);
    }
    let unit = |row: Vec<f64>| {
        let norm = dot(&row, &row).sqrt();
        row.into_iter().map(move |v| if norm > 0.0 { (v / norm) as f32 } else { 0.0 })
    };
    rows.split_off(first_new).into_iter().flat_map(unit).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns `mean((U U^T - I)^2)` over the entries, `[]`, of rows `U` `(n, ..)`. It is zero if they are orthonormal.
///
/// # Errors
/// Returns an error if the device fails.
pub fn orthogonality(rows: &Tensor) -> Result<Tensor> {
    let rows = rows.flatten_from(1)?;
    let gram = ops::linear(&rows, &rows, None)?;
    let identity = Tensor::eye(rows.dim(0)?, gram.dtype(), gram.device())?;
    ops::mean_all(&(gram - identity)?.sqr()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use candle_core::{Device, Var};

    #[test]
    fn golden_coda_gram_schmidt() {
        let Some(golden) = Golden::open("coda") else { return };
        let (old, draws) = (golden.f32("gs.old"), golden.f32("gs.draws"));
        golden.assert_close("gs.new", &gram_schmidt(&old, &draws, 20));
        golden.assert_close("gs.first", &gram_schmidt(&[], &[old, draws].concat(), 20));
    }

    #[test]
    fn orthonormal_rows_cost_nothing_and_feel_no_pull() -> Result<()> {
        let draws: Vec<f32> = (0..3 * 20).map(|i| (i as f32 * 1.7).sin()).collect();
        let rows = gram_schmidt(&[], &draws, 20);
        let rows = Var::from_vec(rows, (3, 4, 5), &Device::Cpu)?;
        let penalty = orthogonality(&rows)?;
        assert!(penalty.to_scalar::<f32>()? < 1e-12);
        let grads = penalty.backward()?;
        let pull = grads.get(&rows).unwrap().flatten_all()?.to_vec1::<f32>()?;
        assert!(pull.iter().all(|g| g.abs() < 1e-6));
        assert!(orthogonality(&(rows.as_tensor() * 2.0)?)?.to_scalar::<f32>()? > 1.0);
        Ok(())
    }

    #[test]
    fn a_draw_that_adds_nothing_stays_zero() {
        assert_eq!(gram_schmidt(&[1.0, 0.0], &[3.0, 0.0], 2), [0.0, 0.0]);
    }
}
