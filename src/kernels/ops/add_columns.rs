//! Addition of a matrix to some columns of a wider one.

use candle_core::{D, Result, Tensor, bail};

use super::gpu;
use super::with_gradient::with_gradients;

/// Adds `more` `(.., taken)` to the columns of `x` `(.., width)` from `first` on.
///
/// # Errors
/// Returns an error if the shapes do not fit.
pub fn add_columns(x: &Tensor, more: &Tensor, first: usize) -> Result<Tensor> {
    let (width, taken) = (x.dim(D::Minus1)?, more.dim(D::Minus1)?);
    let same_rows =
        x.dims().split_last().map(|(_, d)| d) == more.dims().split_last().map(|(_, d)| d);
    if !same_rows || first + taken > width {
        bail!("columns: {:?} does not fit into {:?} at {first}", more.shape(), x.shape());
    }
    let more = &more.to_dtype(x.dtype())?;
    if !gpu::serves(&[x, more]) {
        return x + more.pad_with_zeros(D::Minus1, first, width - taken - first)?;
    }
    let value = gpu::add_columns(&x.detach(), &more.detach(), first)?;
    let want = [x, more].map(Tensor::track_op);
    with_gradients([x, more, more], value, move |g| {
        let by_more = || g.narrow(D::Minus1, first, taken)?.contiguous();
        Ok([want[0].then(|| g.clone()), want[1].then(by_more).transpose()?, None])
    })
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    #[test]
    fn the_columns_get_the_sum_and_both_get_their_gradients() -> Result<()> {
        let x = Var::new(&[[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &Device::Cpu)?;
        let more = Var::new(&[[10f32], [20.0]], &Device::Cpu)?;
        let y = add_columns(&x, &more, 1)?;
        assert_eq!(y.to_vec2::<f32>()?, [[1.0, 12.0, 3.0], [4.0, 25.0, 6.0]]);
        let weights = Tensor::new(&[[1f32, 2.0, 3.0], [4.0, 5.0, 6.0]], &Device::Cpu)?;
        let grads = (y * &weights)?.sum_all()?.backward()?;
        assert_eq!(grads.get(&x).unwrap().to_vec2::<f32>()?, weights.to_vec2::<f32>()?);
        assert_eq!(grads.get(&more).unwrap().to_vec2::<f32>()?, [[2.0], [5.0]]);
        assert!(add_columns(&x, &more, 3).is_err());
        assert!(add_columns(&x, &Tensor::zeros((3, 1), x.dtype(), &Device::Cpu)?, 0).is_err());
        Ok(())
    }
}
