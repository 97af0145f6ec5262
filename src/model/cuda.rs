//! GPUs through CUDA: opening one, and how much of its memory is in use.
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
    /// One of its device objects.
    device: Device,
    /// Largest peak among those that were forgotten.
    highest: u64,
}

/// Returns the peak of tensors on one GPU of this process in bytes; `None` without a GPU.
pub(super) fn highest() -> Option<u64> {
    let opened = OPENED.lock();
    opened.values().filter_map(|gpu| Some(peak(&gpu.device).ok()?.max(gpu.highest))).max()
}

/// The memory pool that every tensor on a GPU comes from.
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

/// Bytes of tensors on the GPU now.
pub(super) fn used(device: &Device) -> Result<u64> {
    device.synchronize()?;
    Pool::of(device)?.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
}

/// Bytes of the GPU's memory, in use or not.
pub(super) fn total(device: &Device) -> Result<u64> {
    Pool::of(device)?;
    Ok(result::mem_get_info().w()?.1 as u64)
}

/// Returns the most bytes of tensors there have been since [`forget_peak`].
pub(super) fn peak(device: &Device) -> Result<u64> {
    device.synchronize()?;
    Pool::of(device)?.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH)
}

/// Starts [`peak`] again.
pub(super) fn forget_peak(device: &Device) -> Result<()> {
    let here = device.location();
    let forgotten = peak(device)?;
    for gpu in OPENED.lock().values_mut().filter(|gpu| gpu.device.location() == here) {
        gpu.highest = gpu.highest.max(forgotten);
    }
    Pool::of(device)?.set(Attribute::CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0)
}

/// Bytes that can still be had: free ones, and those the pool holds without using them.
pub(super) fn free(device: &Device) -> Result<u64> {
    let pool = Pool::of(device)?;
    let reserved = pool.get(Attribute::CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)?;
    let used = pool.get(Attribute::CU_MEMPOOL_ATTR_USED_MEM_CURRENT)?;
    let (free, _) = result::mem_get_info().w()?;
    Ok(free as u64 + reserved.saturating_sub(used))
}

/// Waits until what was dropped is free, and gives the driver what the pool does not use: after a
/// full memory, what lies in pieces of other sizes or waits in the stream.
pub(super) fn settle(device: &Device) -> Result<()> {
    device.synchronize()?;
    let Pool(pool) = Pool::of(device)?;
    // SAFETY: the pool is the device's own; nothing in use is touched.
    unsafe { sys::cuMemPoolTrimTo(pool, 0) }.result().w()
}
