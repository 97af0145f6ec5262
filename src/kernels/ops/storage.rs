//! Conversion between candle tensors and plain slices.

use std::cell::Cell;
use std::ops::{Deref, Range};

use candle_core::{CpuStorage, DType, Device, Layout, Result, Storage, StorageRef, Tensor, bail};

thread_local! {
    static KERNELS_OFF: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` in this thread as on another device than the CPU. Operations are composed of candle's, and optimizers
/// step on the device. So tests cover the code path of a GPU without one.
pub fn without_kernels<R>(work: impl FnOnce() -> R) -> R {
    struct KernelsOffGuard(bool);
    impl Drop for KernelsOffGuard {
        fn drop(&mut self) {
            KERNELS_OFF.set(self.0);
        }
    }
    let _restore = KernelsOffGuard(KERNELS_OFF.replace(true));
    work()
}

/// Returns true if our kernels support these tensors: `f32` on the CPU. All others use compositions.
pub fn served(tensors: &[&Tensor]) -> bool {
    let host = |t: &&Tensor| t.device().is_cpu() && t.dtype() == DType::F32;
    !KERNELS_OFF.get() && tensors.iter().all(host)
}

/// Returns the type for sums and exponentials of tensors of this type, which is at least `f32`.
pub(super) fn wide_type(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

/// Returns the values of a contiguous `f32` storage.
pub(super) fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(data), Some((from, to))) => Ok(&data[from..to]),
        (CpuStorage::F32(_), None) => bail!("this kernel needs a contiguous tensor"),
        _ => bail!("this kernel needs f32 values"),
    }
}

/// Calls `work` with the values of `tensor`, copied if they are not contiguous.
pub(super) fn lend<R>(tensor: &Tensor, work: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    work(&lent(&tensor.contiguous()?)?)
}

/// Lends the values of a contiguous `f32` tensor on the CPU, for as long as they are read.
///
/// # Errors
/// Returns an error if the tensor is another one.
pub(super) fn lent(tensor: &Tensor) -> Result<Lent<'_>> {
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        Storage::Cpu(data) => values(data, layout)?,
        _ => bail!("this kernel runs on the CPU only"),
    };
    let from = layout.start_offset();
    Ok(Lent { range: from..from + layout.shape().elem_count(), storage })
}

/// Borrowed values of a tensor, see [`lent`].
pub(super) struct Lent<'a> {
    storage: StorageRef<'a>,
    range: Range<usize>,
}

impl Deref for Lent<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(CpuStorage::F32(data)) => &data[self.range.clone()],
            _ => unreachable!("checked when it was lent"),
        }
    }
}

/// Returns the result of `work` on the values of `a` and `b`, as a tensor of the shape of `like`.
pub(super) fn of_values(
    (a, b): (&Tensor, &Tensor),
    like: &Tensor,
    work: impl FnOnce(&[f32], &[f32]) -> Vec<f32>,
) -> Result<Tensor> {
    tensor_like(lend(a, |a| lend(b, |b| Ok(work(a, b))))?, like)
}

/// Returns a CPU tensor of the shape of `like`.
pub(super) fn tensor_like(data: Vec<f32>, like: &Tensor) -> Result<Tensor> {
    Tensor::from_vec(data, like.shape().clone(), &Device::Cpu)
}
