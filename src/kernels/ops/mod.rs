//! Differentiable kernels for operations that candle computes slowly, wrongly or not at all on the CPU.
//!
//! candle's fused layer norm and softmax silently cut the gradient, its `matmul` always computes the gradient of both
//! operands (also of frozen weights), and its backward pass copies and transposes a lot. Its products, sums over the
//! last dimension, exponentials and logarithms depend on the CPU; every operation here has the same bits on all of
//! them. The operations have their own backward passes:
//!
//! | op | computes | gradients |
//! |---|---|---|
//! | [`linear()`] | `x W^T + b` | `x`, and `W`, `b` where they are variables |
//! | [`layer_norm()`] | normalized rows, affine | `x`, and the affine where it is a variable |
//! | [`gelu()`] | exact (erf) GELU | `x` |
//! | [`quick_gelu()`] | `x s(1.702 x)` with the logistic function `s` | `x` |
//! | [`relu()`] | `max(x, 0)`, slope 0 at 0 | `x` |
//! | [`leaky_relu()`] | `x`, a fraction of it below 0 | `x` |
//! | [`tanh()`] | hyperbolic tangent | `x` |
//! | [`sigmoid()`] | logistic function | `x` |
//! | [`attention()`] | multi-head attention on packed q, k, v with an optional prefix | packed input and prefix |
//! | [`conv2d()`] | convolution of channels-last images | `x` and weight where they are variables |
//! | [`conv_transpose2d()`] | transposed convolution of channels-last images | `x` and weight where they are variables |
//! | [`max_pool()`] | largest value of every window of channels-last images | `x` |
//! | [`upsample()`] | channels-last images of twice the size | `x` |
//! | [`differentiable_moments()`] | mean and variance of every channel | `x` |
//! | [`batch_norm()`] | normalized channels, affine, residual, rectified | `x`, residual, and the affine where it is a variable |
//! | [`cross_entropy()`] | mean softmax cross-entropy on a slice of columns | logits |
//! | [`softmax()`] | rows of scores to probabilities | scores |
//! | [`exp()`], [`log()`] | elementary functions of every entry | `x` |
//! | [`sum()`], [`mean()`], [`sum_all()`], [`mean_all()`] | sums and means over one dimension or all | `x` |
//! | [`unit_rows()`] | rows over their lengths | `x` |
//! | [`add_columns()`] | a matrix added to some columns of a wider one | both |
//! | [`scale_rows()`], [`shift_rows()`] | rows times a number each, or plus one | `x` and the numbers |
//!
//! Each is **one function**. On the CPU in `f32` it runs our kernel; on any other device or
//! type it is composed of candle's tensor operations, with sums and exponentials in `f32`
//! ([`without_kernels`] takes that path on the CPU too, and the tests compare the two). There
//! the result has the type of the input: parameters of a wider type are narrowed on the way
//! in and get their gradient in their own type, so `f32` variables train under `bf16`
//! activations. An operand that is not tracked (neither a `Var` nor computed from one) never
//! gets a gradient. Kernels use one thread: clients are what runs in parallel.
//!
//! [`frozen_attention()`] and [`frozen_perceptron()`] are the halves of a transformer block whose layers are frozen,
//! each as one op with the bits of those above, on the CPU in `f32` only; [`Affine`] computes them elsewhere.
//! [`trained_attention()`] and [`trained_perceptron()`] are the same halves where layers, or low-rank pairs parallel to
//! them, train. [`conv_norm()`] is a convolution and the batch norm behind it as one op of training, on the CPU in
//! `f32` only.
//!
//! The `_at` forms of linear layer and attention take a [`Precision`] of products.
//!
//! The `grouped_` forms of linear layer, attention and cross-entropy serve the members of a pack in one call:
//! [`SampleGroups`] assigns samples to members.
//!
//! ```
//! use candle_core::{Device, Tensor, Var};
//! use fedcast_kernels::ops;
//! # fn main() -> candle_core::Result<()> {
//! let device = Device::Cpu;
//! let x = Var::new(&[[1f32, 2.0]], &device)?;
//! let frozen = Tensor::new(&[[1f32, 0.0], [0.0, 1.0], [1.0, 1.0]], &device)?;
//! let y = ops::linear(&x, &frozen, None)?; // (1, 2) x (3, 2)^T
//! let grads = y.sum_all()?.backward()?;
//! assert_eq!(grads.get(&x).unwrap().to_vec2::<f32>()?, [[2.0, 2.0]]);
//! assert!(grads.get(&frozen).is_none());
//! # Ok(())
//! # }
//! ```

mod activation;
mod add_columns;
mod affine;
mod attention;
mod attention_composed;
#[allow(unsafe_code)]
mod attention_kernel;
mod batch_norm;
mod bf16;
mod bundle;
mod by_row;
mod channel_moments;
mod conv2d;
mod conv_norm;
mod conv_transpose2d;
mod cross_entropy;
mod elementary;
#[cfg(test)]
mod everywhere;
mod few_rows;
mod frozen;
mod gelu;
mod gpu;
mod groups;
mod layer_norm;
mod leaky_relu;
mod linear;
#[allow(unsafe_code)]
pub mod matrix;
mod max_pool;
mod pointwise;
mod quick_gelu;
mod relu;
mod sigmoid;
mod softmax;
mod stock;
mod storage;
mod sums;
mod tanh;
pub mod testing;
mod trained;
mod unfold;
mod unit_rows;
mod upsample;
mod winograd;
mod with_gradient;

pub use activation::PerceptronActivation;
pub use add_columns::add_columns;
pub use affine::Affine;
pub use attention::{attention, attention_at, grouped_attention, grouped_attention_at};
pub use batch_norm::{BatchNormStatistics, ChannelAffine, batch_norm};
pub use by_row::{scale_rows, shift_rows};
pub use channel_moments::{ChannelMoments, channel_moments, differentiable_moments};
pub use conv_norm::{ConvNormLayers, conv_norm};
pub use conv_transpose2d::conv_transpose2d;
pub use conv2d::conv2d;
pub use cross_entropy::{cross_entropy, grouped_cross_entropy};
pub use elementary::{exp, log};
pub use frozen::{Attended, frozen_attention, frozen_perceptron};
pub use gelu::gelu;
pub use groups::SampleGroups;
pub use layer_norm::layer_norm;
pub use leaky_relu::leaky_relu;
pub use linear::{grouped_linear, grouped_linear_at, linear, linear_at};
pub use matrix::Precision;
pub use max_pool::max_pool;
pub use quick_gelu::quick_gelu;
pub use relu::relu;
pub use sigmoid::sigmoid;
pub use softmax::softmax;
pub use storage::{served, without_kernels};
pub use sums::{mean, mean_all, sum, sum_all};
pub use tanh::tanh;
pub use trained::{AdaptedLinear, LowRankPair, trained_attention, trained_perceptron};
pub use unit_rows::unit_rows;
pub use upsample::upsample;
