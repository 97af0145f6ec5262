//! Values computed without a graph, with a custom backward pass, on any device.
//!
//! candle's graph of a composed op keeps every intermediate tensor until the backward pass, and differentiates frozen
//! operands too. So without the CPU kernels an operation is composed on detached operands, from which its backward pass
//! recomputes what it needs: a layer norm keeps its input and output instead of nine tensors, and attention no
//! probabilities at all.

use parking_lot::Mutex;

use candle_core::backend::BackendStorage;
use candle_core::{
    CpuStorage, CudaStorage, CustomOp1, CustomOp3, Layout, Result, Shape, Storage, Tensor, bail,
};

/// Function from the gradient of the result to those of the operands; `None` if one is not wanted.
type Backward<const N: usize> = Box<dyn Fn(&Tensor) -> Result<[Option<Tensor>; N]> + Send + Sync>;

/// Returns `value` as a function of `x` with this gradient. Untracked operands build no graph.
pub(super) fn with_gradient(
    x: &Tensor,
    value: Tensor,
    backward: impl Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync + 'static,
) -> Result<Tensor> {
    if !x.track_op() {
        return Ok(value);
    }
    x.apply_op1(ValueWithGradient::new(value, Box::new(move |g| Ok([backward(g)?]))))
}

/// Returns [`with_gradient`] of three operands.
pub(super) fn with_gradients(
    operands: [&Tensor; 3],
    value: Tensor,
    backward: impl Fn(&Tensor) -> Result<[Option<Tensor>; 3]> + Send + Sync + 'static,
) -> Result<Tensor> {
    if !operands.iter().any(|t| t.track_op()) {
        return Ok(value);
    }
    let [x, y, z] = operands;
    x.apply_op3(y, z, ValueWithGradient::new(value, Box::new(backward)))
}

struct ValueWithGradient<const N: usize> {
    /// Value of the operation, until its forward pass takes it.
    value: Mutex<Option<Tensor>>,
    backward: Backward<N>,
}

impl<const N: usize> ValueWithGradient<N> {
    fn new(value: Tensor, backward: Backward<N>) -> ValueWithGradient<N> {
        ValueWithGradient { value: Mutex::new(Some(value)), backward }
    }

    fn take(&self) -> Result<Tensor> {
        match self.value.lock().take() {
            Some(value) => value.contiguous(),
            None => bail!("a given value was asked for twice"),
        }
    }

    fn on_cpu(&self) -> Result<(CpuStorage, Shape)> {
        let value = self.take()?;
        let (storage, layout) = value.storage_and_layout();
        match &*storage {
            Storage::Cpu(storage) => Ok((storage.try_clone(layout)?, layout.shape().clone())),
            _ => bail!("the value of an op lies on another device than its operands"),
        }
    }

    fn on_cuda(&self) -> Result<(CudaStorage, Shape)> {
        let value = self.take()?;
        let (storage, layout) = value.storage_and_layout();
        match &*storage {
            Storage::Cuda(storage) => Ok((storage.try_clone(layout)?, layout.shape().clone())),
            _ => bail!("the value of an op lies on another device than its operands"),
        }
    }
}

impl CustomOp1 for ValueWithGradient<1> {
    fn name(&self) -> &'static str {
        "given"
    }

    fn cpu_fwd(&self, _: &CpuStorage, _: &Layout) -> Result<(CpuStorage, Shape)> {
        self.on_cpu()
    }

    fn cuda_fwd(&self, _: &CudaStorage, _: &Layout) -> Result<(CudaStorage, Shape)> {
        self.on_cuda()
    }

    fn bwd(&self, _: &Tensor, _: &Tensor, g: &Tensor) -> Result<Option<Tensor>> {
        let [gradient] = (self.backward)(g)?;
        Ok(gradient)
    }
}

impl CustomOp3 for ValueWithGradient<3> {
    fn name(&self) -> &'static str {
        "given"
    }

    fn cpu_fwd(
        &self,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
        _: &CpuStorage,
        _: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        self.on_cpu()
    }

    fn cuda_fwd(
        &self,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
        _: &CudaStorage,
        _: &Layout,
    ) -> Result<(CudaStorage, Shape)> {
        self.on_cuda()
    }

    fn bwd(
        &self,
        _: &Tensor,
        _: &Tensor,
        _: &Tensor,
        _: &Tensor,
        g: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let [x, y, z] = (self.backward)(g)?;
        Ok((x, y, z))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    #[test]
    fn the_value_is_the_given_one_and_the_gradient_ours() -> Result<()> {
        let x = Var::new(&[1f32, 2.0, 3.0], &Device::Cpu)?;
        let value = x.as_detached_tensor().sqr()?;
        let y = with_gradient(&x, value.clone(), |g| Ok(Some((g * 7.0)?)))?;
        assert_eq!(y.to_vec1::<f32>()?, [1.0, 4.0, 9.0]);
        let grads = (y * 2.0)?.sum_all()?.backward()?;
        assert_eq!(grads.get(&x).unwrap().to_vec1::<f32>()?, [14.0; 3]);
        let frozen = with_gradient(&x.as_detached_tensor(), value, |_| unreachable!())?;
        assert!(!frozen.track_op());
        Ok(())
    }
}
