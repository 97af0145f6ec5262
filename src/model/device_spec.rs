//! Device of tensors, and the type that networks compute in.

use candle_core::{DType, Device};

use super::ops::Precision;

/// A device and the type of activations and frozen weights on it.
///
/// Trainable values, heads, losses and features are `f32` everywhere; `bf16` halves the data of the layers in between.
/// On a CPU, tensors of `bf16` are slower; only rounding the factors of matrix products is faster there.
#[derive(Clone, Debug)]
pub struct DeviceSpec {
    /// Device of the tensors.
    pub device: Device,
    /// `F32` or `BF16`.
    pub compute: DType,
    /// Precision of the products of a transformer's blocks, on a CPU.
    pub products: Precision,
}

impl DeviceSpec {
    /// Returns the CPU, in `f32`.
    pub fn cpu() -> DeviceSpec {
        DeviceSpec { device: Device::Cpu, compute: DType::F32, products: Precision::F32 }
    }

    /// Returns true if both have the same device object and type. Two objects of one GPU differ.
    pub fn same(&self, other: &DeviceSpec) -> bool {
        self.device.same_device(&other.device)
            && (self.compute, self.products) == (other.compute, other.products)
    }
}

impl Default for DeviceSpec {
    fn default() -> DeviceSpec {
        DeviceSpec::cpu()
    }
}
