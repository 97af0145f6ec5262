//! Cosines between queries and keys, and sums that they weight.

use candle_core::{Result, Tensor};

use crate::model::ops;

/// Lower bound of norms.
const LEAST_NORM: f64 = 1e-12;

/// Returns the square root of a squared norm. The lower bound is applied before the root, whose slope is then finite.
fn norm(squared: &Tensor) -> Result<Tensor> {
    squared.maximum(LEAST_NORM * LEAST_NORM)?.sqrt()
}

/// Returns `cos(q_i, k_j)`, `(b, n)`, of queries `(b, d)` and keys `(n, d)`.
///
/// # Errors
/// Returns an error if the widths differ.
pub fn cosines(queries: &Tensor, keys: &Tensor) -> Result<Tensor> {
    ops::linear(&ops::unit_rows(queries)?, &ops::unit_rows(keys)?, None)
}

/// Returns `cos(q_i * a_j, k_j)`, `(b, n)`, with an elementwise product of query and attention.
///
/// Queries are `(b, d)`, keys and attention `(n, d)` (CODA-Prompt, equation 5).
///
/// # Errors
/// Returns an error if shapes differ.
pub fn attended_cosines(queries: &Tensor, keys: &Tensor, attention: &Tensor) -> Result<Tensor> {
    // Computed as q . (a k / |k|) over the root of q^2 . a^2, which needs no tensor of b x n x d.
    let products = ops::linear(queries, &(attention * ops::unit_rows(keys)?)?, None)?;
    let squares = ops::linear(&queries.sqr()?, &attention.sqr()?, None)?;
    products / norm(&squares)?
}

/// Returns `sum_j w_ij p_j`, `(b, L, d)`, of weights `(b, n)` and prompts `(n, L, d)`.
///
/// # Errors
/// Returns an error if there are not as many weights as prompts.
pub fn weighted(weights: &Tensor, prompts: &Tensor) -> Result<Tensor> {
    let (count, length, dim) = prompts.dims3()?;
    let by_entry = prompts.reshape((count, length * dim))?.t()?.contiguous()?;
    ops::linear(weights, &by_entry, None)?.reshape((weights.dim(0)?, length, dim))
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    fn rows(count: usize, dim: usize, shift: f32) -> Tensor {
        let values: Vec<f32> = (0..count * dim).map(|i| (i as f32 * 0.7 + shift).sin()).collect();
        Tensor::from_vec(values, (count, dim), &Device::Cpu).unwrap()
    }

    fn close(a: &Tensor, b: &Tensor) -> bool {
        let (a, b) = (a.flatten_all().unwrap(), b.flatten_all().unwrap());
        let (a, b) = (a.to_vec1::<f32>().unwrap(), b.to_vec1::<f32>().unwrap());
        a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| (a - b).abs() < 1e-5)
    }

    #[test]
    fn cosines_do_not_see_scale_and_are_odd() -> Result<()> {
        let (queries, keys, attention) = (rows(3, 8, 0.0), rows(4, 8, 1.0), rows(4, 8, 2.0));
        let plain = cosines(&queries, &keys)?;
        assert!(close(&plain, &cosines(&(&queries * 5.0)?, &(&keys * 0.3)?)?));
        assert!(close(&plain.neg()?, &cosines(&queries.neg()?, &keys)?));
        let attended = attended_cosines(&queries, &keys, &attention)?;
        let scaled = attended_cosines(&(&queries * 5.0)?, &(&keys * 0.3)?, &(&attention * 7.0)?)?;
        assert!(close(&attended, &scaled));
        // Attention that looks everywhere alike is none.
        assert!(close(&plain, &attended_cosines(&queries, &keys, &keys.ones_like()?)?));
        Ok(())
    }

    #[test]
    fn a_prompt_is_linear_in_its_components() -> Result<()> {
        let prompts = |shift| rows(4, 6, shift).reshape((4, 2, 3));
        let (a, b, w) = (prompts(0.0)?, prompts(1.0)?, rows(2, 4, 3.0));
        let together = weighted(&w, &((&a * 2.0)? - &b)?)?;
        assert!(close(&together, &((weighted(&w, &a)? * 2.0)? - weighted(&w, &b)?)?));
        assert_eq!(together.dims(), [2, 2, 3]);
        Ok(())
    }

    #[test]
    fn zeros_have_cosine_zero_and_finite_gradients() -> Result<()> {
        let keys = Var::zeros((2, 8), candle_core::DType::F32, &Device::Cpu)?;
        let attention = Var::zeros((2, 8), candle_core::DType::F32, &Device::Cpu)?;
        let queries = rows(3, 8, 0.0);
        for found in [cosines(&queries, &keys)?, attended_cosines(&queries, &keys, &attention)?] {
            assert!(found.flatten_all()?.to_vec1::<f32>()?.iter().all(|c| *c == 0.0));
            let grads = found.sum_all()?.backward()?;
            let by_keys = grads.get(&keys).unwrap().flatten_all()?.to_vec1::<f32>()?;
            assert!(by_keys.iter().all(|g| g.is_finite()));
        }
        Ok(())
    }
}
