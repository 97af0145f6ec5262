//! Half of a block as one operation of `x` and all tensors that may train.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, Layout, Result, Shape, Tensor};

use super::super::bundle::{Bundle, BundleGradients, no_value};
use super::super::storage::{lent, tensor_like, values};

/// Computation of a half on plain rows.
pub(super) trait HalfKernel: Send + Sync {
    /// Name of the half's node in the graph.
    const NAME: &'static str;

    /// Tensors besides `x` that may get gradients, in the order of [`HalfGradients::others`].
    fn tensors(&self) -> Vec<&Tensor>;

    /// Computes the half. If it is `tracked`, a backward pass may follow.
    ///
    /// # Errors
    /// Returns an error if a tensor is not on the CPU in `f32`.
    fn forward(&self, x: &[f32], tracked: bool) -> Result<(Vec<f32>, Shape)>;

    /// Returns the gradients of `x`, if it is wanted, and of all tensors that train.
    ///
    /// `g` is the gradient of the result.
    ///
    /// # Errors
    /// Returns an error if a tensor is not on the CPU in `f32`.
    fn backward(&self, x: &[f32], g: &[f32], want_x: bool) -> Result<HalfGradients>;
}

/// Gradients of a half.
pub(super) struct HalfGradients {
    /// Gradient of `x`.
    pub x: Option<Vec<f32>>,
    /// Gradients of [`HalfKernel::tensors`]; `None` for those that do not train.
    pub others: Vec<Option<Vec<f32>>>,
}

/// Applies a half to `x`.
///
/// # Errors
/// Fails as the half does.
pub(super) fn apply(x: &Tensor, kernel: impl HalfKernel + 'static) -> Result<Tensor> {
    let x = x.contiguous()?;
    match Bundle::of(&kernel.tensors())? {
        None => {
            let (tracked, gradients) = (x.track_op(), BundleGradients::default());
            x.apply_op1(HalfOp { kernel, tracked, gradients })
        }
        Some(Bundle { operand, gradients }) => {
            x.apply_op2(&operand, HalfOp { kernel, tracked: true, gradients })
        }
    }
}

struct HalfOp<K> {
    kernel: K,
    tracked: bool,
    gradients: BundleGradients,
}

impl<K: HalfKernel> HalfOp<K> {
    fn forward(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (y, shape) = self.kernel.forward(values(x, layout)?, self.tracked)?;
        Ok((CpuStorage::F32(y), shape))
    }

    /// Returns the gradient of `x`, and passes on those of all other tensors.
    fn backward(&self, x: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let g = g.contiguous()?;
        let found = self.kernel.backward(&lent(x)?, &lent(&g)?, x.track_op())?;
        let of = |(tensor, values): (&Tensor, Option<Vec<f32>>)| {
            values.map(|values| tensor_like(values, tensor)).transpose()
        };
        let others = self.kernel.tensors().into_iter().zip(found.others).map(of);
        self.gradients.put(others.collect::<Result<_>>()?);
        of((x, found.x))
    }
}

impl<K: HalfKernel> CustomOp1 for HalfOp<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        self.forward(x, layout)
    }

    fn bwd(&self, x: &Tensor, _result: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        self.backward(x, g)
    }
}

impl<K: HalfKernel> CustomOp2 for HalfOp<K> {
    fn name(&self) -> &'static str {
        K::NAME
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        layout: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.forward(x, layout)
    }

    fn bwd(
        &self,
        x: &Tensor,
        _bundle: &Tensor,
        _result: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        Ok((self.backward(x, g)?, Some(no_value()?)))
    }
}
