//! The memory of a GPU as it is at the moment.

use candle_core::{Device, Result};

/// Memory of one GPU, which all its workers share. A CPU has none.
#[derive(Clone, Debug)]
pub struct GpuMemory {
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "no GPU can be opened"))]
    device: Device,
}

impl GpuMemory {
    /// That of `device`, if it is a GPU.
    pub fn of(device: &Device) -> Option<GpuMemory> {
        device.is_cuda().then(|| GpuMemory { device: device.clone() })
    }
}

/// Returns the peak of tensors on one GPU of this process so far, in megabytes (10^6).
///
/// It is the largest of all its GPUs; `None` without one.
pub fn peak_gpu_memory_mb() -> Option<f64> {
    #[cfg(feature = "cuda")]
    let bytes = super::cuda::highest();
    #[cfg(not(feature = "cuda"))]
    let bytes: Option<u64> = None;
    bytes.map(|bytes| bytes as f64 / 1e6)
}

#[cfg(feature = "cuda")]
impl GpuMemory {
    /// Bytes in use or not.
    ///
    /// # Errors
    /// What the driver reports; so do all of these.
    pub fn total(&self) -> Result<u64> {
        super::cuda::total(&self.device)
    }

    /// Bytes of tensors now.
    pub fn used(&self) -> Result<u64> {
        super::cuda::used(&self.device)
    }

    /// Bytes that can still be had.
    pub fn free(&self) -> Result<u64> {
        super::cuda::free(&self.device)
    }

    /// Returns the most bytes of tensors since [`GpuMemory::forget_peak`].
    pub fn peak(&self) -> Result<u64> {
        super::cuda::peak(&self.device)
    }

    /// Starts [`GpuMemory::peak`] again.
    pub fn forget_peak(&self) -> Result<()> {
        super::cuda::forget_peak(&self.device)
    }

    /// Waits until what was dropped is free, and gives the driver what the pool does not use.
    pub fn settle(&self) -> Result<()> {
        super::cuda::settle(&self.device)
    }
}

#[cfg(not(feature = "cuda"))]
impl GpuMemory {
    /// Bytes in use or not.
    ///
    /// # Errors
    /// Always, in a program without GPUs; so do all of these.
    pub fn total(&self) -> Result<u64> {
        Err(candle_core::Error::NotCompiledWithCudaSupport)
    }

    /// Bytes of tensors now.
    pub fn used(&self) -> Result<u64> {
        self.total()
    }

    /// Bytes that can still be had.
    pub fn free(&self) -> Result<u64> {
        self.total()
    }

    /// Returns the most bytes of tensors since [`GpuMemory::forget_peak`].
    pub fn peak(&self) -> Result<u64> {
        self.total()
    }

    /// Starts [`GpuMemory::peak`] again.
    pub fn forget_peak(&self) -> Result<()> {
        self.total().map(|_| ())
    }

    /// Waits until what was dropped is free, and gives the driver what the pool does not use.
    pub fn settle(&self) -> Result<()> {
        self.total().map(|_| ())
    }
}
