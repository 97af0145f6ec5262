//! Selection of prompts by a query, on the host and without gradient.

use candle_core::{DType, Result, Tensor};

/// Returns the `count` best columns of each row of similarities `(b, n)`, in falling order. Of equals, the lower index
/// comes first.
///
/// # Errors
/// Returns an error if the device fails.
pub fn selection(similarities: &Tensor, count: usize) -> Result<Vec<Vec<u32>>> {
    let rows = similarities.detach().to_dtype(DType::F32)?.to_vec2::<f32>()?;
    Ok(rows.iter().map(|row| best(row, count)).collect())
}

/// Returns the indices of the `count` largest values, in falling order. Of equals, the lower index comes first.
///
/// ```
/// assert_eq!(fedcast::model::prompts::best(&[0.1, 0.5, -1.0, 0.5], 3), [1, 3, 0]);
/// ```
pub fn best(values: &[f32], count: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..values.len() as u32).collect();
    order.sort_by(|a, b| values[*b as usize].total_cmp(&values[*a as usize]).then(a.cmp(b)));
    order.truncate(count);
    order
}
