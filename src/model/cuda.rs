//! GPUs through CUDA: opening a device, and its memory in use.
//!
//! Written against candle 0.11 and cudarc 0.19; run on an H100.

use parking_lot::Mutex;
use std::collections::BTreeMap;

use candle_core::cuda_backend::WrapErr;
use candle_core::cuda_backend::cudarc::driver::{result, sys};
use candle_core::{Device, Result};

use sys::CUmemPool_attribute as Attribute;

/// Opens a device object on a GPU for the use of one worker, with its own stream.
pub(super) fn open(index: usize) -> Result<Device> {
    let device = Device::new_cuda_with_stream(index)?;
    let cuda = device.as_cuda_device()?;
    // SAFETY: events order the streams of tensors that are shared between device objects. Ours
    // are not: a worker's tensors stay on its own stream (see `RunContext::to_device` and `Predictor::to_device`).
    unsafe { cuda.disable_event_tracking() };
    let mut opened = OPENED.lock();
    if let std::collections::btree_map::Entry::Vacant(new) = opened.entry(index) {
        // Freed memory stays in the GPU's pool instead of going back to the driver at every synchronization.
        Pool::of(&device)?.set(Attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, u64::MAX)?;
        new.insert(OpenGpu { device: device.clone(), highest: 0 });
    }
    Ok(device)
}

/// GPUs that this process uses, by index.
static OPENED: Mutex<BTreeMap<usize, OpenGpu>> = Mutex::new(BTreeMap::new());

struct OpenGpu {
    /// One of the GPU's device objects.
    device: Device,
    /// Largest peak before a reset.
    highest: u64,
}

/// Returns the peak of tensor memory on any GPU of this process, in bytes; `None` without a GPU.
pub(super) fn highest() -> Option<u64> {
    let opened = OPENED.lock();
    opened.values().filter_map(|gpu| Some(peak(&gpu.device).ok()?.max(gpu.highest))).max()
}

/// Memory pool of all tensors on a GPU.
struct Pool(sys::CUmemoryPool);

impl Pool {
    fn of(device: &Device) -> Result<Pool> {
        let stream = device.as_cuda_device()?.cuda_stream();
        stream.context().bind_to_thread().w()?;
        // SAFETY: the handle is that of an open device.
        unsafe { result::device::get_default_mem_pool(stream.context().cu_device()) }.w().map(Pool)
    }

    fn set(&self, attribute: Attribute, mut value: u64) -> Result<()> {
        // SAFETY: the pool is the device's own and lives as long; the attributes used here are
        // 64-bit numbers.
        unsafe { result::mem_pool::set_attribute(self.0, attribute, (&raw mut value).cast()) }.w()
    }

    fn get(&self, attribute: Attribute) -> Result<u64> {
        let mut value = 0u64;
        // SAFETY: as in `set`.
        unsafe { result::mem_pool::get_attribute(self.0, attribute, (&raw mut value).cast()) }
            .w()?;
        Ok(value)
    }
}

/// Returns the bytes of tensors now on the GPU.
pub(super) fn used(device: &Device) -> Result<u64> {
    device.synchronize()?;
    Pool::of(device)?.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
}

/// Returns the GPU's memory in bytes, in use or not.
pub(super) fn total(device: &Device) -> Result<u64> {
    Pool::of(device)?;
    Ok(result::mem_get_info().w()?.1 as u64)
}

/// Returns the peak of tensor memory since [`forget_peak`], in bytes.
pub(super) fn peak(device: &Device) -> Result<u64> {
    device.synchronize()?;
    Pool::of(device)?.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)
}

/// Resets [`peak`].
pub(super) fn forget_peak(device: &Device) -> Result<()> {
    let here = device.location();
    let forgotten = peak(device)?;
    for gpu in OPENED.lock().values_mut().filter(|gpu| gpu.device.location() == here) {
        gpu.highest = gpu.highest.max(forgotten);
    }
    Pool::of(device)?.set(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)
}

/// Returns the bytes that can still be allocated: free ones, and those that the pool holds unused.
pub(super) fn free(device: &Device) -> Result<u64> {
    let pool = Pool::of(device)?;
    let reserved = pool.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
    let used = pool.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
    let (free, _) = result::mem_get_info().w()?;
    Ok(free as u64 + reserved.saturating_sub(used))
}

/// Waits until dropped tensors are freed, and returns unused memory of the pool to the driver.
///
/// It helps when memory is full, and free memory is fragmented or still queued in the stream.
pub(super) fn settle(device: &Device) -> Result<()> {
    device.synchronize()?;
    let Pool(pool) = Pool::of(device)?;
    // SAFETY: the pool is the device's own; nothing in use is touched.
    unsafe { sys::cuMemPoolTrimTo(pool, 0) }.result().w()
}
