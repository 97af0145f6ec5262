//! Current memory use of a GPU.

use candle_core::{Device, Result};

/// Memory of one GPU, which all its workers share. CPUs have none.
#[derive(Clone, Debug)]
pub struct GpuMemory {
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "no GPU can be opened"))]
    device: Device,
}

impl GpuMemory {
    /// Returns the memory of `device`, if it is a GPU.
    pub fn of(device: &Device) -> Option<GpuMemory> {
        device.is_cuda().then(|| GpuMemory { device: device.clone() })
    }
}

/// Returns the peak of tensors on one GPU of this process so far, in megabytes (10^6).
///
/// With several GPUs it is the largest of their peaks; `None` without a GPU.
pub fn peak_gpu_memory_mb() -> Option<f64> {
    #[cfg(feature = "cuda")]
    let bytes = super::cuda::highest();
    #[cfg(not(feature = "cuda"))]
    let bytes: Option<u64> = None;
    bytes.map(|bytes| bytes as f64 / 1e6)
}

#[cfg(feature = "cuda")]
impl GpuMemory {
    /// Returns the memory of the GPU in bytes, in use or not.
    ///
    /// # Errors
    /// Returns an error if the driver fails, as do all functions here.
    pub fn total(&self) -> Result<u64> {
        super::cuda::total(&self.device)
    }

    /// Returns the bytes of tensors now.
    pub fn used(&self) -> Result<u64> {
        super::cuda::used(&self.device)
    }

    /// Returns the bytes that can still be allocated.
    pub fn free(&self) -> Result<u64> {
        super::cuda::free(&self.device)
    }

    /// Returns the peak of tensor memory since [`GpuMemory::forget_peak`], in bytes.
    pub fn peak(&self) -> Result<u64> {
        super::cuda::peak(&self.device)
    }

    /// Resets [`GpuMemory::peak`].
    pub fn forget_peak(&self) -> Result<()> {
        super::cuda::forget_peak(&self.device)
    }

    /// Waits until dropped tensors are freed, and returns unused memory of the pool to the driver.
    pub fn settle(&self) -> Result<()> {
        super::cuda::settle(&self.device)
    }
}

#[cfg(not(feature = "cuda"))]
impl GpuMemory {
    /// Returns the memory of the GPU in bytes, in use or not.
    ///
    /// # Errors
    /// Returns an error in a program without GPU support, as do all functions here.
    pub fn total(&self) -> Result<u64> {
        Err(candle_core::Error::NotCompiledWithCudaSupport)
    }

    /// Returns the bytes of tensors now.
    pub fn used(&self) -> Result<u64> {
        self.total()
    }

    /// Returns the bytes that can still be allocated.
    pub fn free(&self) -> Result<u64> {
        self.total()
    }

    /// Returns the peak of tensor memory since [`GpuMemory::forget_peak`], in bytes.
    pub fn peak(&self) -> Result<u64> {
        self.total()
    }

    /// Resets [`GpuMemory::peak`].
    pub fn forget_peak(&self) -> Result<()> {
        self.total().map(|_| ())
    }

    /// Waits until dropped tensors are freed, and returns unused memory of the pool to the driver.
    pub fn settle(&self) -> Result<()> {
        self.total().map(|_| ())
    }
}
