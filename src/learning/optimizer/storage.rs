//! Access to tensor values as slices, and in-place changes of a `Var`.

use parking_lot::Mutex;

use candle_core::{CpuStorage, DType, InplaceOp1, Layout, Result, Storage, Tensor, Var, bail};

/// Calls `work` with the values of `tensor`, row-major.
///
/// Values in `f32` on the CPU are not copied unless the tensor is strided; from anywhere else they are fetched.
pub(crate) fn lend<R>(tensor: &Tensor, work: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    if !tensor.device().is_cpu() || tensor.dtype() != DType::F32 {
        return work(&tensor.flatten_all()?.to_dtype(DType::F32)?.to_vec1::<f32>()?);
    }
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match (&*storage, layout.contiguous_offsets()) {
        (Storage::Cpu(CpuStorage::F32(data)), Some((from, to))) => work(&data[from..to]),
        _ => bail!("a contiguous f32 tensor on the CPU was expected"),
    }
}

/// Changes the values of `var` in place, which are `f32` on the CPU.
pub(super) fn edit(var: &Var, work: impl FnMut(&mut [f32]) + Send) -> Result<()> {
    var.inplace_op1(&Edit(Mutex::new(work)))
}

struct Edit<F>(Mutex<F>);

impl<F: FnMut(&mut [f32])> InplaceOp1 for Edit<F> {
    fn name(&self) -> &'static str {
        "edit"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let (CpuStorage::F32(data), Some((from, to))) = (storage, layout.contiguous_offsets())
        else {
            bail!("a variable to train must be a contiguous f32 tensor")
        };
        let mut work = self.0.lock();
        work(&mut data[from..to]);
        Ok(())
    }
}
