//! Opening of the device that a scenario names.
//!
//! A GPU needs a program built with the cargo feature `cuda`. Every worker opens its own device object, with its own
//! stream and handles: two workers of a GPU overlap, and no tensor ever crosses from one to the other except through
//! the host.

use candle_core::DType;
use thiserror::Error;

use super::DeviceSpec;
use super::ops::Precision;
use crate::exit::{CommandError, Exit};
use crate::scenario::{Compute, DeviceName};

/// Reason why a device cannot be used.
#[derive(Debug, Error)]
pub enum DeviceError {
    /// GPU requested in a program that was built for the CPU.
    #[error(
        "{device} is asked for, and this program computes on CPUs only\n  \
         build it with `eval \"$(tools/cuda-toolkit.sh --lean)\"` and \
         `cargo build --release --features cuda`, or set devices.use = [\"cpu\"]"
    )]
    NotBuilt {
        /// Requested device.
        device: DeviceName,
    },
    /// Device that the driver refuses.
    #[error(
        "{device} cannot be used: {reason}\n  \
         `nvidia-smi -L` lists the GPUs of this machine; set devices.use = [\"cpu\"] to do without"
    )]
    Refused {
        /// Requested device.
        device: DeviceName,
        /// Message of the driver.
        reason: String,
    },
}

impl DeviceError {
    /// Returns the error for a device that the driver refuses, without candle's backtrace.
    pub fn refused(device: DeviceName, error: &candle_core::Error) -> DeviceError {
        let reason = error.to_string().lines().next().unwrap_or_default().to_owned();
        DeviceError::Refused { device, reason }
    }
}

impl DeviceSpec {
    /// Opens a device for one worker.
    ///
    /// # Errors
    /// Returns an error if the GPU does not exist, or if the program was built without GPU support.
    pub fn open(device: DeviceName, compute: Compute) -> Result<DeviceSpec, DeviceError> {
        match device {
            DeviceName::Cpu => Ok(DeviceSpec { products: precision(compute), ..DeviceSpec::cpu() }),
            DeviceName::Cuda(index) => {
                let compute = match compute {
                    Compute::F32 => DType::F32,
                    Compute::Auto | Compute::Bf16 => DType::BF16,
                };
                Ok(DeviceSpec { device: open_gpu(index)?, compute, ..DeviceSpec::cpu() })
            }
        }
    }
}

/// Returns the precision of matrix products on a CPU.
fn precision(compute: Compute) -> Precision {
    match compute {
        Compute::Auto | Compute::F32 => Precision::F32,
        Compute::Bf16 => Precision::Bf16,
    }
}

#[cfg(feature = "cuda")]
fn open_gpu(index: usize) -> Result<candle_core::Device, DeviceError> {
    super::cuda::open(index).map_err(|error| DeviceError::refused(DeviceName::Cuda(index), &error))
}

#[cfg(not(feature = "cuda"))]
fn open_gpu(index: usize) -> Result<candle_core::Device, DeviceError> {
    Err(DeviceError::NotBuilt { device: DeviceName::Cuda(index) })
}

/// Returns true if a tensor operation failed because the memory of its device is full.
pub fn is_out_of_memory(error: &candle_core::Error) -> bool {
    // The driver reports CUDA_ERROR_OUT_OF_MEMORY, cuBLAS and cuRAND a failed allocation.
    let text = error.to_string();
    ["OUT_OF_MEMORY", "out of memory", "ALLOC_FAILED", "ALLOCATION_FAILED"]
        .iter()
        .any(|sign| text.contains(sign))
}

impl CommandError for DeviceError {
    fn exit_code(&self) -> Exit {
        Exit::Device
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_cannot_be_had_says_what_to_do() {
        assert!(
            DeviceSpec::open(DeviceName::Cpu, Compute::Auto)
                .is_ok_and(|p| p.same(&DeviceSpec::cpu()))
        );
        let half = DeviceSpec::open(DeviceName::Cpu, Compute::Bf16).unwrap();
        assert_eq!((half.compute, half.products), (DType::F32, Precision::Bf16));
        assert!(!half.same(&DeviceSpec::cpu()));
        // No machine has this many.
        let error =
            DeviceSpec::open(DeviceName::Cuda(4_000), Compute::Auto).unwrap_err().to_string();
        assert!(error.contains("cuda:4000"), "{error}");
        assert!(error.contains("devices.use = [\"cpu\"]"), "{error}");
    }

    #[test]
    fn a_refusal_is_one_line_of_the_driver() {
        let error = candle_core::Error::Msg("CUDA_ERROR_NO_DEVICE\n   0: main".into());
        let message = DeviceError::refused(DeviceName::Cuda(1), &error).to_string();
        assert!(
            message.starts_with("cuda:1 cannot be used: CUDA_ERROR_NO_DEVICE\n  `nvidia-smi"),
            "{message}"
        );
    }

    #[test]
    fn full_memory_is_recognised_and_other_failures_are_not() {
        let of = |text: &str| is_out_of_memory(&candle_core::Error::Msg(text.into()));
        assert!(of("DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")"));
        assert!(of("CublasError(CUBLAS_STATUS_ALLOC_FAILED)"));
        assert!(!of("shape mismatch in matmul, lhs: [2, 3], rhs: [4, 5]"));
    }
}
