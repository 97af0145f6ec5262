//! Custom kernels for NVIDIA GPUs, for operations that candle computes in many passes over memory.
//!
//! A composed softmax reads and writes its rows seven times, a composed layer norm ten times, and heads of attention
//! are transposed copy by copy. `kernels.cu` has one kernel for each; matrix products stay cuBLAS's. All sums are in
//! `f32` and in a fixed order. Callers check [`serves`] first, and otherwise compose the operation of candle's.

mod heads;
mod launch;
mod rows;

pub(super) use heads::{GpuHeads, merge, pack, prefix_gradient, split};
pub(super) use rows::{
    add_bias, add_bias_and, add_columns, gelu, gelu_gradient, layer_norm, layer_norm_gradient,
    softmax, softmax_gradient,
};

use candle_core::{DType, Tensor};

/// Returns true if these kernels support all tensors: all `f32` or all `bf16`, on a GPU.
pub(super) fn serves(tensors: &[&Tensor]) -> bool {
    let dtype = tensors.first().map(|t| t.dtype());
    cfg!(feature = "cuda")
        && matches!(dtype, Some(DType::F32 | DType::BF16))
        && tensors.iter().all(|t| t.device().is_cuda() && Some(t.dtype()) == dtype)
}
